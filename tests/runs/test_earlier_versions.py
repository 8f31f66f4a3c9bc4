"""Runs of earlier versions still load: the folders here were written by commit 98483db."""

import json
from pathlib import Path

import pytest

from seq2seq_attn import ops
from seq2seq_attn.reading import read_lines
from seq2seq_attn.runs.model import TrainedModel

HERE = Path(__file__).parent / "version_0_1"
EXPECTED = json.loads((HERE / "log_probabilities.json").read_text())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_run_of_version_0_1_still_gives_the_same_scores_and_translations(name):
    model = TrainedModel.load(HERE / name)
    sources, targets = read_lines(HERE / "test.source"), read_lines(HERE / "test.target")
    found = [pair.total for pair in model.force(sources, targets)]
    assert found == pytest.approx(EXPECTED[name], abs=2e-3)
    with ops.reference():
        assert [pair.total for pair in model.force(sources, targets)] == pytest.approx(EXPECTED[name], abs=2e-3)
    assert model.translate(sources) == read_lines(HERE / name / "test.translations.txt")
