"""Checkpoints: exact within an epoch, two of them, and never lost to a disk that is full or lies."""

import re
import resource

import pytest
import torch
from test_fit import last_weights, reversal_pairs, run, small_model

from seq2seq_attn.errors import UserError
from seq2seq_attn.training import LAST, PREVIOUS, checkpoints
from seq2seq_attn.training.fit import Interrupted
from seq2seq_attn.training.module import TranslationModule

DROPOUT = {"embedding": 0.3, "word": 0.1, "readout": 0.3}


@pytest.fixture
def always(monkeypatch):
    """A checkpoint after every batch."""
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)


def run_until(step, monkeypatch, folder, **options):
    """A run that is interrupted before this step, counted from 0."""
    train = TranslationModule.training_step

    def stop(self, batch, index):
        if self.global_step == step:
            raise KeyboardInterrupt
        return train(self, batch, index)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationModule, "training_step", stop)
        with pytest.raises(Interrupted):
            run(folder, small_model(**DROPOUT), **options)


@pytest.mark.parametrize(
    "recipe",
    [
        {"optimizer": {"learning_rate": 0.08, "schedule": "plateau", "plateau_patience": 0}, "validate_every": 2},
        {
            "optimizer": {"learning_rate": 0.01, "schedule": "cosine", "warmup_steps": 5},
            "ema_decay": 0.9,
            "r_drop": 2.0,
        },
    ],
    ids=["plateau", "cosine, averages, R-Drop"],
)
def test_a_training_resumed_within_an_epoch_equals_an_uninterrupted_one(tmp_path, monkeypatch, always, recipe):
    """Of 6 steps an epoch: in the first, in the third, and in the third again, before its last step."""
    whole, expected = run(tmp_path / "whole", small_model(**DROPOUT), **recipe)
    for number, step in enumerate((3, 13, 17)):
        run_until(step, monkeypatch, tmp_path / "parts", resume=number > 0, **recipe)
        assert torch.load(tmp_path / "parts" / LAST, weights_only=True)["global_step"] == step
    parts, fitted = run(tmp_path / "parts", small_model(**DROPOUT), resume=True, **recipe)
    states = [torch.load(tmp_path / name / LAST, weights_only=True) for name in ("whole", "parts")]
    assert states[0]["loops"] == states[1]["loops"]
    assert states[0]["epoch_so_far"] == states[1]["epoch_so_far"]  # the progress lines
    assert fitted._replace(seconds=0, tokens_per_second=0) == expected._replace(seconds=0, tokens_per_second=0)
    for one, other in (
        (whole.state_dict(), parts.state_dict()),
        (last_weights(tmp_path / "whole"), last_weights(tmp_path / "parts")),
    ):
        assert one.keys() == other.keys()
        assert [name for name, weight in one.items() if not torch.equal(weight, other[name])] == []


def test_a_run_interrupted_in_an_epoch_that_it_is_no_longer_to_have_records_the_steps_of_those_that_ended(
    tmp_path, monkeypatch, always
):
    """Of 6 steps an epoch: interrupted in the second, and ended with one."""
    run_until(9, monkeypatch, tmp_path)
    _, fitted = run(tmp_path, small_model(**DROPOUT), resume=True, max_epochs=1)
    assert (fitted.epochs, fitted.steps) == (1, 6)


def test_the_random_states_of_python_and_numpy_continue_too(tmp_path, monkeypatch, always):
    """A user's own scorer may draw from them."""
    import random

    import numpy as np

    drawn = {}
    train = TranslationModule.training_step

    def draw(self, batch, index):
        drawn[self.global_step] = random.random(), np.random.random()
        return train(self, batch, index)

    monkeypatch.setattr(TranslationModule, "training_step", draw)
    random.seed(1)
    np.random.seed(2)
    run(tmp_path / "whole")
    expected, drawn = drawn, {}
    random.seed(1)
    np.random.seed(2)
    run_until(9, monkeypatch, tmp_path / "parts")
    random.seed(3)
    np.random.seed(4)
    run(tmp_path / "parts", resume=True)
    assert drawn == expected


