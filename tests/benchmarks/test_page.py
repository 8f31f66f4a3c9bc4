"""Tables, page and plots show the measurements."""

from dataclasses import replace

import pytest
from hand_made_measurements import PEER, measurement

from benchmarks.page import plot_sweep, write_page
from benchmarks.tables import sitting_tables


def row(sitting, title, name):
    """The cells of a row, by their headers."""
    (table,) = (table for table in sitting_tables(sitting) if table.title == title)
    (cells,) = (cells for cells in table.rows if cells[0] == name)
    return dict(zip(table.header, cells, strict=True))


def test_a_system_is_shown_with_its_spread_and_its_share_of_the_floor(sitting):
    assert row(sitting, "The common task", "seq2seq_attn, additive, bf16") == {
        "": "seq2seq_attn, additive, bf16",
        "training, tokens/s": "6,512 (6,011 to 7,013)",
        "of the floor": "43%",  # 6,512 of 15,000
        "of its products": "33%",  # of 20,000
        "peak memory": "1.25 GB",
        "one sentence, beam 5, ms": "12.5 (12.0 to 13.0)",
    }


def test_a_peer_has_no_share_of_our_floor(sitting):
    assert row(sitting, "The common task", f"{PEER}, fp32")["of the floor"] == "–"


def test_a_ratio_above_one_is_in_our_favor_for_rates_and_for_times(sitting):
    ratios = row(sitting, "Times as fast as the peers", f"additive against {PEER}")
    assert ratios["training"] == "3.6 fp32, 6.5 bf16"  # 3,606 and 6,512 tokens/s to 1,002
    assert ratios["one sentence, beam 5"] == "6.1 bf16"  # 76 ms to 12.5


def test_a_profile_has_the_floor_of_each_part(sitting):
    title = "Where the time of a training step goes: additive, bf16"
    shown = row(sitting, title, "encoder")
    assert shown == {
        "": "encoder", "ms": "20.0", "share": "4%", "products' floor, ms": "3.3", "bytes' floor, ms": "0.0",
    }  # fmt: skip
    assert row(sitting, title, "optimizer")["bytes' floor, ms"] == "2.8"


def test_a_sweep_has_one_row_per_value_with_floor_and_memory(sitting):
    shown = row(sitting, "training, tokens/s, by length (of synthetic sentences)", "400")
    assert list(shown.values()) == ["400", "310 (310 to 310)", "6,647", "4.00 GB"]


def test_what_was_not_measured_is_not_shown(sitting):
    alone = replace(sitting, figures=[measurement("greedy", 5.0)])
    (table,) = sitting_tables(alone)
    assert (table.header, table.rows) == (["", "greedy, tokens/s"], [("seq2seq_attn, additive, bf16", "5")])
    (table,) = sitting_tables(replace(sitting, figures=[measurement("training", 5.0)]))
    assert table.header == ["", "training, tokens/s", "peak memory"]
    swept = [each for each in sitting.figures if each.job.sweep and each.job.what == "training"]
    (table,) = sitting_tables(replace(sitting, figures=swept))
    assert not any("floor" in cell for cell in table.header)
    picture = plot_sweep(replace(sitting, figures=swept), "length", "training", swept)
    assert not any("floor" in line.get_label() for line in picture.axes[0].lines)
    assert any("floor" in line.get_label() for line in plot_sweep(sitting, "length", "training", swept).axes[0].lines)


def test_the_page_has_every_cell_and_every_plot(sitting, tmp_path):
    sitting.save(tmp_path / "speed.json")
    page, *pictures = write_page(tmp_path / "docs" / "speed.md", [tmp_path / "speed.json"])
    text = page.read_text()
    shown_rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    for table in sitting_tables(sitting):
        for cells in table.rows:
            assert [*cells] in shown_rows
    assert "two cores. seq2seq_attn 0.1.0, commit unknown. 19 pairs; 11 batches after 3 to warm up, 2 rounds." in text
    shown = ["1_training.svg", "1_parts.svg", "1_training_by_length.svg"]
    assert [picture.name for picture in pictures] == shown
    assert all(f"](speed/{name})" in text and (page.parent / "speed" / name).exists() for name in shown)


@pytest.mark.parametrize("missing", ["training", "profile"])
def test_there_is_no_plot_without_measurements(sitting, tmp_path, missing):
    left = replace(sitting, figures=[each for each in sitting.figures if each.job.what != missing])
    left.save(tmp_path / "speed.json")
    names = {path.stem for path in write_page(tmp_path / "speed.md", [tmp_path / "speed.json"])[1:]}
    every = {"1_training", "1_parts", "1_training_by_length"}
    assert every - names == ({"1_parts"} if missing == "profile" else {"1_training", "1_training_by_length"})
