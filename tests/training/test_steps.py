"""Training that is counted in steps: validation, limits, and gradients that are added up over batches."""

import json

import pytest
import torch
from pydantic import ValidationError
from test_checkpoints import assert_same_trainings, run_until
from test_loop import assert_same_bits, curve, last_state, last_tensors, reversal_pairs, run, small_model

from seq2seq_attn.errors import UserError
from seq2seq_attn.training import LAST, loop
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loop import Loop

DROPOUT = {"embedding": 0.3, "word": 0.1, "readout": 0.3}


def test_validations_by_steps_and_the_last_step_of_max_steps(tmp_path):
    """Six steps an epoch: validations after 4, 8, 12 and, as the last, 14."""
    _, fitted = run(tmp_path, validate_every="4 steps", max_steps=14, max_epochs=None)
    assert list(curve(tmp_path)) == [4, 8, 12, 14]
    assert (fitted.steps, fitted.epochs, fitted.stopped) == (14, 2, "max_steps")
    epochs = [row["epoch"] for row in last_state(tmp_path)["curve"] if "validation_loss" in row]
    assert epochs == pytest.approx([4 / 6, 8 / 6, 2, 14 / 6])


def test_patience_counts_validations_and_ends_within_an_epoch(tmp_path):
    scores = iter([3.0, 5.0, 4.0, 4.0, 9.0])
    options = {"monitor": "score", "patience": 2, "validate_every": "2 steps"}
    _, fitted = run(tmp_path, validate=lambda _: next(scores), **options)
    assert (fitted.stopped, fitted.steps, fitted.epochs, fitted.best_epoch) == ("patience", 8, 1, 1)
    _, again = run(tmp_path, validate=lambda _: next(scores), resume=True, **options)
    assert again == fitted


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"validate_every": "0 steps"}, "validate_every"),
        ({"validate_every": "some steps"}, "validate_every"),
        ({"max_epochs": None}, "set max_steps"),
        ({"accumulate": 0}, "accumulate"),
        ({"max_hours": 0}, "max_hours"),
    ],
)
def test_periods_and_limits_that_make_no_sense_are_refused(values, words):
    with pytest.raises(ValidationError, match=words):
        TrainingConfig.model_validate(values)


def test_a_training_too_short_for_its_first_validation_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"validate_every=25 steps, but training\.max_epochs=4 allows 24 steps"):
        run(tmp_path, validate_every="25 steps")


def test_max_steps_takes_the_place_of_the_default_limit_of_epochs():
    assert TrainingConfig(max_steps=7).max_epochs is None
    assert TrainingConfig(max_steps=7, max_epochs=2).all_steps(3) == 6
    assert TrainingConfig(max_epochs=2, accumulate=2).all_steps(3) == 4


def test_accumulated_gradients_are_those_of_the_large_batch_in_double(tmp_path):
    """Three batches of different lengths and numbers of pairs, and one batch of all their pairs."""
    pairs = reversal_pairs(12, 12)
    parts = [pairs[[0, 1, 2]], pairs[[3, 4, 5, 6, 7]], pairs[[8, 9, 10, 11]]]
    found = []
    for batches in (parts, [pairs[list(range(12))]]):
        model = small_model().double()
        options = TrainingConfig(max_epochs=1, accelerator="cpu", label_smoothing=0.1, clip_norm=None)
        state = Loop(model, options, pairs, pairs, None, tmp_path)
        loss, negative, count = state.add_gradient(batches)
        assert count == int(pairs.target.lengths.sum())
        gradients = {name: weight.grad.clone() for name, weight in state.weights.items()}
        found.append((loss, negative, gradients))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-14)


def test_an_epoch_of_accumulated_batches_has_fewer_steps_and_its_last_one_has_what_is_left(tmp_path):
    """Six batches an epoch, four to a step: two steps, of 32 and 16 pairs."""
    _, fitted = run(tmp_path, max_epochs=3, accumulate=4)
    assert (fitted.steps, fitted.epochs) == (6, 3)
    assert last_state(tmp_path)["tokens"] == 3 * int(reversal_pairs().target.lengths.sum())


