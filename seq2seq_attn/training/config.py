"""How a model is trained: the optimizer and its learning-rate schedule, batches, and the stopping criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from seq2seq_attn.errors import UserError
from seq2seq_attn.strict import Strict

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class OptimizerConfig(Strict):
    name: Literal["adam", "adamw"] = "adam"  # Kingma & Ba 2015, Loshchilov & Hutter 2019
    learning_rate: PositiveFloat = 0.004  # the peak of the schedule
    betas: tuple[Beta, Beta] = (0.9, 0.999)  # decay of the two moments
    epsilon: PositiveFloat = 1e-8  # in the denominator of a step
    weight_decay: NonNegativeFloat = 0.0  # for `adam` as L2, for `adamw` decoupled
    schedule: Literal["constant", "inverse_sqrt", "linear", "cosine", "plateau"] = "inverse_sqrt"  # of the rate
    warmup_steps: NonNegativeInt = 200  # linear warm-up; `plateau` has none
    plateau_factor: float = Field(default=0.5, gt=0.0, lt=1.0)  # of the learning rate, for `plateau`
    plateau_patience: NonNegativeInt = 1  # validations without improvement before the learning rate is reduced

    @property
    def decays_to_zero(self) -> bool:
        """Whether the learning rate is zero after `max_epochs`, and every rate before depends on their number."""
        return self.schedule in ("linear", "cosine")

    @model_validator(mode="before")
    @classmethod
    def _plateau_has_no_warm_up_by_default(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("schedule") == "plateau":
            return {"warmup_steps": 0, **values}
        return values

    @model_validator(mode="after")
    def _plateau_starts_at_full_rate(self) -> OptimizerConfig:
        if self.schedule == "plateau" and self.warmup_steps:
            raise ValueError("schedule=plateau has no warm-up; set warmup_steps=0 or schedule=inverse_sqrt")
        if self.schedule == "inverse_sqrt" and not self.warmup_steps:
            raise ValueError("schedule=inverse_sqrt decays from the end of the warm-up; set warmup_steps")
        return self


class GuidedAlignmentConfig(Strict):
    """Attention weights learn given links between the words of the training pairs (`training/guided_alignment.py`)."""

    weight: PositiveFloat = 1.0  # of the cross-entropy between links and weights, beside that of the target tokens
    links: Path  # of data.train, line by line, Pharaoh format: words of the source i to words of the target j


class TrainingConfig(Strict):
    optimizer: OptimizerConfig = OptimizerConfig()
    batch_size: PositiveInt = 32  # sentences, or tokens of each side, padding included
    batch_unit: Literal["sentences", "tokens"] = "sentences"  # what `batch_size` counts
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)  # probability spread over all tokens
    r_drop: NonNegativeFloat = 0.0  # weight of the divergence of two dropout masks, see `r_drop_loss`; 5 in the paper
    guided_alignment: GuidedAlignmentConfig | None = None  # train the attention weights on links as well
    ema_decay: float | None = Field(default=0.999, gt=0.0, lt=1.0)  # average the weights, see `WeightAverage`
    keep_epochs: NonNegativeInt = 0  # keep the weights of the last epochs, which the command `average` averages
    clip_norm: PositiveFloat | None = 1.0  # maximum norm of all gradients together; null: no clipping
    max_skipped_steps: NonNegativeInt = 10  # steps with a loss or gradient that is not finite; more end training
    max_epochs: PositiveInt = 50  # an upper limit
    validate_every: PositiveInt = 1  # epochs
    monitor: Literal["score", "loss"] = "score"  # of the validation: chooses weights, ends training, lowers the rate
    patience: PositiveInt | None = 5  # validations without improvement, once something is learned, before training ends
    precision: Literal["fp32", "bf16"] = "fp32"  # of matrix products
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"  # auto: a GPU if there is one

    @model_validator(mode="after")
    def _validates_at_least_once(self) -> TrainingConfig:
        if self.validate_every > self.max_epochs:
            raise ValueError(
                f"validate_every={self.validate_every} is above max_epochs={self.max_epochs}: "
                "training would never validate, and no model would be kept; lower it"
            )
        return self

    def require_epochs(self, trained: int, folder: Path) -> None:
        """UserError if the run in `folder` has trained for more epochs than these settings allow."""
        if trained > self.max_epochs:
            raise UserError(
                f"{folder}: has trained for {trained} epochs, more than training.max_epochs={self.max_epochs}; "
                f"give at least {trained}, name another folder, or replace the run with --overwrite"
            )


def make_optimizer(parameters: list[nn.Parameter], config: OptimizerConfig) -> Optimizer:
    """Adam (Kingma & Ba 2015) or AdamW (Loshchilov & Hutter 2019), in torch's fused implementation."""
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return kind(
        parameters,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


def rate_per_step(config: OptimizerConfig, steps: int) -> Callable[[int], float] | None:
    """The learning rate of each step, counted from 0; None for `plateau`, whose rate depends on validations.

    It is `learning_rate` times a factor: linear warm-up over `warmup_steps`, then what `schedule` says.

    - constant: 1
    - inverse_sqrt: sqrt(warmup_steps / step), as Vaswani et al. 2017, eq. 3, up to a constant
    - linear: the fraction r of the steps after the warm-up that are left, of `steps` in all, which only decay needs
    - cosine: (1 + cos(π (1 - r))) / 2   (Loshchilov & Hutter 2017, eq. 5, without restarts)

    UserError if the warm-up leaves no step to decay.
    """
    warmup = config.warmup_steps
    if config.decays_to_zero and warmup >= steps:
        raise UserError(
            f"training.optimizer.warmup_steps={warmup} leaves no step for schedule={config.schedule}: "
            f"training.max_epochs allows {steps} steps; lower the one or raise the other"
        )

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        if config.schedule == "inverse_sqrt":
            return math.sqrt(warmup / (step + 1))
        if not config.decays_to_zero:
            return 1.0
        left = (steps - step) / (steps - warmup)
        return left if config.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2

    return None if config.schedule == "plateau" else lambda step: config.learning_rate * factor(step)


def plateau(optimizer: Optimizer, options: OptimizerConfig, sign: int) -> ReduceLROnPlateau | None:
    """Multiplies the rate by `plateau_factor` after more than `plateau_patience` validations without improvement.

    `sign` is -1 if lower scores are better, else 1. None for any other schedule.
    """
    mode: Literal["min", "max"] = "max" if sign > 0 else "min"
    if options.schedule != "plateau":
        return None
    return ReduceLROnPlateau(optimizer, mode, factor=options.plateau_factor, patience=options.plateau_patience)
