"""Learning-rate schedules and optimizers against values by hand."""

import pytest
import torch
from pydantic import ValidationError

from seq2seq_attn.errors import UserError
from seq2seq_attn.training.optimizer import (
    OPTIMIZERS,
    OptimizerConfig,
    Updates,
    make_optimizer,
    rate_per_step,
    state_keys,
)


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


def test_every_optimizer_of_torch_that_suits_the_loop_is_known_by_its_name():
    names = [
        "asgd",
        "adadelta",
        "adafactor",
        "adagrad",
        "adam",
        "adamw",
        "adamax",
        "nadam",
        "radam",
        "rmsprop",
        "rprop",
    ]
    for name in [*names, "sgd", "SGD"]:
        parameter = torch.nn.Parameter(torch.ones(1))
        made = make_optimizer([parameter], OptimizerConfig(name=name))
        assert type(made) is OPTIMIZERS[name.lower()]
    assert {"lbfgs", "sparseadam", "optimizer"}.isdisjoint(OPTIMIZERS)


def test_defaults_are_those_of_torch_where_adam_has_none_of_its_own():
    assert make_optimizer([torch.nn.Parameter(torch.ones(1))], OptimizerConfig(name="adagrad")).defaults["eps"] == 1e-10
    sgd = OptimizerConfig(name="sgd")
    assert (sgd.betas, sgd.epsilon) == (None, None)
    assert OptimizerConfig.model_validate(sgd.model_dump()) == sgd
    adafactor = OptimizerConfig(name="adafactor", options={"eps": [1e-5, 1e-2]})
    assert make_optimizer([torch.nn.Parameter(torch.ones(1))], adafactor).defaults["eps"] == (1e-5, 1e-2)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": "admw"}, "did you mean 'adamw'"),
        ({"name": "lbfgs"}, "there is no such optimizer"),
        (
            {"name": "sgd", "options": {"momentun": 0.9}},
            "options.momentun: SGD has no such option; did you mean 'momentum'",
        ),
        ({"name": "sgd", "options": {"lr": 0.9}}, "give it as learning_rate"),
        ({"name": "sgd", "options": {"fused": True}}, "options.fused"),
        ({"name": "sgd", "options": {"nesterov": True}}, "Nesterov momentum requires a momentum"),
        ({"name": "sgd", "options": {"momentum": "much"}}, "options of SGD"),
        ({"name": "sgd", "betas": [0.9, 0.98]}, "betas: SGD has no such option"),
        ({"name": "rprop", "weight_decay": 0.1}, "weight_decay: Rprop has no such option"),
        ({"schedule": "halving", "halving_start": "8 days"}, "halving_start"),
    ],
)
def test_options_are_checked_against_the_signature(values, words):
    with pytest.raises(ValidationError, match=words):
        OptimizerConfig.model_validate(values)


def test_sgd_with_momentum_is_that_of_sutskever_et_al_by_hand():
    """v = 0.9 v + g; with nesterov w = w - lr (g + 0.9 v), else w = w - lr v."""
    for nesterov in (False, True):
        weight = torch.nn.Parameter(torch.tensor([1.0]))
        options = {"momentum": 0.9, "nesterov": nesterov}
        updates = Updates(
            {"w": weight},
            OptimizerConfig(name="sgd", learning_rate=0.1, schedule="constant", warmup_steps=0, options=options),
        )
        value, velocity = 1.0, 0.0
        for number, gradient in enumerate((2.0, -1.0, 0.5)):
            weight.grad = torch.tensor([gradient])
            updates.step(number, torch.tensor(0.0))
            velocity = 0.9 * velocity + gradient
            value -= 0.1 * (gradient + 0.9 * velocity if nesterov else velocity)
            assert weight.item() == pytest.approx(value)