@pytest.mark.parametrize(
    "recipe",
    [
        {"validate_every": "5 steps", "ema_decay": 0.9},
        {"accumulate": 2, "validate_every": "2 steps"},
        {"max_steps": 20, "optimizer": {"schedule": "cosine", "warmup_steps": 5}, "validate_every": "7 steps"},
        {"optimizer": {"schedule": "plateau", "plateau_patience": 0}, "validate_every": "3 steps"},
        {"optimizer": {"schedule": "halving", "halving_start": "7 steps", "halving_every": "3 steps"}},
        {"optimizer": {"name": "sgd", "learning_rate": 0.1, "options": {"momentum": 0.9, "nesterov": True}}},
        {"optimizer": {"name": "adafactor"}},
        {"optimizer": {"name": "nadam"}},
        {"optimizer": {"name": "adamw", "weight_decay": 0.1, "decay_vectors": False}},
        {"optimizer": {"name": "asgd"}},
        {"optimizer": {"name": "rprop"}},
        {"optimizer": {"name": "adagrad"}},
    ],
    ids=str,
)
def test_it_resumes_within_an_epoch_to_the_same_bits(tmp_path, monkeypatch, always, recipe):
    options = {"max_epochs": 2, "batch_size": 8} | recipe
    whole, expected = run(tmp_path / "whole", small_model(**DROPOUT), **options)
    run_until(4 if "accumulate" in recipe else 9, monkeypatch, tmp_path / "parts", **options)
    parts, fitted = run(tmp_path / "parts", small_model(**DROPOUT), resume=True, **options)
    assert_same_trainings(tmp_path, (whole, expected), (parts, fitted))


def test_the_time_limit_ends_after_a_checkpoint_and_training_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    """A clock that adds an hour with every step: 3.5 hours end after the fourth step, in the first epoch of six."""
    whole, _ = run(tmp_path / "whole", small_model(**DROPOUT), max_epochs=2)
    ended = []
    for number in range(4):
        with monkeypatch.context() as patch:
            hours, clock, step = [0], loop.time.perf_counter, Loop.step
            patch.setattr(loop.time, "perf_counter", lambda hours=hours, clock=clock: clock() + 3600 * hours[0])

            def stepped(self, batches, hours=hours, step=step):
                hours[0] += 1
                step(self, batches)

            patch.setattr(Loop, "step", stepped)
            model, fitted = run(
                tmp_path / "parts", small_model(**DROPOUT), max_epochs=2, max_hours=3.5, resume=number > 0
            )
        ended.append((fitted.stopped, fitted.steps))
    assert ended[:2] == [("max_hours", 4), ("max_hours", 8)]
    assert ended[-1] == ("max_epochs", 12)
    assert_same_bits(model.state_dict(), whole.state_dict())
    assert_same_bits(last_tensors(tmp_path / "parts"), last_tensors(tmp_path / "whole"))


def test_the_time_limit_before_the_first_validation_keeps_the_weights_of_the_last_step(tmp_path):
    model, fitted = run(tmp_path, max_hours=1e-9)
    assert (fitted.stopped, fitted.steps, fitted.best_epoch) == ("max_hours", 1, None)
    weights = last_tensors(tmp_path)
    assert all(torch.equal(each, weights[f"weights.{name}"]) for name, each in model.state_dict().items())
    assert not torch.equal(model.head.projection.bias, small_model().head.projection.bias)
    assert json.dumps(last_state(tmp_path)["best_score"]) == "null"
    assert (tmp_path / LAST).exists()


def test_another_rate_on_resumption_is_a_new_phase_whose_schedule_begins_there(tmp_path, monkeypatch, always):
    """An epoch at a constant rate, then two that decay to zero: wherever it is interrupted, the same."""
    linear = {"optimizer": {"learning_rate": 0.06, "schedule": "linear", "warmup_steps": 0}, "max_epochs": 3}
    rates = {}
    step = Loop.step

    def watched(self, batches):
        step(self, batches)
        rates[self.state.step] = self.updates.optimizer.param_groups[0]["lr"]

    monkeypatch.setattr(Loop, "step", watched)
    for parts in (False, True):
        folder = tmp_path / str(parts)
        run(folder, small_model(**DROPOUT), max_epochs=1)
        if parts:
            run_until(10, monkeypatch, folder, resume=True, **linear)
        run(folder, small_model(**DROPOUT), resume=True, **linear)
        assert [rates[number] for number in range(6, 19)] == pytest.approx(
            [0.01, *(0.06 * k / 12 for k in range(12, 0, -1))]
        )
        assert (last_state(folder)["phase_step"], last_state(folder)["step"]) == (6, 18)
    assert_same_bits(last_tensors(tmp_path / "True"), last_tensors(tmp_path / "False"))


def test_patience_that_was_lost_is_regained_in_a_new_phase(tmp_path):
    scores = iter([3.0, 2.0, 2.0, 4.0])
    options = {"monitor": "score", "patience": 1, "max_epochs": 4, "validate": lambda _: next(scores)}
    _, fitted = run(tmp_path, **options)
    assert (fitted.stopped, fitted.epochs) == ("patience", 2)
    _, fitted = run(tmp_path, resume=True, **options | {"optimizer": {"learning_rate": 0.001}})
    assert (fitted.stopped, fitted.epochs) == ("patience", 3)
