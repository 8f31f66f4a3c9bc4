"""The parallel text of SCAN: what `prepare.py` writes for the experiments on it."""

import gzip
import runpy
from pathlib import Path

import pytest

from seq2seq_attn.comparison.experiment import read_experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prepare():
    return runpy.run_path(str(ROOT / "experiments/scan-length/prepare.py"))


@pytest.fixture
def folder(tmp_path, prepare):
    for split in prepare["SPLITS"]:
        (tmp_path / split).mkdir()
        for part, count in (("train", 1_000), ("test", 3)):
            lines = (f"IN: walk {number} times OUT: {'I_WALK ' * (number % 3)}I_STOP\n" for number in range(count))
            with gzip.open(tmp_path / split / f"tasks_{part}_{split}.txt.gz", "wt", encoding="utf-8") as file:
                file.writelines(lines)
    prepare["main"]([str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize("split", ["simple", "length"])
def test_a_command_and_its_actions_stand_on_the_same_line(folder, split):
    commands, actions = (
        (folder / split / f"test.{side}").read_text("utf-8").splitlines() for side in ("commands", "actions")
    )
    assert commands == ["walk 0 times", "walk 1 times", "walk 2 times"]
    assert actions == ["I_STOP", "I_WALK I_STOP", "I_WALK I_WALK I_STOP"]


def test_the_validation_pairs_are_training_pairs_from_its_whole_length(folder):
    train, validation = (
        list(
            zip(
                *(
                    (folder / "length" / f"{part}.{side}").read_text("utf-8").splitlines()
                    for side in ("commands", "actions")
                ),
                strict=True,
            )
        )
        for part in ("train", "validation")
    )
    assert len(train) == 1_000
    assert validation == train[::2]


def test_the_two_experiments_differ_only_by_their_split():
    length, simple = (
        read_experiment(ROOT / f"experiments/scan-{split}/experiment.yaml") for split in ("length", "simple")
    )
    assert len(length.runs) == len(simple.runs)
    for one, other in zip(length.runs, simple.runs, strict=True):
        text = one.config.model_dump_json().replace("/length/", "/simple/")
        assert (one.arm, text) == (other.arm, other.config.model_dump_json())
