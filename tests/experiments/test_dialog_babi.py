"""The dialogue experiment: the parallel text that `prepare.py` writes, and per-dialogue accuracy by hand."""

import gzip
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments/dialog-babi"

DIALOGUES = """\
1 hi\thello  there
2 a table for two\tapi_call two
3 resto R_rating 3
4 <SILENCE>\tresto it is

1 hi\thello there
"""


@pytest.fixture(scope="module")
def prepare():
    return SimpleNamespace(**runpy.run_path(str(FOLDER / "prepare.py")))


@pytest.fixture(scope="module")
def metric():
    return runpy.run_path(str(FOLDER / "per_dialogue.py"))["PerDialogue"]


@pytest.fixture(scope="module")
def lines(prepare, tmp_path_factory):
    """Histories and responses of the test set of task 5."""
    folder = tmp_path_factory.mktemp("dialog-babi")
    for task, parts in prepare.TASKS.items():
        for part in parts:
            with gzip.open(folder / f"dialog-babi-task{task}{prepare.PARTS[part]}.txt.gz", "wt") as file:
                file.write(DIALOGUES)
    prepare.main([str(folder)])
    return [(folder / f"task-5/test.{side}").read_text().splitlines() for side in ("history", "response")]


def test_a_source_is_all_that_was_said_and_found_before_the_response(lines):
    assert list(zip(*lines, strict=True)) == [
        ("hi", "hello there"),
        ("hi hello there a table for two", "api_call two"),
        ("hi hello there a table for two api_call two resto R_rating 3 <SILENCE>", "resto it is"),
        ("hi", "hello there"),
    ]


def test_one_wrong_response_makes_its_dialogue_wrong(lines, metric):
    histories, responses = lines
    expected = Expected([responses], histories)
    last_wrong = [*responses[:2], "resto it was", responses[3]]
    scores = [metric.score(each, expected).value for each in (responses, last_wrong, [""] * 4)]
    assert scores == [100, 50, 0]
    # Dialogues are counted with their first lines, so that resampled lines are resampled dialogues.
    counts = CorpusCounts.of(metric.counting(expected), [last_wrong])
    assert counts.counts.tolist() == [[[0, 1], [0, 0], [0, 0], [1, 1]]]


def test_equal_dialogues_one_after_the_other_are_two(metric):
    expected = Expected([["hello", "yes", "hello", "yes"]], ["hi", "hi hello ok", "hi", "hi hello ok"])
    assert metric.score(["hello", "no", "hello", "yes"], expected).value == 50


def test_without_sources_nobody_knows_where_a_dialogue_begins(metric):
    assert metric.score(["hello"], Expected([["hello"]])) is None


@pytest.mark.parametrize("experiment", ["experiment.yaml", "dstc2.yaml"])
def test_the_arms_are_scored_by_response_and_by_dialogue(experiment, monkeypatch):
    monkeypatch.chdir(ROOT)
    for run in read_experiment(FOLDER / experiment).runs:
        assert [each.key for each in run.config.evaluation.chosen] == ["exact_match", "per_dialogue", "bleu"]


def test_responses_are_counted_by_what_they_say():
    responses = ["hello", "api_call two", "here it is R_phone", "take resto_a", "take resto_b", "bye"]
    first = ["hello", "api_call two", "here it is R_address", "take resto_a", "take resto_a", "hello"]
    found = runpy.run_path(str(FOLDER / "kinds.py"))["table"]({"one": [first, responses], "other": [first]}, responses)
    assert found.splitlines()[2:] == [
        "| others | 2 | 75.0 | 50.0 |",
        "| calls the service | 1 | 100.0 | 100.0 |",
        "| says a phone or an address | 1 | 50.0 | 0.0 |",
        "| names a restaurant | 2 | 75.0 | 50.0 |",
    ]
