"""Measurements of a sitting: medians, floors, and their file."""

import json

import pytest
from hand_made_measurements import measurement

from benchmarks.records import Sitting
from seq2seq_attn.errors import UserError


def test_a_value_is_the_median_of_its_rounds():
    of_rounds = measurement("training", 5.0, 100.0, 7.0, parts={"encoder": (3.0, 1.0, 8.0)})
    assert of_rounds.value == 7
    assert of_rounds.milliseconds == {"encoder": 3.0}
    assert measurement("training", 5.0, 8.0).value == 6.5


def test_the_floor_adds_the_times_of_products_and_bytes(sitting):
    """A token takes 1 / 20,000 s of products and 1 / 60,000 s of bytes: 4 / 60,000 s."""
    assert sitting.floor(measurement("training", 1.0).job) == pytest.approx(15_000)
    assert sitting.floor(measurement("training", 1.0, precision="fp32").job) is None


def test_a_saved_sitting_loads_unchanged(sitting, tmp_path):
    sitting.save(tmp_path / "speed.json")
    assert Sitting.load(tmp_path / "speed.json") == sitting


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record.pop("corpus"), "corpus: the key is missing"),
        (lambda record: record["figures"][1]["job"].update(what="trainin"), "figures.1.job.what"),
        (lambda record: record["figures"][0].update(values=[]), "figures.0.values"),
        (lambda record: record["figures"][0].update(values=[0.0]), "figures.0.values.0"),
    ],
)
def test_an_invalid_file_is_refused_with_its_key(sitting, tmp_path, change, said):
    path = tmp_path / "speed.json"
    sitting.save(path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match=said) as refusal:
        Sitting.load(path)
    assert "`python -m benchmarks --output` writes it" in str(refusal.value)
