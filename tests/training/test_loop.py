"""Training as a whole: it learns, stops early, resumes exactly, and stops at a loss that is not finite."""

import csv
import json
import math
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.training import CURVES, LAST, progress
from seq2seq_attn.training.batches import Batch, EncodedPairs
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loop import Validation, fit

END = 3


def reversal_pairs(count=48, size=8, unit="sentences", *, order=0, seed=0):
    draw = torch.Generator().manual_seed(seed)
    sentences = [
        torch.randint(4, 11, (int(torch.randint(2, 6, (1,), generator=draw)),), generator=draw).tolist()
        for _ in range(count)
    ]
    source, target = ([[*s[::step], END] for s in sentences] for step in (1, -1))
    return EncodedPairs(EncodedLines.of(source), EncodedLines.of(target), size, unit, order)


def small_model(**dropout):
    torch.manual_seed(1)
    config = RecurrentConfig.model_validate(
        {
            "embedding_size": 12,
            "tie_embeddings": "none",
            "encoder": {"hidden_size": 10},
            "decoder": {"hidden_size": 20},
            "dropout": {"embedding": 0, "state": 0, "readout": 0} | dropout,
        }
    )
    return config.build(11, 11, joint=False)


def run(folder, model=None, validate=None, metric="bleu", resume=False, say=print, **changes):
    optimizer = {"learning_rate": 0.01, "schedule": "constant", "warmup_steps": 0} | changes.pop("optimizer", {})
    values = {"monitor": "loss", "batch_size": 8, "max_epochs": 4, "patience": None, "accelerator": "cpu"}
    plain = {"label_smoothing": 0.0, "ema_decay": None, "optimizer": optimizer}
    config = TrainingConfig.model_validate(values | plain | changes)
    model = model or small_model()
    torch.manual_seed(2)
    fitted = fit(
        model,
        config,
        reversal_pairs(48, config.batch_size, config.batch_unit, order=5),
        reversal_pairs(16, 16, seed=9),
        validate and Validation(METRICS[metric], validate),
        folder,
        resume=resume,
        say=say,
    )
    return model, fitted


def curve(folder, name="validation_loss"):
    with (folder / CURVES).open() as file:
        return {int(row["step"]): float(row[name]) for row in csv.DictReader(file) if row[name]}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_model_learns(tmp_path, precision):
    _, fitted = run(tmp_path, max_epochs=20, precision=precision)
    losses = list(curve(tmp_path).values())
    assert losses[-1] < 0.6 * losses[0]
    assert fitted.best == pytest.approx(min(losses), abs=1e-5)
    assert (fitted.epochs, fitted.steps) == (20, 20 * 6)
    assert fitted.tokens_per_second > 0


def test_tensorboard_shows_the_curves_of_the_csv_log(tmp_path):
    """Six steps in each of three epochs; the loss of a batch is logged every ten."""
    run(tmp_path, max_epochs=3, validate=lambda _: 7.0)
    events = EventAccumulator(str(tmp_path / "log")).Reload()
    for name, steps in (("validation_loss", [6, 12, 18]), ("validation_score", [6, 12, 18]), ("train_loss", [10])):
        shown = {event.step: event.value for event in events.Scalars(name)}
        assert list(shown) == steps
        assert shown == pytest.approx(curve(tmp_path, name))


def last_tensors(folder):
    """Those of the last checkpoint: weights, averages, the best weights, moments."""
    return load_file(folder / LAST)


