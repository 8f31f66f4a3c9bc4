"""Steps that fail: those whose loss or gradient is not finite are skipped, and end training when they are too many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.ops.host import is_out_of_memory
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.checkpoints import TrainingState
from seq2seq_attn.training.config import TrainingConfig


class DivergenceError(UserError):
    """A loss or gradient that is not finite has ended training; `batches` are where, if one step is to blame."""

    def __init__(self, message: str, batches: Sequence[Batch] = ()) -> None:
        super().__init__(message)
        self.batches = batches


class _Step(NamedTuple):
    """A step whose outcome was not read yet, because reading synchronizes with an accelerator."""

    number: int  # from 1
    batches: Sequence[Batch]
    values: Tensor  # (2,): the mean loss of a token, and the norm of the gradient
    is_finite: Tensor  # (): both of them


class SkippedSteps:
    """The steps that the optimizer is told to skip, which are read when that is cheap or a checkpoint needs it."""

    def __init__(self, model: nn.Module, config: TrainingConfig) -> None:
        self.model, self.config = model, config
        self._unread: list[_Step] = []

    def add(self, step: int, batches: Sequence[Batch], loss: Tensor, norm: Tensor) -> Tensor:
        """1.0 if this step is to be skipped, as its loss or the norm of its gradient is not finite, else 0.0."""
        is_finite = torch.isfinite(norm) & torch.isfinite(loss)
        self._unread.append(_Step(step, batches, torch.stack([loss, norm]), is_finite))
        return (~is_finite).float()

    def count(self, state: TrainingState) -> None:
        """Adds the steps that were skipped. DivergenceError: they are too many, or the weights are not finite."""
        steps, self._unread = self._unread, []
        if not steps or bool(torch.stack([step.is_finite for step in steps]).all()):
            return
        skipped = [step for step in steps if not step.is_finite]
        self._require_finite_weights(state, f"the loss is {skipped[0].values[0].item()} at step {skipped[0].number}")
        state.skipped_steps += len(skipped)
        if state.skipped_steps > self.config.max_skipped_steps:
            last = skipped[-1]
            loss, norm = last.values.tolist()
            raise DivergenceError(
                f"the loss or its gradient was not finite in {state.skipped_steps} steps, more than "
                f"training.max_skipped_steps={self.config.max_skipped_steps}; in the last one, step {last.number}, "
                f"epoch {state.epoch + 1}, the loss was {loss} and the norm of the gradient {norm}; "
                f"earlier checkpoints are kept; {self._way_out()}",
                last.batches,
            )

    def require_health(self, state: TrainingState) -> None:
        """Counts, and raises DivergenceError if a weight is not finite: before weights are saved."""
        self.count(state)
        self._require_finite_weights(state, f"the weights are not finite after step {state.step}")

    def _require_finite_weights(self, state: TrainingState, found: str) -> None:
        if not all(torch.isfinite(weight).all() for weight in self.model.parameters()):
            raise DivergenceError(
                f"training diverged: {found}, epoch {state.epoch + 1}; earlier checkpoints are kept; {self._way_out()}"
            )

    def _way_out(self) -> str:
        norm, rate = self.config.clip_norm, self.config.optimizer.learning_rate
        clip = f"lower training.clip_norm={norm}" if norm else "set training.clip_norm"
        return f"lower training.optimizer.learning_rate={rate} or {clip}"


@contextmanager
def explained_memory(ran_out: str) -> Iterator[None]:
    """UserError with what the settings can do about it, if memory runs out in the block."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"memory {ran_out}, and start again with --overwrite") from None
