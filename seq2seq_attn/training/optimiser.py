"""Optimiser and learning-rate schedule."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from seq2seq_attn.training.config import OptimiserConfig


def make_optimiser(parameters: list[nn.Parameter], config: OptimiserConfig) -> Optimizer:
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


def warm_up(optimiser: Optimizer, config: OptimiserConfig) -> LambdaLR:
    """A factor per step: linear warm-up over `warmup_steps`, then 1, or sqrt(warmup_steps / step) for `inverse_sqrt`.

    Vaswani et al. 2017, eq. 3, up to a constant: the peak is `learning_rate`.
    """
    warmup = max(1, config.warmup_steps)

    def factor(step: int) -> float:
        if step < config.warmup_steps:
            return (step + 1) / warmup
        return (warmup / (step + 1)) ** 0.5 if config.schedule == "inverse_sqrt" else 1.0

    return LambdaLR(optimiser, factor)


def plateau(optimiser: Optimizer, config: OptimiserConfig, mode: Literal["min", "max"]) -> ReduceLROnPlateau:
    """Multiply the rate by `plateau_factor` after more than `plateau_patience` validations without improvement."""
    return ReduceLROnPlateau(optimiser, mode, factor=config.plateau_factor, patience=config.plateau_patience)