def assert_same_bits(found, expected):
    """The same tensors by name, each with the same values."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def last_state(folder):
    with safe_open(folder / LAST, "pt") as file:
        return json.loads(file.metadata()["values"])["state"]


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {
            "optimizer": {"learning_rate": 0.01, "schedule": "cosine", "warmup_steps": 5},
            "ema_decay": 0.9,
            "r_drop": 2.0,
        },
    ],
    ids=["plain", "cosine, averages, R-Drop"],
)
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, recipe):
    """Interrupted while the third epoch is validated, so the third is trained again."""
    dropout = {"embedding": 0.3, "word": 0.1, "readout": 0.3}
    begun = []

    def interrupt(_):
        begun.append(1)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return 0.0

    whole, _ = run(tmp_path / "whole", small_model(**dropout), max_epochs=4, **recipe)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", small_model(**dropout), interrupt, max_epochs=4, **recipe)
    parts, fitted = run(tmp_path / "parts", small_model(**dropout), max_epochs=4, resume=True, **recipe)
    assert fitted.steps == 4 * 6
    assert_same_bits(parts.state_dict(), whole.state_dict())
    assert_same_bits(last_tensors(tmp_path / "parts"), last_tensors(tmp_path / "whole"))


def test_validated_and_kept_weights_are_averages_of_those_that_are_trained_as_without_an_average(tmp_path):
    """One step per epoch, so that every step is validated; the decays are 2/11, 3/12, then 0.25."""
    seen = {"trained": [], "averaged": []}
    for name, option in (("trained", {}), ("averaged", {"ema_decay": 0.25})):

        def validate(translator, biases=seen[name]):
            biases.append(translator.head.projection.bias.detach().double())
            return len(biases)

        model, _ = run(tmp_path / name, validate=validate, monitor="score", batch_size=48, max_epochs=4, **option)
    average = small_model().head.projection.bias.detach().double()
    for decay, trained, averaged in zip((2 / 11, 3 / 12, 0.25, 0.25), *seen.values(), strict=True):
        average = decay * average + (1 - decay) * trained
        torch.testing.assert_close(averaged, average, rtol=1e-5, atol=1e-7)
    assert torch.equal(model.head.projection.bias.detach().double(), seen["averaged"][-1])
    without, averaged = last_tensors(tmp_path / "trained"), last_tensors(tmp_path / "averaged")
    trained = [name for name in without if name.startswith("weights.")]
    assert trained
    assert all(torch.equal(without[name], averaged[name]) for name in trained)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_validation_loss_of_averaged_weights_is_that_of_the_kept_model(tmp_path, precision):
    options = {"ema_decay": 0.9, "precision": precision}
    model, fitted = run(tmp_path / "averaged", max_epochs=1, **options)
    # A step at this rate changes nothing, so the loss of a further training's first validation is that of `model`.
    _, again = run(tmp_path / "again", model, max_epochs=1, precision=precision, optimizer={"learning_rate": 1e-30})
    assert fitted.best == again.best


def test_every_epoch_has_different_batches(tmp_path):
    pairs = reversal_pairs()
    seen = []

    class Watched(EncodedPairs):
        def __iter__(self):
            for batch in super().__iter__():
                seen.append(batch.rows.tolist())
                yield batch

    config = TrainingConfig(max_epochs=3, batch_size=8, monitor="loss", accelerator="cpu")
    fit(small_model(), config, Watched(pairs.source, pairs.target, 8, seed=5), pairs, None, tmp_path, bar=False)
    epochs = [sorted(map(sorted, seen[start : start + 6])) for start in (0, 6, 12)]
    assert all(sorted(index for batch in epoch for index in batch) == list(range(48)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_training_stops_without_improvement_and_keeps_the_best_weights(tmp_path):
    """These BLEU scores peak in the second epoch; two more validations without improvement end the training."""
    scores = iter([1.0, 5.0, 4.0, 4.5, 99.0])
    seen = []

    def validate(translator):
        seen.append(translator.head.projection.bias.detach().clone())
        return next(scores)

    model, fitted = run(tmp_path, validate=validate, monitor="score", max_epochs=5, patience=2)
    assert len(seen) == 4
    assert fitted.best == 5.0
    torch.testing.assert_close(model.head.projection.bias.detach(), seen[1])


def outcome(folder, bleu, **options):
    scores = iter(bleu)
    options = {"monitor": "score", "max_epochs": len(bleu), "batch_size": 48} | options
    _, fitted = run(folder, validate=lambda _: next(scores), **options)
    return fitted.stopped, fitted.best_epoch


@pytest.mark.parametrize(
    ("bleu", "patience", "expected"),
    [
        ([1.0, 5.0, 4.0, 5.0, 9.0], 2, ("patience", 2)),
        ([1.0, 5.0, 4.0, 5.0], 2, ("patience", 2)),  # in the last of all epochs
        ([1.0, 5.0, 4.0], 2, ("max_epochs", 2)),
        ([1.0, 2.0, 3.0], 2, ("max_epochs", 3)),
        ([math.nan, 2.0, 3.0], 2, ("max_epochs", 3)),
        ([math.nan, math.nan, math.nan], 2, ("patience", 1)),
        ([0.0, 0.9, 0.5, 0.0, 3.0, 2.0], 2, ("max_epochs", 5)),  # a BLEU below 1 does not count against patience
        ([0.0, 0.0, math.nan, 0.0], 2, ("max_epochs", 4)),
        ([1.0, 5.0, 4.0, 4.0, 4.0, 4.0], None, ("max_epochs", 2)),
    ],
)
def test_a_training_records_why_it_stopped_and_its_best_epoch(tmp_path, bleu, patience, expected):
    assert outcome(tmp_path, bleu, patience=patience) == expected


def test_the_outcome_counts_validations_over_an_interruption(tmp_path):
    assert outcome(tmp_path, [3.0, 2.0], patience=3) == ("max_epochs", 1)
    assert outcome(tmp_path, [2.0, 2.0], patience=3, max_epochs=4, resume=True) == ("patience", 1)


def rate(folder):
    return last_state(folder)["plateau"][2]


def test_plateau_halves_the_rate_without_improvement_even_over_an_interruption(tmp_path):
    """BLEU 3, then 2, 4, 4, 3: worse in the second, fourth and fifth epoch."""
    plateau = {
        "optimizer": {"learning_rate": 0.08, "schedule": "plateau", "plateau_patience": 0, "warmup_steps": 0},
        "monitor": "score",
        "batch_size": 48,
    }
    for parts in ([5], [2, 5], [1, 2, 3, 4, 5]):
        scores = iter([3.0, 2.0, 4.0, 4.0, 3.0])
        folder = tmp_path / str(len(parts))
        rates = []
        for number, epochs in enumerate(parts):
            run(folder, validate=lambda _, scores=scores: next(scores), resume=number > 0, max_epochs=epochs, **plateau)
            rates.append(rate(folder))
        assert rates[-1] == pytest.approx(0.01)
    assert rates == pytest.approx([0.08, 0.04, 0.04, 0.02, 0.01])


def test_plateau_waits_while_bleu_is_below_1(tmp_path):
    """As early stopping does: BLEU 0, 0.5, 0.4 before anything is learned, then 3 and 3, which is no improvement."""
    scores, rates = iter([0.0, 0.5, 0.4, 3.0, 3.0]), []
    optimizer = {"learning_rate": 0.08, "schedule": "plateau", "plateau_patience": 0, "warmup_steps": 0}
    for epochs in (3, 4, 5):
        options = {"optimizer": optimizer, "monitor": "score", "batch_size": 48, "max_epochs": epochs}
        run(tmp_path, validate=lambda _: next(scores), resume=epochs > 3, **options)
        rates.append(rate(tmp_path))
    assert rates == pytest.approx([0.08, 0.08, 0.04])


def test_the_last_checkpoint_is_from_the_last_epoch_even_if_an_earlier_one_was_better(tmp_path):
    scores = iter([9.0, 1.0])
    run(tmp_path, validate=lambda _: next(scores), monitor="score", max_epochs=2)
    state, tensors = last_state(tmp_path), last_tensors(tmp_path)
    assert [state[key] for key in ("epoch", "best_score", "best_epoch", "since_best")] == [2, 9.0, 1, 1]
    assert not torch.equal(tensors["best.head.projection.bias"], tensors["weights.head.projection.bias"])


def test_a_loss_that_is_not_finite_stops_training_and_names_the_step(tmp_path):
    run(tmp_path, max_epochs=1)
    kept = (tmp_path / LAST).read_bytes()
    model = small_model()
    with torch.no_grad():
        model.head.projection.bias.fill_(torch.nan)
    with pytest.raises(
        UserError, match=r"loss is nan at step 1, epoch 1; .*lower training\.optimizer\.learning_rate=0\.01"
    ):
        run(tmp_path, model)
    assert (tmp_path / LAST).read_bytes() == kept


def test_weights_broken_by_the_last_step_of_an_epoch_are_never_saved(tmp_path):
    """One step per epoch: no loss is computed after it that would show the damage."""
    one_step = {"batch_size": 48, "monitor": "loss"}
    run(tmp_path, max_epochs=1, **one_step)
    kept = {path: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()}
    broken = {"optimizer": {"learning_rate": 3e38}, "clip_norm": None}
    with pytest.raises(UserError, match=r"weights are not finite after step 1, epoch 1; .*set training\.clip_norm"):
        run(tmp_path, small_model(), max_epochs=1, **one_step, **broken)
    assert {path: path.read_bytes() for path in kept} == kept


def test_an_interrupted_training_is_not_resumed_below_the_epochs_that_it_has(tmp_path):
    validations = iter(range(3))

    def validate(_):
        if next(validations, None) is None:
            raise KeyboardInterrupt
        return 7.0

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, validate=validate, max_epochs=5)
    with pytest.raises(UserError, match=r"has trained for 3 epochs, more than training\.max_epochs=2; give at least 3"):
        run(tmp_path, max_epochs=2, resume=True)
    _, fitted = run(tmp_path, max_epochs=3, resume=True)
    assert (fitted.epochs, fitted.stopped) == (3, "max_epochs")


def test_a_truncated_checkpoint_is_refused(tmp_path):
    run(tmp_path, max_epochs=1)
    path = tmp_path / LAST
    content = path.read_bytes()
    for recorded in (True, False):
        path.write_bytes(content[:1000])
        if not recorded:
            (tmp_path / "SHA256SUMS").write_text("# seq2seq_attn\n")
        with pytest.raises(UserError, match=r"last\.safetensors: damaged, .* no whole one before it; .*--overwrite"):
            run(tmp_path, max_epochs=2, resume=True)
        assert path.read_bytes() == content[:1000]


class CreatesAFile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_in_the_place_of_a_checkpoint_executes_nothing_and_is_refused_in_one_line(tmp_path):
    run(tmp_path / "run", max_epochs=1)
    torch.save({"weights": CreatesAFile(tmp_path / "created")}, tmp_path / "run" / LAST)
    (tmp_path / "run" / "SHA256SUMS").write_text("# seq2seq_attn\n")  # who can write the one can write the other
    with pytest.raises(UserError, match=r"^[^\n]*last\.safetensors: damaged, or not a checkpoint[^\n]*--overwrite$"):
        run(tmp_path / "run", max_epochs=2, resume=True)
    assert not (tmp_path / "created").exists()


def test_a_log_has_a_line_for_epochs_of_ten_seconds_and_for_the_last(tmp_path, capsys):
    run(tmp_path, max_epochs=3, validate=lambda _: 7.0)
    (line,) = capsys.readouterr().err.splitlines()
    words = r"training: epoch 3/3, loss \d\.\d{3}, validation loss \d\.\d{3}, BLEU 7\.00, [\d.]+ s, [\d,]+ tokens/s"
    assert re.fullmatch(words, line)


def test_a_log_has_a_line_for_each_interval(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    run(tmp_path, max_epochs=3)
    lines = capsys.readouterr().err.splitlines()
    assert [re.match(r"training: epoch (\d)/3, ", line)[1] for line in lines] == ["1", "2", "3"]


def test_a_terminal_shows_a_line_per_epoch_with_the_time_left(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    scores = iter([5.0, 4.0, 3.0])
    run(tmp_path, max_epochs=9, monitor="score", patience=2, validate=lambda _: next(scores))
    lines = [line for line in capsys.readouterr().err.splitlines() if "training: " in line]
    assert [bool(re.search(r"left$", line)) for line in lines] == [True, True, False, False]
    assert "epoch 2/9" in lines[1]
    assert "stopped: 2 validations without improvement (training.patience)" in lines[3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_stderr_that_cannot_be_written_does_not_end_a_training(tmp_path, monkeypatch, is_terminal):
    device = open("/dev/full", "w")  # noqa: SIM115 - closing it fails
    with monkeypatch.context() as full:
        full.setattr(device, "isatty", lambda: is_terminal)
        full.setattr(sys, "stderr", device)
        _, fitted = run(tmp_path, max_epochs=2)
    assert fitted.epochs == 2
    with suppress(OSError):
        device.close()


def test_a_training_that_would_never_be_validated_is_refused():
    with pytest.raises(ValidationError, match="validate_every=3 is above max_epochs=2"):
        TrainingConfig(validate_every=3, max_epochs=2)


def test_gradients_are_clipped_to_the_norm(tmp_path):
    model = small_model()
    before = model.head.projection.weight.detach().clone()
    # The size of an Adam step hardly depends on the scale of the gradient, but it does through epsilon.
    optimizer = {"learning_rate": 1.0, "epsilon": 1.0}
    run(tmp_path, model, max_epochs=1, clip_norm=1e-3, optimizer=optimizer)
    assert 0 < (model.head.projection.weight - before).abs().max() < 6 * 1e-3


class Lists:
    """A dataset of one's own: batches made one after the other from lists, with one more word in every epoch."""

    def __init__(self, sentences):
        self.sentences, self.epoch, self.left_out = sentences, 0, 0

    def __len__(self):
        return len(self.sentences)

    def __iter__(self):
        first, self.left_out = self.left_out, 0
        for sentence in self.sentences[first:]:
            side = pad([[*sentence, *[4] * self.epoch, END], [*sentence[:1], END]])
            yield Batch(side, side)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def shard(self, rank, world):
        return self

    def state_dict(self):
        return {"asked": True}

    def load_state_dict(self, state):
        assert state == {"asked": True}


def test_a_dataset_of_ones_own_is_trained_on_and_keeps_its_state_in_the_checkpoint(tmp_path):
    training, validation = Lists([[5, 6], [7, 8, 9], [4]]), reversal_pairs(16, 16)
    seen = []
    training.set_epoch = lambda epoch: (seen.append(epoch), Lists.set_epoch(training, epoch))
    for epochs in (2, 3):
        options = TrainingConfig(max_epochs=epochs, monitor="loss", accelerator="cpu")
        fitted = fit(small_model(), options, training, validation, None, tmp_path, resume=epochs == 3, bar=False)
    assert (fitted.epochs, fitted.steps) == (3, 9)
    assert seen == [0, 1, 2]
    assert last_state(tmp_path)["tokens"] == sum(15 + 3 * epoch for epoch in range(3))
