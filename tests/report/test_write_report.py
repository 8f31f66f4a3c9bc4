"""The report of a results folder."""

import json

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.report import write as writing
from seq2seq_attn.report.table import markdown
from seq2seq_attn.report.write import write_report
from seq2seq_attn.results.records import slug
from seq2seq_attn.results.results import Results

JSON = {"results.json", "curves.json", "attention.json"}


@pytest.fixture
def drawn(monkeypatch):
    """Figures are not rendered, but described by the colors of their lines."""

    def describe(figure, kind):
        lines = [line for axes in figure.axes for line in axes.get_lines()]
        return json.dumps({line.get_label(): line.get_color() for line in lines}).encode()

    monkeypatch.setattr(writing, "render", describe)


def test_page_tables_and_figures_are_written_and_their_paths_returned(folder, drawn):
    written = write_report(folder)
    pictures = [
        "by_length",
        "curves",
        "attention_1_注意力",
        "attention_1_mean-of-states",
        "attention_1",  # both arms side by side
        "attention_2_注意力",  # one arm only, so no joint figure
    ]
    expected = {"report.html", "table.md", "table.tex", "table.csv", "where.csv"} | {
        f"{name}.{kind}" for name in pictures for kind in ("png", "svg")
    }
    assert {path.name for path in written} == expected
    assert {path.name for path in folder.iterdir()} == expected | JSON
    assert (folder / "table.md").read_text(encoding="utf-8") == markdown(Results.load(folder / "results.json"))


def test_results_that_are_published_alone_have_a_report(folder, drawn):
    for name in JSON - {"results.json"}:
        (folder / name).unlink()
    tables = {"report.html", "table.md", "table.tex", "table.csv", "where.csv"}
    assert {path.name for path in write_report(folder)} == tables | {"by_length.png", "by_length.svg"}


def test_a_sentence_with_too_many_arms_has_no_figures(folder, drawn, monkeypatch):
    monkeypatch.setattr(writing, "MOST_FIGURES", 1)
    names = {path.stem for path in write_report(folder) if path.suffix == ".svg"}
    assert names == {"by_length", "curves", "attention_2_注意力"}


def test_colors_do_not_depend_on_the_order_of_arms_in_the_curves_file(values, write, drawn):
    folder = write(values)
    write_report(folder)
    before = json.loads((folder / "curves.svg").read_bytes())
    values["curves.json"] = dict(reversed(values["curves.json"].items()))
    write_report(write(values))
    assert json.loads((folder / "curves.svg").read_bytes()) == before


@pytest.mark.parametrize("name", ["curves.json", "attention.json", "examples.json", "making.json"])
def test_an_arm_that_is_not_in_the_results_is_refused_and_nothing_is_written(name, all_values, write):
    folder = write(all_values)
    (folder / name).write_text((folder / name).read_text().replace("注意力", "stranger"))
    with pytest.raises(UserError, match=rf"{name}: arm 'stranger' is not in results.json, which has distracted"):
        write_report(folder)
    assert {path.name for path in folder.iterdir()} == set(all_values)


@pytest.mark.parametrize("name", sorted(JSON))
def test_a_malformed_file_is_refused_before_anything_is_written(name, folder):
    (folder / name).write_text("{")
    with pytest.raises(UserError, match=rf"{name}: not JSON"):
        write_report(folder)
    assert {path.name for path in folder.iterdir()} == JSON


def test_a_slug_keeps_letters_and_digits_of_any_script():
    assert slug("distracted (C at every step)") == "distracted-c-at-every-step"
    assert slug("注意力 2 (加性)") == "注意力-2-加性"
