"""The demo's grid; that it trains is checked by `seq2seq-attn demo --quick` in .ci/run."""

import pytest

from seq2seq_attn.comparison import compare as demo_file
from seq2seq_attn.comparison.compare import demo_grid

ARMS = ["distracted (C at every step)", "distracted (C as initial state only)", "mean of states", "additive attention"]


def test_the_arms_are_those_of_the_readme_and_their_files_exist(tmp_path):
    grid = demo_grid(tmp_path)
    assert [run.arm for run in grid.runs] == ARMS
    assert [run.config.model.context.kind for run in grid.runs] == ["fixed", "none", "mean", "attention"]
    data = grid.runs[0].config.data
    assert all(path.exists() for path in (data.train.source, data.validation.target, data.test.alignments))
    assert not list(tmp_path.iterdir()), "the committed corpus is used where it is"


@pytest.mark.parametrize("quick", [False, True])
def test_without_a_checkout_the_same_corpus_is_generated(tmp_path, monkeypatch, quick):
    committed = demo_grid(tmp_path).runs[0].config.data.test
    monkeypatch.setattr(demo_file, "CORPUS", "reverse")  # not committed, and fast to generate
    made = demo_grid(tmp_path, quick).runs[0].config.data.test
    assert made.alignments == tmp_path / "data" / "reverse" / "test.align"
    assert made.alignments.exists()
    assert committed.alignments.exists()
