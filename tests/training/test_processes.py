"""Several processes train the model that one process trains: joined by gloo, on toys."""

import numpy as np
import pytest
from toy_processes import in_processes, train

from seq2seq_attn.training.processes import ALONE

OPTIONS = {
    "tokens, accumulated, averaged, smoothed, frozen": {
        "batch_size": 40,
        "batch_unit": "tokens",
        "accumulate": 3,
        "ema_decay": 0.9,
        "label_smoothing": 0.1,
        "freeze": ["encoder.embedding"],
    },
    "R-Drop, guided alignment, coverage": {
        "r_drop": 2.0,
        "guided_alignment": {"links": "links", "weight": 0.5},
        "coverage_loss": 0.3,
    },
}


def assert_equal_to_one_process(tmp_path, world, family, recipe, tolerance):
    one, expected, _ = train(ALONE, tmp_path / "one", family, recipe)
    for weights, fitted, _ in in_processes(world, train, tmp_path / "several", family, recipe):
        for name, weight in one.items():
            np.testing.assert_allclose(weights[name], weight, rtol=0, atol=tolerance, err_msg=name)
        assert fitted.best == pytest.approx(expected.best, abs=tolerance)
        same = ("epochs", "steps", "best_epoch", "stopped", "skipped_steps", "split_steps")
        assert [getattr(fitted, name) for name in same] == [getattr(expected, name) for name in same]


def test_two_processes_equal_one(tmp_path):
    """Twelve steps, of which every seventh is of one pair."""
    assert_equal_to_one_process(tmp_path, 2, "recurrent", {"max_steps": 12, "clip_norm": 0.5}, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("family", ["recurrent", "transformer"])
@pytest.mark.parametrize("world", [2, 3])
def test_several_processes_equal_one_after_a_hundred_steps_with_every_option(tmp_path, world, family, recipe):
    assert_equal_to_one_process(tmp_path, world, family, recipe, 1e-6)
