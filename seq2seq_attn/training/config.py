"""How a model is trained: from which weights, with which optimizer and batches, and until when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from seq2seq_attn.errors import UserError
from seq2seq_attn.strict import Strict
from seq2seq_attn.training.loggers import LoggerName
from seq2seq_attn.training.optimizer import OptimizerConfig, Period, steps_in

Limit = Literal["patience", "max_steps", "max_epochs", "max_hours"]


class GuidedAlignmentConfig(Strict):
    """Attention weights learn given links between the words of the training pairs (`training/guided_alignment.py`)."""

    weight: PositiveFloat = 1.0  # of the cross-entropy between links and weights, beside that of the target tokens
    links: Path  # of data.train, line by line, Pharaoh format: words of the source i to words of the target j


class TrainingConfig(Strict):
    start_from: str | None = None  # a run whose weights, vocabularies and model this one starts with: a warm start
    start_optimizer: Literal["fresh", "kept"] = "fresh"  # kept: the optimizer state of that run
    freeze: tuple[str, ...] = ()  # parts of the model that stay as they are, as in [encoder.network, embeddings]
    optimizer: OptimizerConfig = OptimizerConfig()
    batch_size: PositiveInt = 32  # sentences, or tokens of each side, padding included
    batch_unit: Literal["sentences", "tokens"] = "sentences"  # what `batch_size` counts
    accumulate: PositiveInt = 1  # batches whose gradients make one step, as one batch with all their pairs would
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)  # probability spread over all tokens
    r_drop: NonNegativeFloat = 0.0  # weight of the divergence of two dropout masks, see `r_drop_loss`; 5 in the paper
    guided_alignment: GuidedAlignmentConfig | None = None  # train the attention weights on links as well
    coverage_loss: NonNegativeFloat = 0.0  # weight of what attention reads again, see `coverage_loss`; 1 in the paper
    ema_decay: float | None = Field(default=0.999, gt=0.0, lt=1.0)  # average the weights, see `WeightAverage`
    keep_epochs: NonNegativeInt = 0  # keep the weights of the last epochs, which the command `average` averages
    clip_norm: PositiveFloat | None = 1.0  # maximum norm of all gradients together; null: no clipping
    max_skipped_steps: NonNegativeInt = 10  # steps with a loss or gradient that is not finite; more end training
    max_epochs: PositiveInt | None = 50  # an upper limit; null: none, as by default with `max_steps`
    max_steps: PositiveInt | None = None  # an upper limit; the last of them is validated
    max_hours: PositiveFloat | None = None  # training ends after a checkpoint; `--resume` continues for as long again
    validate_every: Period = 1  # epochs, or as in `500 steps`
    validation_sentences: PositiveInt | None = None  # how many sources are decoded in a validation; null: all
    monitor: Literal["score", "loss"] = "score"  # of the validation: chooses weights, ends training, lowers the rate
    patience: PositiveInt | None = 5  # validations without improvement, once something is learned, before training ends
    loggers: tuple[LoggerName, ...] | None = None  # programs that show the curves; null: tensorboard if installed
    attention_pictures: NonNegativeInt = 0  # validation pairs whose attention the loggers show each time
    precision: Literal["fp32", "bf16"] = "fp32"  # of matrix products
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU if there is one

    @model_validator(mode="before")
    @classmethod
    def _steps_in_place_of_epochs(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("max_steps") is not None:
            return {"max_epochs": None, **values}
        return values

    @model_validator(mode="after")
    def _keeps_the_optimizer_of_a_run(self) -> TrainingConfig:
        if self.start_optimizer == "kept" and self.start_from is None:
            raise ValueError("start_optimizer=kept needs the run whose optimizer it is; set start_from")
        return self

    @model_validator(mode="after")
    def _shows_the_pictures(self) -> TrainingConfig:
        if self.attention_pictures and self.loggers == ():
            raise ValueError(
                f"attention_pictures={self.attention_pictures} needs a program that shows them; name one under loggers"
            )
        return self

    @model_validator(mode="after")
    def _ends(self) -> TrainingConfig:
        if self.max_epochs is None and self.max_steps is None:
            raise ValueError("max_epochs=null needs another limit; set max_steps")
        return self

    @model_validator(mode="after")
    def _validates_at_least_once(self) -> TrainingConfig:
        count, unit = self.validate_every, str(self.validate_every).partition(" ")[2][:4]
        if self.max_steps is None and unit != "step" and steps_in(count, 1) > (self.max_epochs or math.inf):
            raise ValueError(
                f"validate_every={count} is above max_epochs={self.max_epochs}: "
                "training would never validate, and no model would be kept; lower it"
            )
        return self

    def epoch_steps(self, batches: int) -> int:
        """The steps of an epoch with this many batches."""
        return math.ceil(batches / self.accumulate)

    def all_steps(self, batches: int) -> int:
        """The steps that `max_epochs` and `max_steps` allow. UserError: none of them would be validated."""
        epochs = math.inf if self.max_epochs is None else self.max_epochs
        steps = int(min(epochs * self.epoch_steps(batches), self.max_steps or math.inf))
        if self.max_steps is None and steps_in(self.validate_every, self.epoch_steps(batches)) > steps:
            raise UserError(
                f"training.validate_every={self.validate_every}, but training.max_epochs={self.max_epochs} allows "
                f"{steps} steps: training would never validate, and no model would be kept; lower it"
            )
        return steps

    def validates_after(self, step: int, epoch: int | None) -> bool:
        """Whether a validation follows this step, which is the last of an epoch, or None within one."""
        count, _, unit = str(self.validate_every).partition(" ")
        passed = step if unit.startswith("step") else epoch
        return (passed is not None and passed % int(count) == 0) or step == self.max_steps

    def limit_reached(self, epochs: int, steps: int, since_best: int, *, is_late: bool = False) -> Limit | None:
        """The option that ends a training which has come this far; None if none of them does."""
        if self.patience is not None and since_best >= self.patience:
            return "patience"
        if self.max_steps is not None and steps >= self.max_steps:
            return "max_steps"
        if self.max_epochs is not None and epochs >= self.max_epochs:
            return "max_epochs"
        return "max_hours" if is_late else None

    def require_length(self, epochs: int, steps: int, folder: Path) -> None:
        """UserError if the run in `folder` has trained for longer than these settings allow."""
        for what, trained, limit in (("epochs", epochs, self.max_epochs), ("steps", steps, self.max_steps)):
            if limit is not None and trained > limit:
                raise UserError(
                    f"{folder}: has trained for {trained} {what}, more than training.max_{what}={limit}; "
                    f"give at least {trained}, name another folder, or replace the run with --overwrite"
                )
