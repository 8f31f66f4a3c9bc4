"""The training loop in plain torch: from the first step, or the last checkpoint, to the weights of the best validation.

`Loop.run` is all of it: epochs, the steps of each, and `Loop.after_step` for validations, checkpoints and the end;
`Loop.step` is a step. Several processes may train one model (`processes.py`): each has its share of every batch and of
the validation, `combine` makes of their gradients that of the batch, and the first of them decides for all and writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from seq2seq_attn.errors import UserError, file_of
from seq2seq_attn.evaluation.metrics import LOSS, Metric
from seq2seq_attn.models.head import Loss
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.ops import fuse, replayed
from seq2seq_attn.ops.host import device_type, free_memory, is_out_of_memory, is_synchronous
from seq2seq_attn.saved import checksum, copy_, unique_tensors
from seq2seq_attn.training.average import WeightAverage, evaluating
from seq2seq_attn.training.batches import Batch, Dataset
from seq2seq_attn.training.checkpoints import (
    Checkpoint,
    TrainingState,
    keep_epoch,
    read_checkpoint,
    read_last,
    write_checkpoint,
)
from seq2seq_attn.training.config import Limit, TrainingConfig
from seq2seq_attn.training.divergence import SkippedSteps, explained_memory
from seq2seq_attn.training.freezing import freezing
from seq2seq_attn.training.loggers import UNTRACKED, TrackedRun
from seq2seq_attn.training.loss import refuse_r_drop_without_dropout, token_loss, training_loss
from seq2seq_attn.training.optimizer import Updates
from seq2seq_attn.training.processes import ALONE, Processes
from seq2seq_attn.training.progress import Curves, ProgressLines
from seq2seq_attn.training.randomness import RandomStates, restore_own, separate


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
    best_epoch: int | None  # of the best validation, counted from 1; 0: before the first step of a warm start
    stopped: Limit  # the option that ended training
    skipped_steps: int  # whose loss or gradient was not finite
    split_steps: int  # whose batch was halved because memory ran out


def fit(
    model: Seq2Seq,
    config: TrainingConfig,
    training: Dataset,
    validation: Iterable[Batch],
    scoring: Validation | None,
    folder: Path,
    *,
    run: TrackedRun = UNTRACKED,
    resume: bool = False,
    bar: bool | None = True,
    say: Callable[[str], object] = lambda _: None,
    optimizer: Mapping[str, Tensor] | None = None,
    processes: Processes = ALONE,
) -> Fitted:
    """Trains in place, with checkpoints in folder/checkpoints and curves in folder/log; then loads the best weights.

    With `resume`, training continues from the last checkpoint, and a run that had ended does nothing more, unless
    `config` now allows more epochs or more patience. The name of the `run`, which the loggers of the configuration are
    told of, begins each line of progress; use `bar=False` if several runs share a terminal, None for no progress at
    all. Without `scoring`, the loss alone is validated and monitored. `optimizer` has the tensors of another run's
    optimizer, which this one begins with. All `processes` call this with the same arguments; `score` of `scoring` may
    share out its work, and that of the first one counts.

    KeyboardInterrupt leaves the last checkpoint. UserError: training diverges, memory runs out, a file cannot be
    written, or there is no whole checkpoint to resume from.
    """
    with freezing(model, config.freeze):
        loop = Loop(fuse(model), config, training, validation, scoring, folder, processes)
        if resume:
            loop.restore(say)
        elif optimizer is not None:
            loop.updates.start_from(optimizer)
        if loop.stopped is None:
            try:
                with explained_memory(f"ran out; lower training.batch_size={config.batch_size}"):
                    loop.run(run, bar)
            except OSError as error:  # of a logger: the other files have messages of their own
                raise UserError(f"{file_of(error, folder)}: cannot be written: {error.strerror}") from None
    copy_(unique_tensors(model), loop.best)
    state = loop.state
    assert loop.stopped is not None
    # Steps of an epoch that is not to be trained any more do not count.
    surplus = config.epoch_steps(state.batch) if loop.stopped == "max_epochs" else 0
    return Fitted(
        best=math.nan if state.best_score is None else state.best_score,
        epochs=state.epoch,
        steps=state.step - surplus,
        seconds=state.seconds,
        tokens_per_second=state.tokens / max(state.training_seconds, 1e-9),
        best_epoch=state.best_epoch,
        stopped=loop.stopped,
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
        processes: Processes = ALONE,
    ) -> None:
        self.device = torch.device(device_type(config.accelerator))
        self.model, self.config, self.folder, self.processes = model.to(self.device), config, folder, processes
        self.training = training if processes.world == 1 else training.shard(processes.rank, processes.world)
        self.validation, self.scoring = validation, scoring
        loss = partial(training_loss, config=config)
        self.loss = partial(loss, self.model) if config.r_drop else replayed(self.model, loss)
        self.monitor = LOSS if scoring is None or config.monitor == "loss" else scoring.metric
        self.steps = config.all_steps(len(training))
        self.state = TrainingState(optimizer=config.optimizer.model_dump(mode="json"))
        self.random: RandomStates | None = None  # of the checkpoint that training continues from
        self.epoch_negative = torch.zeros((), device=self.device)  # -log p over the tokens of this epoch so far
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.updates = Updates(self.weights, config.optimizer, self.monitor.sign)
        self.average = None if config.ema_decay is None else WeightAverage(self.weights, config.ema_decay)
        self.best = {name: tensor.clone() for name, tensor in unique_tensors(model).items()}
        self.skipped = SkippedSteps(model, config)
        # Reading a value makes an accelerator wait.
        self.read_every, self.log_every = (1, 10) if is_synchronous(self.epoch_negative) else (50, 50)
        self.due = self.end = math.inf  # when a checkpoint is written, and training ends: only the first has a clock
        self.is_due = self.is_late = False
        self.stopped: Limit | None = None  # the option that has ended training

    def run(self, run: TrackedRun, bar: bool | None) -> None:
        """Trains until a limit is reached, or patience is lost."""
        config, state = self.config, self.state
        self.updates.begin(state.phase_step, self.steps, config.epoch_steps(len(self.training)))
        self._mark = time.perf_counter()
        if self.processes.is_first:
            self.due = self._mark + INTERVAL
            self.end = math.inf if config.max_hours is None else self._mark + 3600 * config.max_hours
        if self.processes.world > 1 and self.random is None:
            separate(self.processes.rank)
        self.processes.require_equal(lambda: checksum(self.model), state.step)
        loggers, score = config.loggers if self.processes.is_first else (), self.scoring and self.scoring.metric.label
        with (
            Curves(self.folder, loggers, run, state.step) as self.curves,
            ProgressLines(run.name, bar, state.step, self.steps, score) as self.lines,
        ):
            if config.start_from is not None and state.best_score is None:  # what a warm start begins with
                self.lines.show_validation(state, 0.0, self.validate(), None, is_last=True)
            while self.stopped is None:
                self.train_epoch()
            self.lines.show_end(self.stopped, config)
        if state.best_score is None:  # the time was over before the first validation
            with evaluating(self.model, self.average):
                copy_(self.best, unique_tensors(self.model))

    def train_epoch(self) -> None:
        """A step for each batch of the epoch that the state does not contain yet, or for every `accumulate` of them."""
        config, state = self.config, self.state
        self.training.set_epoch(state.epoch)
        batches = iter(self.training)  # may draw numbers
        if state.batch and self.random is not None:
            self.random.restore()  # within an epoch, after those numbers
        elif not state.batch:
            state.epoch_tokens, state.epoch_seconds = 0, 0.0
            self.epoch_negative.zero_()
        self._mark = time.perf_counter()
        while group := list(islice(batches, config.accumulate)):
            self.step([batch.to(self.device) for batch in group])
            state.batch += len(group)
            state.training_seconds += self._count_seconds()
            self.lines.show_step(state.step)
            if state.batch < len(self.training):
                self.after_step()
                if self.stopped is not None:
                    return
        self.after_step(ends_epoch=True)

    def after_step(self, *, ends_epoch: bool = False) -> None:
        """Validates and writes a checkpoint when it is time for them."""
        config, state = self.config, self.state
        validates = config.validates_after(state.step, state.epoch + 1 if ends_epoch else None)
        if not (validates or ends_epoch or self.is_due):
            return
        self.skipped.require_health(state)
        scores = self.validate() if validates else {}
        self._count_seconds()
        if ends_epoch:
            state.epoch, state.batch = state.epoch + 1, 0
            self.processes.require_equal(lambda: checksum(self.model), state.step)
            if config.keep_epochs and self.processes.is_first:
                keep_epoch(self.folder, self.model, state.epoch, config.keep_epochs)
        self.stopped = config.limit_reached(state.epoch, state.step, state.since_best, is_late=self.is_late)
        self.save()
        if validates or ends_epoch:
            loss = self.epoch_negative.item() / max(1, state.epoch_tokens)
            epochs = config.max_epochs if ends_epoch else None
            self.lines.show_validation(state, loss, scores, epochs, is_last=self.stopped is not None)

    def step(self, batches: Sequence[Batch]) -> None:
        """Forward, backward, clip, step. A step whose loss or gradient is not finite changes no weight."""
        config, state, weights = self.config, self.state, list(self.weights.values())
        batches = [batch for batch in batches if batch.pairs]  # several processes: some may have no pair of a batch
        if config.r_drop and state.step == 0 and batches:
            refuse_r_drop_without_dropout(self.model, batches[0], config.r_drop)
        loss, negative, count = self.add_gradient(batches)
        norm = get_total_norm([weight.grad for weight in weights if weight.grad is not None])
        if config.clip_norm is not None:
            clip_grads_with_norm_(weights, config.clip_norm, norm)
        state.step += 1
        skip = self.skipped.add(state.step, batches, loss / count, norm)
        self.updates.step(state.step - 1, skip)
        if self.average is not None:
            self.average.update(state.step)
        state.tokens += count
        state.epoch_tokens += count
        self.epoch_negative += negative.nan_to_num(0.0, 0.0, 0.0)
        if state.step % self.read_every == 0:
            self.skipped.count(state)
        if state.step % self.log_every == 0:
            self.curves.add(state, state.epoch + 1, {"train_loss": negative.item() / count})

    def add_gradient(self, batches: Sequence[Batch]) -> Loss:
        """Adds the gradient of the mean loss of a target token in these batches to that of the weights.

        On return, loss and gradient are those of the batches of all processes.
        """
        loss, is_split = self._own_gradient(batches)
        now = time.perf_counter()
        flags = is_split, now >= min(self.due, self.end), now >= self.end
        loss, (is_split, self.is_due, self.is_late) = self.processes.combine([*self.weights.values()], loss, flags)
        self.state.split_steps += is_split
        return loss

    def _own_gradient(self, batches: Sequence[Batch]) -> tuple[Loss, bool]:
        """As `add_gradient`, for the batches of this process, and whether they were halved because memory ran out.

        Two halves of each batch give the same gradient: their losses are sums over tokens, divided by the tokens of all
        batches.
        """
        if not batches:
            zero = torch.zeros_like(self.epoch_negative)
            return Loss(zero, zero, 0), False
        count = int(sum(batch.target.lengths.sum() for batch in batches))
        try:
            return self._backward(batches, count), False
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Here, because `except` keeps the graph alive.
        largest = max(batches, key=lambda batch: batch.pairs)
        pairs = largest.pairs
        sizes = " and ".join(str(int(side.lengths.max())) for side in (largest.source, largest.target))
        about = f"ran out in a batch of {pairs} sentence pairs with up to {sizes} tokens"
        if pairs == 1:
            raise UserError(
                f"memory {about}; lower data.max_length or data.max_training_length, or the sizes of the model"
            )
        self.updates.optimizer.zero_grad()  # a part of the gradient may have been computed
        free_memory()
        with explained_memory(f"{about}, and in a half of it; lower training.batch_size={self.config.batch_size}"):
            return self._backward([half for batch in batches for half in batch.halves()], count), True

    def _backward(self, batches: Sequence[Batch], count: int) -> Loss:
        losses = []
        for batch in batches:
            with self._autocast():
                loss = self.loss(batch)
            torch.autograd.backward(loss.total / count)
            losses.append(loss._replace(total=loss.total.detach()))
        totals, negatives, _ = zip(*losses, strict=True)
        return Loss(sum(totals[1:], totals[0]), sum(negatives[1:], negatives[0]), count)

    def _autocast(self) -> torch.autocast:
        # No cache of casts: with it, the gradients of a weight that is used at every step would add up in bf16.
        is_bf16 = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_bf16, cache_enabled=False)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The scores of the averaged weights, which are kept if they are the best so far."""
        state = self.state
        epoch = state.epoch + state.batch / len(self.training)  # counted from 1 at its end
        with evaluating(self.model, self.average):
            scores = self._scores()
            score = scores["loss" if self.monitor is LOSS else "score"]
            state.since_best += self.monitor.is_informative(score)
            if self.monitor.is_better(score, state.best_score):
                state.best_score, state.best_epoch, state.since_best = score, math.ceil(epoch), 0
                copy_(self.best, unique_tensors(self.model))
            self.curves.draw(state)
        if self.updates.plateau is not None and self.monitor.is_informative(score):
            self.updates.plateau.step(score)
        self.curves.add(state, epoch, {f"validation_{name}": value for name, value in scores.items()})
        return scores

    def _scores(self) -> dict[str, float]:
        own = []
        for batch in islice(self.validation, self.processes.rank, None, self.processes.world):
            with self._autocast():
                loss = token_loss(self.model, batch.to(self.device))
            own.append((loss.negative.item(), loss.tokens))
        losses = self.processes.interleave(own)
        scores = {"loss": sum(negative for negative, _ in losses) / max(1, sum(count for _, count in losses))}
        if self.scoring is not None:
            with explained_memory(
                "ran out while the validation set was decoded; lower search.batch_size or search.batch_tokens"
            ):
                scores["score"] = self.scoring.score(self.model)
        return self.processes.once(lambda: scores)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the training, by name: a checkpoint is written from them, and read into them."""
        groups = {
            "weights": unique_tensors(self.model),
            "best": self.best,
            "average": {} if self.average is None else self.average.averages,
            "epoch": {"negative": self.epoch_negative},
        }
        named = {f"{group}.{name}": tensor for group, tensors in groups.items() for name, tensor in tensors.items()}
        return named | self.updates.tensors()

    def save(self) -> None:
        """Writes a checkpoint, and the curves up to it."""
        start = time.perf_counter()
        self.state.plateau = self.updates.plateau_state
        self.state.data = self.training.state_dict()
        random = self.processes.gather(RandomStates.now())
        if not self.processes.is_first:
            return
        self.curves.save(self.state)
        write_checkpoint(self.folder, Checkpoint(self.state, self.tensors(), random))
        end = time.perf_counter()
        self.due = end + max(INTERVAL, (end - start) / SHARE)

    def restore(self, say: Callable[[str], object]) -> None:
        """Continues from the last checkpoint, to the same bits as without an interruption."""
        optional = self.updates.prepare_to_read()
        expected, phase = self.tensors(), self.state.optimizer
        with self.processes.first_before_others():
            if self.processes.is_first:
                state, tensors, random = read_checkpoint(self.folder, expected, say, optional)
            else:
                state, tensors, random = read_last(self.folder)
        self.state = state
        self.config.require_length(state.epoch, state.step, self.folder)
        copy_({name: tensor for name, tensor in expected.items() if name in tensors}, tensors)
        self.updates.forget_others(tensors)
        self.training.load_state_dict(state.data)
        self.random = restore_own(random, self.processes.rank, self.processes.world)
        if len(random) != self.processes.world:
            say(
                f"continues in {self.processes.world} processes instead of {len(random)} after step {state.step:,}: "
                f"batches and steps stay the same, dropout draws other numbers"
            )
        if state.optimizer in ({}, phase):
            self.updates.plateau_state = state.plateau
        else:  # another rate or schedule: a new phase
            state.optimizer, state.phase_step, state.since_best = phase, state.step, 0
        self.stopped = self.config.limit_reached(state.epoch, state.step, state.since_best)

    def _count_seconds(self) -> float:
        """The seconds since the last call, after adding them."""
        now = time.perf_counter()
        elapsed, self._mark = now - self._mark, now
        self.state.seconds += elapsed
        self.state.epoch_seconds += elapsed
        return elapsed
