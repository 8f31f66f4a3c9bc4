"""Checkpoints: exact within an epoch, two of them, and never lost to a disk that is full or lies."""

import json
import re
import resource

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from test_loop import assert_same_bits, last_state, last_tensors, reversal_pairs, run, small_model

from seq2seq_attn.errors import UserError
from seq2seq_attn.training import LAST, PREVIOUS, checkpoints, loop
from seq2seq_attn.training.checkpoints import Checkpoint, TrainingState, write_checkpoint
from seq2seq_attn.training.loop import Loop
from seq2seq_attn.training.randomness import RandomStates

DROPOUT = {"embedding": 0.3, "word": 0.1, "readout": 0.3}


def run_until(step, monkeypatch, folder, **options):
    """A run that is interrupted before this step, counted from 0."""
    train = Loop.step

    def stop(self, batch):
        if self.state.step == step:
            raise KeyboardInterrupt
        train(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            run(folder, small_model(**DROPOUT), **options)


def assert_same_trainings(folder, whole, parts):
    """That in `folder/whole` and that in `folder/parts`, each with its model and what `run` says of it."""
    states = [
        {key: value for key, value in last_state(folder / name).items() if "seconds" not in key}
        for name in ("whole", "parts")
    ]
    assert states[0] == states[1]
    (model, expected), (other_model, fitted) = whole, parts
    assert fitted._replace(seconds=0, tokens_per_second=0) == expected._replace(seconds=0, tokens_per_second=0)
    assert_same_bits(other_model.state_dict(), model.state_dict())
    assert_same_bits(last_tensors(folder / "parts"), last_tensors(folder / "whole"))


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
        assert last_state(tmp_path / "parts")["step"] == step
    parts, fitted = run(tmp_path / "parts", small_model(**DROPOUT), resume=True, **recipe)
    assert_same_trainings(tmp_path, (whole, expected), (parts, fitted))


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
    train = Loop.step

    def draw(self, batch):
        drawn[self.state.step] = random.random(), np.random.random()
        train(self, batch)

    monkeypatch.setattr(Loop, "step", draw)
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
    run(tmp_path, max_epochs=2)
    first = last_state(tmp_path)
    _, fitted = run(tmp_path, max_epochs=4, resume=True)
    last, tokens = last_state(tmp_path), int(reversal_pairs().target.lengths.sum())
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
    monkeypatch.setattr(loop, "INTERVAL", interval)
    monkeypatch.setattr(loop, "SHARE", share)
    saved = []
    save = Loop.save
    monkeypatch.setattr(Loop, "save", lambda self: (saved.append(1), save(self)))
    run(tmp_path)
    assert len(saved) == saves


@pytest.mark.parametrize("interrupted", [1, 3, 4, 5])  # an epoch; the last: not at all
def test_a_training_that_was_stopped_stays_stopped(tmp_path, interrupted):
    """BLEU 1, 5, 4, 4: it stops after the fourth epoch, wherever it was interrupted and however often it is resumed."""
    options = {"monitor": "score", "patience": 2, "max_epochs": 9, "batch_size": 48}
    bleu = [1.0, 5.0, 4.0, 4.0, 9.0]

    def validating(start):
        scores = iter(bleu[start:])
        return lambda _: next(scores)

    whole, expected = run(tmp_path / "whole", validate=validating(0), **options)
    folder = tmp_path / "parts"
    if interrupted <= 4:
        save = Loop.save
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Loop, "save", lambda self: stop_after(self.state.epoch, interrupted) or save(self))
            with pytest.raises(KeyboardInterrupt):
                run(folder, validate=validating(0), **options)
    done = interrupted - 1 if interrupted <= 4 else 0
    for number in range(3):
        validate = validating(done if number == 0 else 4)
        parts, fitted = run(folder, validate=validate, resume=(folder / LAST).exists(), **options)
        assert (fitted.epochs, fitted.stopped, fitted.best, fitted.best_epoch) == (4, "patience", 5.0, 2)
        assert_same_bits(parts.state_dict(), whole.state_dict())
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
        with pytest.raises(UserError, match=r"last\.safetensors: cannot be written: File too large"):
            run(tmp_path, max_epochs=3, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(tmp_path) == before
    _, fitted = run(tmp_path, max_epochs=3, resume=True)
    assert fitted.epochs == 3


def test_a_checkpoint_that_reads_otherwise_than_it_was_written_replaces_nothing(tmp_path, monkeypatch):
    """As when the disk returns other bytes than it got."""
    run(tmp_path, max_epochs=2)
    before = contents(tmp_path)
    assert before.keys() == {"last.safetensors", "previous.safetensors"}
    monkeypatch.setattr(checkpoints, "sha256", lambda path: "0" * 64)
    with pytest.raises(UserError, match=r"last\.safetensors: the new checkpoint cannot be read back as it was written"):
        run(tmp_path, max_epochs=3)
    assert contents(tmp_path) == before


def test_a_training_that_was_killed_between_two_renames_continues_from_the_checkpoint_before(tmp_path):
    run(tmp_path, max_epochs=2)
    (tmp_path / LAST).unlink()  # it had become the one before, and the new one was not there yet
    whole, _ = run(tmp_path / "whole", max_epochs=3)
    said = []
    parts, fitted = run(tmp_path, max_epochs=3, resume=True, say=said.append)
    assert said == []
    assert fitted.epochs == 3
    assert_same_bits(parts.state_dict(), whole.state_dict())
    assert (tmp_path / PREVIOUS).exists()


MOMENT = "optimizer.head.projection.bias.exp_avg"


def changed(path, tensors=None, **values):
    """Puts these tensors and values into a checkpoint, or takes them out (None), and its checksum out of the run."""
    with safe_open(path, "pt") as file:
        found = json.loads(file.metadata()["values"])
    found = {part: {**each, **values.pop(part, {})} if isinstance(each, dict) else each for part, each in found.items()}
    kept = {name: each for name, each in (load_file(path) | (tensors or {})).items() if each is not None}
    save_file(kept, path, {"values": json.dumps(found | values)})
    (path.parents[1] / "SHA256SUMS").write_text("# seq2seq_attn\n")


@pytest.mark.parametrize(
    ("tensors", "values", "said"),
    [
        (
            {MOMENT: torch.zeros(1)},
            {},
            r"head\.projection\.bias\.exp_avg: torch\.float32 \(1,\) where torch\.float32 \(",
        ),
        ({MOMENT: torch.zeros(11, dtype=torch.int64)}, {}, r"head\.projection\.bias\.exp_avg: torch\.int64 \("),
        ({MOMENT: None}, {}, r"head\.projection\.bias\.exp_avg: missing"),
        ({"weights.mine": torch.zeros(1)}, {}, r"weights\.mine: not a tensor of this training"),
        ({"random.torch": torch.zeros(5, dtype=torch.uint8)}, {}, r"RNG state"),
        ({}, {"state": {"tokens": "x"}}, r"state\.tokens: Input should be a valid integer"),
        ({}, {"state": {"epoch": -1}}, r"state\.epoch: Input should be greater than or equal to 0"),
        ({}, {"python": [3, [1, 2], None]}, r"state"),
    ],
)
def test_a_checkpoint_with_values_of_another_type_or_size_is_not_continued_from(tmp_path, tensors, values, said):
    run(tmp_path, small_model())
    changed(tmp_path / LAST, tensors, **values)
    messages = []
    _, fitted = run(tmp_path, small_model(), resume=True, max_epochs=5, say=messages.append)
    assert re.search(said, messages[0])
    assert "damaged; continuing from the checkpoint before it" in messages[1]
    assert fitted.epochs == 5


def test_a_checkpoint_of_another_program_is_one_line(tmp_path):
    run(tmp_path, small_model())
    for name in (LAST, PREVIOUS):
        save_file({"weights": torch.zeros(3)}, tmp_path / name)
    (tmp_path / "SHA256SUMS").write_text("# seq2seq_attn\n")
    with pytest.raises(UserError, match="damaged, or not a checkpoint of this program"):
        run(tmp_path, small_model(), resume=True, max_epochs=5)


def test_a_checkpoint_of_any_kind_of_tensor_is_read_by_the_library_as_it_was_written(tmp_path):
    tensors = {
        "scalar": torch.tensor(1.5),
        "none": torch.zeros(0, 3),
        "transposed": torch.arange(6.0).view(2, 3).t(),
        **{str(kind): torch.arange(7).to(kind) for kind in checkpoints._TYPES},
    }
    write_checkpoint(tmp_path, Checkpoint(TrainingState(), tensors, [RandomStates.now()]))
    found = load_file(tmp_path / LAST)
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].tolist()) == (tensor.dtype, tensor.tolist())
