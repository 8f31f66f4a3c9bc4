"""Learning-rate schedules and optimizers against values by hand."""

import pytest
import torch
from pydantic import ValidationError

from seq2seq_attn.errors import UserError
from seq2seq_attn.training.config import OptimizerConfig, make_optimizer, rate_per_step


def rates(config, steps):
    return list(map(rate_per_step(config, steps), range(steps)))


def test_inverse_square_root_rises_linearly_and_decays_with_the_root():
    config = OptimizerConfig(learning_rate=0.4, schedule="inverse_sqrt", warmup_steps=4)
    found = rates(config, 16)
    assert found[:4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert found[15] == pytest.approx(0.4 * (4 / 16) ** 0.5)


def test_constant_stays_after_the_warm_up():
    assert rates(OptimizerConfig(learning_rate=0.5, schedule="constant", warmup_steps=0), 3) == pytest.approx([0.5] * 3)
    assert rates(OptimizerConfig(learning_rate=0.5, schedule="constant", warmup_steps=2), 4) == pytest.approx(
        [0.25, 0.5, 0.5, 0.5]
    )


def test_linear_and_cosine_decay_to_zero_after_the_last_step():
    """Two steps of warm-up, then four with 4/4, 3/4, 2/4 and 1/4 of the decay left; the rate after them is 0."""
    linear = OptimizerConfig(learning_rate=0.8, schedule="linear", warmup_steps=2)
    assert rates(linear, 6) == pytest.approx([0.4, 0.8, 0.8, 0.6, 0.4, 0.2])
    cosine = OptimizerConfig(learning_rate=0.8, schedule="cosine", warmup_steps=2)
    assert rates(cosine, 6) == pytest.approx([0.4, 0.8, 0.8, 0.4 + 0.2 * 2**0.5, 0.4, 0.4 - 0.2 * 2**0.5])
    assert rates(OptimizerConfig(learning_rate=0.8, schedule="linear", warmup_steps=0), 4) == pytest.approx(
        [0.8, 0.6, 0.4, 0.2]
    )


def test_a_warm_up_that_leaves_no_step_to_decay_is_refused():
    with pytest.raises(UserError, match=r"warmup_steps=6 leaves no step for schedule=cosine: .* allows 6 steps"):
        rates(OptimizerConfig(schedule="cosine", warmup_steps=6), 6)


def test_adamw_decays_the_weight_itself():
    """With gradient 0, decoupled decay shrinks w by lr * decay in a step; L2 decay would change it by about lr."""
    for name, expected in (("adamw", 1 - 0.1 * 0.5), ("adam", 1 - 0.1)):
        parameter = torch.nn.Parameter(torch.ones(1))
        optimizer = make_optimizer([parameter], OptimizerConfig(name=name, learning_rate=0.1, weight_decay=0.5))
        parameter.grad = torch.zeros(1)
        optimizer.step()
        assert parameter.item() == pytest.approx(expected, abs=1e-6)


def test_invalid_schedules_are_refused():
    with pytest.raises(ValidationError, match="plateau has no warm-up"):
        OptimizerConfig(schedule="plateau", warmup_steps=10)
    with pytest.raises(ValidationError, match="set warmup_steps"):
        OptimizerConfig(schedule="inverse_sqrt", warmup_steps=0)
