"""The experiments on SCAN: the parallel text that `prepare.py` writes, and exact match with its tests."""

import gzip
import json
import runpy
from pathlib import Path

import pytest

from seq2seq_attn.comparison.experiment import read_experiment

ROOT = Path(__file__).parents[2]
COMMITTED = sorted(ROOT.glob("experiments/scan-*/results/exact.json"))


@pytest.fixture(scope="module")
def prepare():
    return runpy.run_path(str(ROOT / "experiments/scan-length/prepare.py"))


@pytest.fixture(scope="module")
def exact():
    return runpy.run_path(str(ROOT / "experiments/scan-length/exact.py"))


@pytest.fixture
def folder(tmp_path, prepare):
    for split in prepare["SPLITS"]:
        (tmp_path / split).mkdir()
        for part, count in (("train", 1_000), ("test", 3)):
            lines = (f"IN: walk {number} times OUT: {'I_WALK ' * (number % 20)}I_STOP\n" for number in range(count))
            with gzip.open(tmp_path / split / f"tasks_{part}_{split}.txt.gz", "wt", encoding="utf-8") as file:
                file.writelines(lines)
    prepare["main"]([str(tmp_path)])
    return tmp_path


def pairs_of(folder, split, part):
    commands, actions = (
        (folder / split / f"{part}.{side}").read_text("utf-8").splitlines() for side in ("commands", "actions")
    )
    return list(zip(commands, actions, strict=True))


@pytest.mark.parametrize("split", ["simple", "length"])
def test_a_command_and_its_actions_stand_on_the_same_line(folder, split):
    assert pairs_of(folder, split, "test") == [
        ("walk 0 times", "I_STOP"),
        ("walk 1 times", "I_WALK I_STOP"),
        ("walk 2 times", "I_WALK I_WALK I_STOP"),
    ]


def test_the_validation_pairs_are_training_pairs_from_its_whole_length(folder):
    train, validation = (pairs_of(folder, "length", part) for part in ("train", "validation"))
    assert len(train) == 1_000
    assert validation == train[::2]


def test_held_out_commands_are_longer_than_those_of_training(folder):
    train, validation, test = (pairs_of(folder, "held-out", part) for part in ("train", "validation", "test"))
    all_pairs = pairs_of(folder, "length", "train")
    assert train == [pair for pair in all_pairs if len(pair[1].split()) <= 16]
    assert {*validation, *test} == {*all_pairs} - {*train}
    assert not {*validation} & {*test}


def test_the_arms_of_both_experiments_differ_only_by_their_split_and_the_dropout_of_transformers():
    length, simple = (
        read_experiment(ROOT / f"experiments/scan-{split}/experiment.yaml") for split in ("length", "simple")
    )
    both = [run for run in length.runs if run.arm != "C at every step"]  # which only the length split has
    for one, other in zip(both, simple.runs, strict=True):
        expected, found = json.loads(one.config.model_dump_json()), json.loads(other.config.model_dump_json())
        if one.arm.startswith("Transformer"):
            assert expected["model"]["dropout"].pop("state") == 0.1
            assert found["model"]["dropout"].pop("state") == 0.0
        assert json.loads(json.dumps(expected).replace("/length/", "/simple/")) == found
        assert one.arm == other.arm


def test_exact_match_is_the_share_of_lines_that_are_the_reference(exact):
    references = ["A", "A B", "B A", "A A A"] * 10
    arms = {
        "base": [["A", "A B", "A B", "A"] * 10, ["A", "B", "A B", "A"] * 10],
        "good": [["A", "A B", "B A", "A"] * 10, ["A", "A B", "B A", "A A A"] * 10],
        "same": [["A", "A B", "A B", "A"] * 10, ["A", "B", "A B", "A"] * 10],
    }
    found = exact["exact_matches"](arms, references, "base")
    assert found["base"]["runs"] == [50, 25]
    assert found["good"]["runs"] == [75, 100]
    assert found["good"]["by_length"] == {"1": [100, 100], "2": [100, 100], "3": [0, 100]}
    assert found["base"]["by_length"] == {"1": [100, 100], "2": [50, 0], "3": [0, 0]}
    difference, low, high = found["good"]["difference"]
    assert difference == 50
    assert low < 50 < high
    assert found["same"]["difference"][0] == 0
    assert found["same"]["p_holm"] == 1
    assert "difference" not in found["base"]
    rows = exact["table"](found).splitlines()
    assert rows[2].startswith("| base | 37.5 ± 17.7 | ")
    assert rows[2].endswith(" | baseline |  |")


def test_the_difference_of_two_arms_has_the_variance_of_runs_and_of_sentences(exact):
    # Ten lines of which runs get 8 and 6, against 4 and 5, mostly of other lines: sd of the runs 14.1 and 7.1.
    references = [str(line) for line in range(10)]
    arms = {
        name: [[str(line) if line in right else "-" for line in range(10)] for right in each]
        for name, each in {
            "base": ({0, 1, 2, 3}, {0, 1, 2, 3, 4}),
            "good": (set(range(2, 10)), set(range(4, 10))),
        }.items()
    }
    found = exact["exact_matches"](arms, references, "base")
    assert found["good"]["difference"][0] == 25
    one, other = found["good"]["difference"][1:]
    assert one + other == pytest.approx(50)
    low, high = found["base"]["interval"]
    assert low < 45 < high


@pytest.mark.parametrize("path", COMMITTED, ids=[path.parts[-3] for path in COMMITTED])
def test_the_committed_figures_are_those_of_the_evidence(exact, path):
    evidence = exact["Evidence"].load(path.parent / "evidence.json.gz")
    found = json.loads(path.read_text("utf-8"))
    assert list(found) == [arm.name for arm in evidence.arms]
    for arm in evidence.arms:
        expected = [run.metrics["test"]["exact_match"]["value"] for run in arm.runs]
        assert found[arm.name]["runs"] == pytest.approx(expected)
    assert exact["table"](found) in (path.parents[1] / "README.md").read_text("utf-8")
