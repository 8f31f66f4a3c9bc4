"""A batch with a loss or gradient that is not finite is skipped; one that does not fit in memory is halved."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from test_loop import run, small_model

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.ops.host import is_out_of_memory
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import parse
from seq2seq_attn.training import loop
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.divergence import DivergenceError
from seq2seq_attn.training.guided_alignment import TokenLinks
from seq2seq_attn.training.loop import Loop


@pytest.fixture
def each_loss(monkeypatch):
    """Calls a function with the number of each training step, from 1, and its loss, and takes what it returns."""
    step, training_loss = Loop.step, loop.training_loss
    numbers = []

    def counted_step(self, batch):
        numbers.append(self.state.step + 1)
        step(self, batch)

    def install(change):
        def changed_loss(model, batch, config):
            loss = training_loss(model, batch, config)
            return loss._replace(total=change(numbers[-1], batch, loss.total))

        monkeypatch.setattr(Loop, "step", counted_step)
        monkeypatch.setattr(loop, "training_loss", changed_loss)

    return install


def ask_for_too_much(*_):
    torch.empty(2**60)


@pytest.mark.parametrize("clip_norm", [1.0, None])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_a_step_that_is_not_finite_changes_no_weight_and_is_counted(tmp_path, each_loss, place, value, clip_norm):
    seen = []

    def change(step, batch, loss):
        seen.append(model.head.projection.weight.detach().clone())
        bad = value if step in (2, 4) else 1.0
        if place == "loss":
            return loss * bad
        handle = model.head.projection.bias.register_hook(lambda gradient: handle.remove() or gradient * bad)
        return loss

    each_loss(change)
    model = small_model()
    _, fitted = run(tmp_path, model, max_epochs=1, clip_norm=clip_norm)
    unchanged = [torch.equal(before, after) for before, after in pairwise(seen)]
    assert unchanged == [False, True, False, True, False]
    assert (fitted.skipped_steps, fitted.steps) == (2, 6)
    assert np.isfinite(fitted.best)


def test_skipped_steps_are_counted_over_an_interruption_and_shown_with_the_epoch(tmp_path, each_loss, capsys):
    each_loss(lambda step, batch, loss: loss * (torch.nan if step in (3, 8) else 1.0))
    run(tmp_path, max_epochs=1)
    _, fitted = run(tmp_path, max_epochs=2, resume=True)
    assert fitted.skipped_steps == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(" tokens/s, 2 steps skipped")
    _, ended = run(tmp_path, max_epochs=2, resume=True)
    assert ended.skipped_steps == 2


def test_the_limit_ends_training_with_the_sentences_of_the_last_batch(grid, tmp_path, each_loss):
    """The fourth step of 5; the second, third and fourth are bad, and two are allowed."""
    config = grid.runs[2].config
    values = config.model_dump(mode="json")
    config = parse(type(config), values | {"training": values["training"] | {"max_skipped_steps": 2}})
    rows = {}

    def change(step, batch, loss):
        rows[step] = batch.rows
        return loss * (torch.nan if step > 1 else 1.0)

    each_loss(change)
    words = (
        r"^the loss or its gradient was not finite in 3 steps, more than training\.max_skipped_steps=2; in the last "
        r"one, step 4, epoch 1, the loss was nan and the norm of the gradient nan; .*learning_rate=0\.02 or lower "
        r"training\.clip_norm=1\.0; the sentences of this batch are in .*/run/skipped\.jsonl$"
    )
    with pytest.raises(UserError, match=words):
        train(config, tmp_path / "run")
    kept = [json.loads(line) for line in (tmp_path / "run/skipped.jsonl").read_text().splitlines()]
    files = {side: getattr(config.data.train, side) for side in ("source", "target")}
    lines = {side: gzip.decompress(path.read_bytes()).decode().splitlines() for side, path in files.items()}
    assert kept == [
        {"line": row + 1, "source": lines["source"][row], "target": lines["target"][row]} for row in rows[4].tolist()
    ]
    assert len(kept) == 8
    each_loss(lambda step, batch, loss: loss)
    train(config, tmp_path / "run", if_exists="resume")  # nothing was kept: it starts again, in the same folder
    assert read_metrics(tmp_path / "run")["training"]["skipped_steps"] == 0
    assert not (tmp_path / "run/skipped.jsonl").exists()


def test_broken_weights_are_no_fault_of_a_batch(tmp_path):
    model = small_model()
    with torch.no_grad():
        model.head.projection.bias.fill_(torch.nan)
    with pytest.raises(DivergenceError, match="training diverged") as stopped:
        run(tmp_path, model, max_skipped_steps=1000)
    assert stopped.value.batches == ()


@pytest.mark.parametrize(
    ("recipe", "place"), [({"label_smoothing": 0.1}, "forward"), ({"precision": "bf16"}, "backward")], ids=str
)
def test_memory_that_runs_out_halves_the_batch_and_gives_the_same_step(tmp_path, each_loss, place, recipe):
    """In every step of the first epoch, for batches of more than 4 pairs."""
    whole, expected = run(tmp_path / "whole", max_epochs=1, **recipe)
    model = small_model()

    def change(step, batch, loss):
        assert torch.is_autocast_enabled("cpu") == ("precision" in recipe)
        if len(batch.source.lengths) > 4:
            if place == "forward":
                ask_for_too_much()
            handle = model.head.projection.bias.register_hook(lambda _: handle.remove() or ask_for_too_much())
        return loss

    each_loss(change)
    halved, fitted = run(tmp_path / "halved", model, max_epochs=1, **recipe)
    assert (fitted.split_steps, fitted.skipped_steps, expected.split_steps) == (6, 0, 0)
    assert fitted.tokens_per_second > 0
    # Adam divides a gradient by its size: one that bf16 rounds to either side of 0 moves a weight by the whole rate.
    tolerance = {"rtol": 0.0, "atol": 0.03} if "precision" in recipe else {"rtol": 1e-4, "atol": 1e-5}
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(halved.state_dict()[name], weight, **tolerance)
    assert fitted.best == pytest.approx(expected.best, rel=1e-3)


def test_memory_that_runs_out_again_names_the_setting(tmp_path, each_loss):
    each_loss(ask_for_too_much)
    words = (
        r"memory ran out in a batch of 8 sentence pairs with up to \d and \d tokens, and in a half of it; lower "
        r"training\.batch_size=8"
    )
    with pytest.raises(UserError, match=words):
        run(tmp_path / "eight")
    with pytest.raises(UserError, match=r"a batch of 1 sentence pairs .*; lower data\.max_length or"):
        run(tmp_path / "one", batch_size=1)


def test_memory_that_runs_out_in_validation_names_the_setting(tmp_path):
    with pytest.raises(
        UserError, match=r"memory ran out while the validation set was decoded; lower search\.batch_size"
    ):
        run(tmp_path, validate=ask_for_too_much)


def test_other_errors_of_a_step_stay_what_they_are(tmp_path, each_loss):
    def fail(*_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    each_loss(fail)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        run(tmp_path)


def test_errors_about_memory_are_recognized():
    with pytest.raises(RuntimeError) as cpu:
        ask_for_too_much()
    with pytest.raises(MemoryError) as numpy:
        np.empty(2**58, np.int8)
    for error in (cpu.value, numpy.value, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")):
        assert is_out_of_memory(error)
    for error in (RuntimeError("shapes"), ValueError("DefaultCPUAllocator"), KeyboardInterrupt()):
        assert not is_out_of_memory(error)


def test_halves_are_the_pairs_of_a_batch_with_their_links_and_without_padding():
    links = TokenLinks(*map(torch.tensor, ([0, 1, 2, 2], [0, 1, 0, 2], [1, 0, 1, 0], [1.0, 0.5, 0.25, 1.0])))
    rows = np.array([7, 5, 6])
    batch = Batch(pad([[4, 5, 6, 3], [7, 3], [8, 3]]), pad([[4, 3], [5, 3], [6, 5, 3]]), links, rows)
    first, second = batch.halves()
    (alone,) = first.halves()
    assert alone.source.tokens.tolist() == [[4, 5, 6, 3]]
    assert first.source.tokens.tolist() == [[4, 5, 6, 3]]
    assert first.target.tokens.tolist() == [[4, 3]]
    assert second.source.tokens.tolist() == [[7, 3], [8, 3]]
    assert second.target.tokens[1].tolist() == [6, 5, 3]
    assert [part.tolist() for part in first.links] == [[0], [0], [1], [1.0]]
    assert [part.tolist() for part in second.links] == [[0, 1, 1], [1, 0, 2], [0, 1, 0], [0.5, 0.25, 1.0]]
    assert (first.rows.tolist(), second.rows.tolist()) == ([7], [5, 6])
