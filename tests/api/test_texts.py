"""Lines in memory as the data of a run."""

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.corpora.corpus import read_parallel
from seq2seq_attn.runs import MODEL


@pytest.fixture
def values(grid):
    """A configuration whose data are lines, some of them no lists."""
    values = grid.runs[2].config.model_dump(mode="json", exclude_defaults=True)
    for part, files in values["data"].items():
        pairs = read_parallel(files["source"], files["target"])
        values["data"][part] = {"source": list(pairs.source), "target": tuple(pairs.target)}
    return values


def test_a_run_on_lines_is_that_on_files_with_the_same_lines(values, grid, tmp_path):
    s2s.train(values, tmp_path / "run", silent=True)
    s2s.train(grid.runs[2].config, tmp_path / "of files", silent=True)
    assert (tmp_path / "run" / MODEL).read_bytes() == (tmp_path / "of files" / MODEL).read_bytes()
    again = s2s.train(values, tmp_path / "run", silent=True, if_exists="resume", training={"max_epochs": 3})
    assert again.metrics["training"]["epochs"] == 3
    assert not s2s.verify(tmp_path / "run").is_wrong
    assert (tmp_path / "run.data" / "train.source.txt").read_text().splitlines() == values["data"]["train"]["source"]


def test_other_lines_replace_them_only_where_the_run_is_replaced(values, tmp_path):
    s2s.train(values, tmp_path / "run", silent=True)
    values["data"]["train"] = {"source": ["a b"] * 9, "target": ["b a"] * 9}
    with pytest.raises(s2s.UserError, match=r"train\.source\.txt: the file exists and nothing is overwritten"):
        s2s.train(values, tmp_path / "run", silent=True, if_exists="resume")
    s2s.train(values, tmp_path / "run", silent=True, if_exists="overwrite")
    assert (tmp_path / "run.data" / "train.target.txt").read_text() == "b a\n" * 9


@pytest.mark.parametrize(
    ("line", "reason"), [(None, "None is not text"), ("a\nb", "has a line break"), (float("nan"), "nan is not text")]
)
def test_what_is_no_line_is_named_by_its_place(values, tmp_path, line, reason):
    values["data"]["train"] = [values["data"]["train"], {"source": ["a", line], "target": ["a", "b"]}]
    with pytest.raises(s2s.UserError, match=rf"data\.train\.1\.source, line 2: {reason}"):
        s2s.train(values, tmp_path / "run", silent=True)
    assert not (tmp_path / "run.data").exists()


@pytest.mark.parametrize("place", [".", ".."])
def test_no_lines_are_written_beside_a_folder_that_is_refused(values, tmp_path, monkeypatch, place):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with pytest.raises(s2s.UserError, match="is the current folder, or contains it"):
        s2s.train(values, place, silent=True)
    assert not list(tmp_path.rglob("*.data"))
