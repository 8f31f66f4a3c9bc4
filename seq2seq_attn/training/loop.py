"""The training loop in plain torch: from the first step, or the last checkpoint, to the weights of the best validation.

`Loop.run` is all of it: for each epoch the batches, the validation and the checkpoint; `Loop.step` is a step. One
process trains. Several would change the three places that say "several processes": each takes its share of the batches;
losses are sums over tokens, divided by the tokens of all of them; and one decides for all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.evaluation.metrics import LOSS, Metric
from seq2seq_attn.models.head import Loss
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops import fuse
from seq2seq_attn.ops.host import device_type, free_memory, is_out_of_memory, is_synchronous
from seq2seq_attn.saved import unique_tensors
from seq2seq_attn.training.average import WeightAverage, evaluating
from seq2seq_attn.training.batches import Batch, Dataset
from seq2seq_attn.training.checkpoints import Checkpoint, TrainingState, keep_epoch, read_checkpoint, write_checkpoint
from seq2seq_attn.training.config import TrainingConfig, make_optimizer, plateau, rate_per_step
from seq2seq_attn.training.divergence import SkippedSteps
from seq2seq_attn.training.loss import refuse_r_drop_without_dropout, token_loss, training_loss
from seq2seq_attn.training.progress import Curves, ProgressLines
from seq2seq_attn.training.randomness import RandomStates


class Validation(NamedTuple):
    """How a model is scored on the validation set, beside its loss."""

    metric: Metric
    score: Callable[[Seq2Seq], float]


# Within an epoch, checkpoints are written at least this long after each other, and take at most this share of the time.
INTERVAL = 60.0  # seconds
SHARE = 0.02


class Fitted(NamedTuple):
    """The outcome of training; the model has the weights of the best validation."""

    best: float  # score or loss, as `monitor` says
    epochs: int
    steps: int
    seconds: float  # of training and validation, including those before an interruption
    tokens_per_second: float  # target tokens per second, padding and validation excluded
    best_epoch: int | None  # of the best validation, counted from 1
    stopped: Literal["patience", "max_epochs"]  # the option that ended training
    skipped_steps: int  # whose loss or gradient was not finite
    split_steps: int  # whose batch was halved because memory ran out


def fit(
    model: Seq2Seq,
    config: TrainingConfig,
    training: Dataset,
    validation: Iterable[Batch],
    scoring: Validation | None,
    folder: Path,
    name: str = "training",
    *,
    resume: bool = False,
    bar: bool | None = True,
    say: Callable[[str], object] = lambda _: None,
) -> Fitted:
    """Trains in place, with checkpoints in folder/checkpoints and curves in folder/log; then loads the best weights.

    With `resume`, training continues from the last checkpoint, and a run that had ended does nothing more, unless
    `config` now allows more epochs or more patience. `name` begins each line of progress; use `bar=False` if several
    runs share a terminal, None for no progress at all. Without `scoring`, the loss alone is validated and monitored.

    KeyboardInterrupt leaves the last checkpoint. UserError: training diverges, memory runs out, a file cannot be
    written, or there is no whole checkpoint to resume from.
    """
    loop = Loop(fuse(model), config, training, validation, scoring, folder)
    if resume:
        loop.restore(say)
    if not loop.has_ended:
        try:
            with _memory(f"ran out; lower training.batch_size={config.batch_size}"):
                loop.run(name, bar)
        except OSError as error:  # of TensorBoard: the other files have messages of their own
            raise UserError(f"{file_of(error, folder)}: cannot be written: {error.strerror}") from None
    copy_(unique_tensors(model), loop.best)
    state = loop.state
    return Fitted(
        best=math.nan if state.best_score is None else state.best_score,
        epochs=state.epoch,
        steps=state.step - state.batch,  # an epoch that is not to be trained any more does not count
        seconds=state.seconds,
        tokens_per_second=state.tokens / max(state.training_seconds, 1e-9),
        best_epoch=state.best_epoch,
        stopped="patience" if loop.is_out_of_patience else "max_epochs",
        skipped_steps=state.skipped_steps,
        split_steps=state.split_steps,
    )


class Loop:
    """A training under way: the model, its optimizer, and `state`, which counts what has been done."""

    def __init__(
        self,
        model: Seq2Seq,
        config: TrainingConfig,
        training: Dataset,
        validation: Iterable[Batch],
        scoring: Validation | None,
        folder: Path,
    ) -> None:
        self.device = torch.device(device_type(config.accelerator))
        self.model, self.config, self.folder = model.to(self.device), config, folder
        self.training, self.validation, self.scoring = training, validation, scoring
        self.monitor = LOSS if scoring is None or config.monitor == "loss" else scoring.metric
        self.steps = len(training) * config.max_epochs
        self.state = TrainingState()
        self.random: RandomStates | None = None  # of the checkpoint that training continues from
        self.epoch_negative = torch.zeros((), device=self.device)  # -log p over the tokens of this epoch so far
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.optimizer: Any = make_optimizer(list(self.weights.values()), config.optimizer)
        self.rate = rate_per_step(config.optimizer, self.steps)
        self.plateau = plateau(self.optimizer, config.optimizer, self.monitor.sign)
        self.average = None if config.ema_decay is None else WeightAverage(self.weights, config.ema_decay)
        self.best = {name: tensor.clone() for name, tensor in unique_tensors(model).items()}
        self.skipped = SkippedSteps(model, config)
        # Reading a value makes an accelerator wait.
        self.read_every, self.log_every = (1, 10) if is_synchronous(self.epoch_negative) else (50, 50)
        self._take_no_step()

    def _take_no_step(self) -> None:
        """A step that is skipped makes the moments of the optimizer, all zero, into which a checkpoint can be read."""
        for weight in self.weights.values():
            weight.grad = torch.zeros_like(weight)
        self.optimizer.found_inf = torch.ones((), device=self.device)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @property
    def is_out_of_patience(self) -> bool:
        """Whether the last `patience` validations brought no improvement."""
        return self.config.patience is not None and self.state.since_best >= self.config.patience

    @property
    def has_ended(self) -> bool:
        return self.state.epoch >= self.config.max_epochs or self.is_out_of_patience

    def run(self, name: str, bar: bool | None) -> None:
        """Trains until the last epoch, or until patience is lost."""
        config, state = self.config, self.state
        self.due = time.perf_counter() + INTERVAL
        with (
            Curves(self.folder, state) as self.curves,
            ProgressLines(name, bar, state.step, self.steps, self.scoring and self.scoring.metric.label) as self.lines,
        ):
            while not self.has_ended:
                self.train_epoch()
                # Several processes: the first of them validates, decides and saves, and tells the others.
                scores = self.validate() if (state.epoch + 1) % config.validate_every == 0 else {}
                self._count_seconds()
                state.epoch, state.batch = state.epoch + 1, 0
                if config.keep_epochs:
                    keep_epoch(self.folder, self.model, state.epoch, config.keep_epochs)
                self.save()
                loss = self.epoch_negative.item() / max(1, state.epoch_tokens)
                self.lines.show_epoch(state, loss, scores, config.max_epochs, is_last=self.has_ended)
            if self.is_out_of_patience:
                self.lines.write(f"stopped: {config.patience} validations without improvement (training.patience)")

    def train_epoch(self) -> None:
        """A step for each batch of the epoch that the state does not contain yet."""
        state = self.state
        self.training.set_epoch(state.epoch)
        batches = iter(self.training)  # may draw numbers; several processes: each iterates over its `shard`
        if state.batch and self.random is not None:
            self.random.restore()  # within an epoch, after those numbers
        elif not state.batch:
            state.epoch_tokens, state.epoch_seconds = 0, 0.0
            self.epoch_negative.zero_()
        self._mark = time.perf_counter()
        for batch in batches:
            self.step(batch.to(self.device))
            state.batch += 1
            state.training_seconds += self._count_seconds()
            self.lines.show_step(state.step)
            # After the last batch comes the validation, and then the checkpoint of the epoch.
            if time.perf_counter() >= self.due and state.batch < len(self.training):
                self.skipped.require_health(state)
                self.save()
        self.skipped.require_health(state)

    def step(self, batch: Batch) -> None:
        """Forward, backward, clip, step. A step whose loss or gradient is not finite changes no weight."""
        config, state, weights = self.config, self.state, list(self.weights.values())
        if config.r_drop and state.step == 0:
            refuse_r_drop_without_dropout(self.model, batch, config.r_drop)
        if self.rate is not None:
            self.optimizer.param_groups[0]["lr"] = self.rate(state.step)
        loss, negative, count = self.add_gradient(batch)
        norm = get_total_norm([weight.grad for weight in weights if weight.grad is not None])
        if config.clip_norm is not None:
            clip_grads_with_norm_(weights, config.clip_norm, norm)
        state.step += 1
        # A fused optimizer reads this on the device, and then changes nothing.
        self.optimizer.found_inf = self.skipped.add(state.step, batch, loss / count, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.average is not None:
            self.average.update(state.step)
        state.tokens += count
        state.epoch_tokens += count
        self.epoch_negative += negative.nan_to_num(0.0, 0.0, 0.0)
        if state.step % self.read_every == 0:
            self.skipped.count(state)
        if state.step % self.log_every == 0:
            self.curves.add(state, {"train_loss": negative.item() / count})

    def add_gradient(self, batch: Batch) -> Loss:
        """Adds the gradient of the mean loss of a target token to that of the weights.

        Where memory runs out, two halves of the batch give the same gradient: their losses are sums over tokens,
        divided by the tokens of the whole batch.
        """
        # Several processes: the tokens are those of all of them, and so are, on return, the loss and the gradient.
        count = int(batch.target.lengths.sum())
        try:
            return self._backward(batch, count)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Here, because `except` keeps the graph alive.
        pairs = len(batch.source.lengths)
        sizes = " and ".join(str(int(side.lengths.max())) for side in (batch.source, batch.target))
        about = f"ran out in a batch of {pairs} sentence pairs with up to {sizes} tokens"
        if pairs == 1:
            raise UserError(
                f"memory {about}; lower data.max_length or data.max_training_length, or the sizes of the model"
            )
        self.optimizer.zero_grad()  # a part of the gradient may have been computed
        free_memory()
        with _memory(f"{about}, and in a half of it; lower training.batch_size={self.config.batch_size}"):
            first, second = (self._backward(half, count) for half in batch.halves())
        self.state.split_steps += 1
        return Loss(first.total + second.total, first.negative + second.negative, count)

    def _backward(self, batch: Batch, count: int) -> Loss:
        with self._autocast():
            loss = training_loss(self.model, batch, self.config)
        torch.autograd.backward(loss.total / count)
        return Loss(loss.total.detach(), loss.negative, loss.tokens)

    def _autocast(self) -> torch.autocast:
        # No cache of casts: with it, the gradients of a weight that is used at every step would add up in bf16.
        is_bf16 = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_bf16, cache_enabled=False)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The scores of the averaged weights, which are kept if they are the best so far."""
        state = self.state
        with evaluating(self.model, self.average):
            scores = self._scores()
            score = scores["loss" if self.monitor is LOSS else "score"]
            state.since_best += self.monitor.is_informative(score)
            if self.monitor.is_better(score, state.best_score):
                state.best_score, state.best_epoch, state.since_best = score, state.epoch + 1, 0
                copy_(self.best, unique_tensors(self.model))
        if self.plateau is not None and self.monitor.is_informative(score):
            self.plateau.step(score)
        self.curves.add(state, {f"validation_{name}": value for name, value in scores.items()})
        return scores

    def _scores(self) -> dict[str, float]:
        negative, count = 0.0, 0
        for batch in self.validation:
            with self._autocast():
                loss = token_loss(self.model, batch.to(self.device))
            negative += loss.negative.item()
            count += loss.tokens
        scores = {"loss": negative / max(1, count)}
        if self.scoring is not None:
            with _memory(
                "ran out while the validation set was translated; lower search.batch_size or search.batch_tokens"
            ):
                scores["score"] = self.scoring.score(self.model)
        return scores

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the training, by name: a checkpoint is written from them, and read into them."""
        groups = {
            "weights": unique_tensors(self.model),
            "best": self.best,
            "average": {} if self.average is None else self.average.averages,
            "epoch": {"negative": self.epoch_negative},
            **{f"optimizer.{name}": self.optimizer.state[weight] for name, weight in self.weights.items()},
        }
        return {f"{group}.{name}": tensor for group, tensors in groups.items() for name, tensor in tensors.items()}

    def save(self) -> None:
        """Writes a checkpoint, and the curves up to it."""
        start = time.perf_counter()
        if self.plateau is not None:
            rate = self.optimizer.param_groups[0]["lr"]
            self.state.plateau = self.plateau.best, self.plateau.num_bad_epochs, rate
        self.state.data = self.training.state_dict()
        self.curves.save(self.state)
        write_checkpoint(self.folder, Checkpoint(self.state, self.tensors(), RandomStates.now()))
        end = time.perf_counter()
        self.due = end + max(INTERVAL, (end - start) / SHARE)

    def restore(self, say: Callable[[str], object]) -> None:
        """Continues from the last checkpoint, to the same bits as without an interruption."""
        self.state, tensors, self.random = read_checkpoint(self.folder, self.tensors(), say)
        self.config.require_epochs(self.state.epoch, self.folder)
        copy_(self.tensors(), tensors)
        self.training.load_state_dict(self.state.data)
        if self.plateau is not None and self.state.plateau is not None:
            self.plateau.best, self.plateau.num_bad_epochs, rate = self.state.plateau
            self.optimizer.param_groups[0]["lr"] = rate

    def _count_seconds(self) -> float:
        """The seconds since the last call, after adding them."""
        now = time.perf_counter()
        elapsed, self._mark = now - self._mark, now
        self.state.seconds += elapsed
        self.state.epoch_seconds += elapsed
        return elapsed


@contextmanager
def _memory(ran_out: str) -> Iterator[None]:
    """UserError with what the settings can do about it, if memory runs out in the block."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"memory {ran_out}, and start again with --overwrite") from None


@torch.no_grad()
def copy_(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Overwrites tensors in place by those of the same name."""
    for name, tensor in tensors.items():
        tensor.copy_(values[name])