def test_the_clock_counts_all_tokens_and_goes_on_after_an_interruption(tmp_path):
    def clock():
        return torch.load(tmp_path / LAST, weights_only=True)["callbacks"]["Clock"]

    run(tmp_path, max_epochs=2)
    first = clock()
    _, fitted = run(tmp_path, max_epochs=4, resume=True)
    last, tokens = clock(), int(reversal_pairs().target.lengths.sum())
    assert (first["tokens"], last["tokens"]) == (2 * tokens, 4 * tokens)
    assert fitted.seconds > first["seconds"]
    assert last["training_seconds"] < last["seconds"]
    assert fitted.tokens_per_second == 4 * tokens / last["training_seconds"]


@pytest.mark.parametrize(
    ("interval", "share", "saves"),
    [(0.0, 1e9, 24), (1e9, 1e9, 4), (0.0, 1e-9, 5)],  # 6 batches in each of 4 epochs
    ids=["after every batch", "after every epoch", "the first took too long for another within an epoch"],
)
def test_checkpoints_within_an_epoch_are_written_by_their_cost(tmp_path, monkeypatch, interval, share, saves):
    monkeypatch.setattr(checkpoints, "INTERVAL", interval)
    monkeypatch.setattr(checkpoints, "SHARE", share)
    saved = []
    save = checkpoints.SafeCheckpointIO.save_checkpoint
    monkeypatch.setattr(
        checkpoints.SafeCheckpointIO, "save_checkpoint", lambda self, *rest, **o: (saved.append(1), save(self, *rest))
    )
    run(tmp_path)
    assert len(saved) == saves


@pytest.mark.parametrize("interrupted", [1, 3, 4, 5])  # an epoch; the last: not at all
def test_a_training_that_was_stopped_stays_stopped(tmp_path, monkeypatch, interrupted):
    """BLEU 1, 5, 4, 4: it stops after the fourth epoch, wherever it was interrupted and however often it is resumed."""
    options = {"monitor": "bleu", "patience": 2, "max_epochs": 9, "batch_size": 48}
    bleu = [1.0, 5.0, 4.0, 4.0, 9.0]

    def validating(start):
        scores = iter(bleu[start:])
        return lambda _: next(scores)

    whole, expected = run(tmp_path / "whole", validate=validating(0), **options)
    folder = tmp_path / "parts"
    if interrupted <= 4:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                TranslationModule, "on_train_epoch_end", lambda self: stop_after(self.current_epoch + 1, interrupted)
            )
            with pytest.raises(Interrupted):
                run(folder, validate=validating(0), **options)
    done = interrupted - 1 if interrupted <= 4 else 0
    for number in range(3):
        validate = validating(done if number == 0 else 4)
        parts, fitted = run(folder, validate=validate, resume=(folder / LAST).exists(), **options)
        assert (fitted.epochs, fitted.stopped, fitted.best, fitted.best_epoch) == (4, "patience", 5.0, 2)
        assert all(torch.equal(weight, parts.state_dict()[name]) for name, weight in whole.state_dict().items())
    assert fitted.steps == expected.steps
    more = options | {"patience": 3}
    _, fitted = run(folder, validate=validating(4), resume=True, **more | {"max_epochs": 5})
    assert (fitted.epochs, fitted.stopped, fitted.best_epoch) == (5, "max_epochs", 5)


def stop_after(epoch, last):
    if epoch == last:
        raise KeyboardInterrupt


def test_broken_weights_are_never_saved_within_an_epoch(tmp_path, always):
    with pytest.raises(UserError, match=r"weights are not finite after step 1, epoch 1"):
        run(tmp_path, optimizer={"learning_rate": 3e38}, clip_norm=None)
    assert not (tmp_path / "checkpoints").exists()


def contents(folder):
    return {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()}