@pytest.mark.parametrize("name", ["adam", "sgd", "adafactor", "nadam"])
def test_a_step_that_is_skipped_changes_nothing(name):
    weight = torch.nn.Parameter(torch.ones(3, 2))
    updates = Updates({"w": weight}, OptimizerConfig(name=name))
    before = {key: tensor.clone() for key, tensor in updates.tensors().items()}
    weight.grad = torch.full((3, 2), torch.nan)
    updates.step(0, torch.tensor(1.0))
    assert torch.equal(weight, torch.ones(3, 2))
    assert weight.grad is None
    torch.testing.assert_close(updates.tensors(), before, rtol=0, atol=0)


def test_the_rate_is_halved_as_by_luong_et_al():
    """Ten epochs of three steps: full for five of them, then half, a quarter, ..."""
    config = OptimizerConfig(name="sgd", learning_rate=1.0, schedule="halving")
    found = list(map(rate_per_step(config, 30, 3), range(30)))
    assert found == [1.0] * 15 + [0.5] * 3 + [0.25] * 3 + [0.125] * 3 + [1 / 16] * 3 + [1 / 32] * 3
    by_steps = config.model_copy(update={"halving_start": "4 steps", "halving_every": "2 steps"})
    assert list(map(rate_per_step(by_steps, 9, 3), range(9))) == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_weight_decay_can_leave_out_vectors():
    """With gradient 0, decoupled decay shrinks a weight by lr * decay in a step."""
    matrix, bias = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))
    options = {"learning_rate": 0.1, "weight_decay": 0.5, "schedule": "constant", "warmup_steps": 0}
    updates = Updates({"m": matrix, "b": bias}, OptimizerConfig(name="adamw", decay_vectors=False, **options))
    for each in (matrix, bias):
        each.grad = torch.zeros_like(each)
    updates.step(0, torch.tensor(0.0))
    assert torch.allclose(matrix, torch.tensor(1 - 0.1 * 0.5))
    assert bias.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_that_keeps_the_state_of_another_goes_on_as_that_one(name):
    """Three steps are two steps, and one by another optimizer with what that one kept; a fresh one goes elsewhere."""
    options = {"options": {"momentum": 0.9}} if name == "sgd" else {}
    decay = {"weight_decay": 0.1, "decay_vectors": False} if name == "adamw" else {}
    config = OptimizerConfig(name=name, learning_rate=0.01, schedule="constant", warmup_steps=0, **options, **decay)
    generator = torch.Generator().manual_seed(1)
    # The vector comes first: with `decay_vectors: false`, groups have another order.
    start = {"bias": torch.randn(4, generator=generator), "table": torch.randn(3, 4, generator=generator)}
    gradients = [{key: torch.randn(each.shape, generator=generator) for key, each in start.items()} for _ in range(3)]

    def after(updates, steps):
        for step in steps:
            for key, weight in updates.weights.items():
                weight.grad = gradients[step][key].clone()
            updates.step(step, torch.tensor(0.0))
        return updates

    def begun(values):
        return Updates({key: torch.nn.Parameter(each.detach().clone()) for key, each in values.items()}, config)

    before, whole = after(begun(start), [0, 1]), after(begun(start), [0, 1, 2])
    kept, fresh = begun(before.weights), begun(before.weights)
    state = {key: tensor.clone() for key, tensor in before.tensors().items()}
    assert {key.rpartition(".")[2] for key in state} == state_keys(config)
    kept.start_from(state)
    assert {key: each.detach().tolist() for key, each in kept.weights.items()} == {
        key: each.detach().tolist() for key, each in before.weights.items()
    }
    after(kept, [2])
    for key, weight in whole.weights.items():
        assert torch.equal(kept.weights[key], weight)
    assert kept.tensors().keys() == whole.tensors().keys()
    assert all(torch.equal(tensor, whole.tensors()[key]) for key, tensor in kept.tensors().items())
    after(fresh, [2])
    assert any(not torch.equal(fresh.weights[key], weight) for key, weight in whole.weights.items())
