"""The demo's grid; `.ci/run` checks with `seq2seq-attn demo --quick` that it trains."""

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.comparison.demo import demo_grid
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import read_lines

ARMS = ["distracted (C at every step)", "distracted (C as initial state only)", "mean of states", "additive attention"]


def test_the_arms_are_those_of_the_readme_and_their_files_exist():
    grid = demo_grid()
    assert [run.arm for run in grid.runs] == ARMS
    assert [run.config.model.context.kind for run in grid.runs] == ["fixed", "none", "mean", "attention"]
    data = grid.runs[0].config.data
    assert all(path.exists() for path in (data.train.source, data.validation.target, data.test.alignments))
    longest = max(len(line.split()) for line in read_lines(data.test.source))
    assert data.max_training_length < longest, "the test has longer sentences than the training"


def test_the_quick_demo_has_two_arms_on_short_sentences_and_a_note_that_says_so():
    quick = demo_grid(quick=True)
    assert [run.arm for run in quick.runs] == [ARMS[0], ARMS[-1]]
    assert "quick demo" in quick.experiment.note
    data = quick.runs[0].config.data
    for files in (data.train, data.validation, data.test):
        sources = read_lines(files.source)
        assert len(sources) == len(read_lines(files.target)) >= 500
        assert max(len(words.split()) for words in sources) == 10


def test_the_demo_refuses_a_folder_with_other_contents(tmp_path):
    (tmp_path / "notes.txt").write_text("years of work")
    with pytest.raises(UserError, match="exists and is not a comparison"):
        s2s.demo(tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_both_arms_of_the_quick_demo_are_trained_alike_and_those_of_the_demo_with_their_own_rates():
    quick, full = demo_grid(quick=True), demo_grid()
    assert {
        (run.config.training.optimizer.schedule, run.config.training.optimizer.learning_rate) for run in quick.runs
    } == {("inverse_sqrt", 0.008)}
    assert [run.config.training.optimizer.learning_rate for run in full.runs] == [0.008, 0.004, 0.008, 0.004]