def test_a_full_disk_leaves_both_checkpoints_and_no_remainder(tmp_path):
    run(tmp_path, max_epochs=2)
    before = contents(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"last\.ckpt: cannot be written: File too large"):
            run(tmp_path, max_epochs=3, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(tmp_path) == before
    _, fitted = run(tmp_path, max_epochs=3, resume=True)
    assert fitted.epochs == 3


def test_a_checkpoint_that_reads_otherwise_than_it_was_written_replaces_nothing(tmp_path, monkeypatch):
    run(tmp_path, max_epochs=2)
    before = contents(tmp_path)
    assert before.keys() == {"last.ckpt", "previous.ckpt"}
    monkeypatch.setattr(checkpoints.SafeCheckpointIO, "save_checkpoint", torn(monkeypatch))
    with pytest.raises(UserError, match=r"last\.ckpt: the new checkpoint cannot be read back as it was written"):
        run(tmp_path, max_epochs=3, resume=True)
    assert contents(tmp_path) == before


def torn(monkeypatch):
    """As when the disk returns other bytes than it got."""
    save = checkpoints.SafeCheckpointIO.save_checkpoint

    def save_torn(self, *arguments, **rest):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "sha256", lambda path: "0" * 64)
            save(self, *arguments)

    return save_torn


def test_a_training_that_was_killed_between_two_renames_continues_from_the_checkpoint_before(tmp_path):
    run(tmp_path, max_epochs=2)
    (tmp_path / LAST).unlink()  # it had become previous.ckpt, and the new one was not there yet
    whole, _ = run(tmp_path / "whole", max_epochs=3)
    said = []
    parts, fitted = run(tmp_path, max_epochs=3, resume=True, say=said.append)
    assert said == []
    assert fitted.epochs == 3
    assert all(torch.equal(weight, parts.state_dict()[name]) for name, weight in whole.state_dict().items())
    assert (tmp_path / PREVIOUS).exists()


MOMENT = ("optimizer_states", 0, "state", 3, "exp_avg")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (MOMENT, torch.zeros(1), r"optimizer\.3\.exp_avg: torch\.float32 \(1,\) where torch\.float32 \("),
        (MOMENT, "x", r"optimizer_states\.0\.state\.3\.exp_avg: Input should be an instance of Tensor"),
        (("optimizer_states", 0, "state", 3), {}, r"optimizer\.3: exp_avg is missing"),
        (("optimizer_states",), [], "optimizer_states: List should have at least 1 item"),
        (("callbacks", "Clock", "tokens"), "x", r"callbacks\.Clock\.tokens: Input should be a valid integer"),
        (("random_state",), torch.zeros(5, dtype=torch.uint8), r"random_state: torch\.uint8 \(5,\) where"),
        (("epoch",), -1, "epoch: Input should be greater than or equal to 0"),
    ],
)
def test_a_checkpoint_with_values_of_another_type_or_size_is_not_continued_from(tmp_path, place, value, said):
    """Of the optimizer's moments, a smaller one would end the process."""
    run(tmp_path, small_model())
    checkpoint = torch.load(tmp_path / LAST, weights_only=True)
    inner = checkpoint
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    torch.save(checkpoint, tmp_path / LAST)
    (tmp_path / "SHA256SUMS").write_text("# seq2seq_attn\n")
    messages = []
    _, fitted = run(tmp_path, small_model(), resume=True, max_epochs=5, say=messages.append)
    assert re.search(said, messages[0])
    assert "damaged; continuing from the checkpoint before it" in messages[1]
    assert fitted.epochs == 5


def test_a_moment_with_the_shape_of_its_weight_but_not_its_memory_is_not_continued_from(tmp_path):
    run(tmp_path, small_model())
    checkpoint = torch.load(tmp_path / LAST, weights_only=True)
    state = checkpoint["optimizer_states"][0]["state"][3]
    state["exp_avg"] = state["exp_avg"].flatten()[:1].expand_as(state["exp_avg"])
    torch.save(checkpoint, tmp_path / LAST)
    (tmp_path / "SHA256SUMS").write_text("# seq2seq_attn\n")
    (tmp_path / PREVIOUS).unlink()
    with pytest.raises(UserError, match="damaged, or not a checkpoint of this program"):
        run(tmp_path, small_model(), resume=True, max_epochs=5)


def test_a_counter_of_lightning_that_is_none_is_one_line(tmp_path):
    run(tmp_path, small_model())
    checkpoint = torch.load(tmp_path / LAST, weights_only=True)
    checkpoint["loops"] = {}
    torch.save(checkpoint, tmp_path / LAST)
    (tmp_path / "SHA256SUMS").write_text("# seq2seq_attn\n")
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint of this program \(KeyError: 'fit_loop'\)"):
        run(tmp_path, small_model(), resume=True, max_epochs=5)
