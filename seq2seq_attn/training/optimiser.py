"""Optimiser and learning-rate schedule."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from seq2seq_attn.training.config import OptimiserConfig


def make_optimiser(parameters: list[nn.Parameter], config: OptimiserConfig) -> Optimizer:
    """Adam (Kingma & Ba 2015) or AdamW (Loshchilov & Hutter 2019), in its fused form: one pass over the weights."""
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
    """A factor a step: linear over the first `warmup_steps`, then 1, or for `inverse_sqrt` sqrt(warmup / step).

    Vaswani et al. 2017, eq. 3, up to its constant: the peak is `learning_rate`.
    """
    warmup = max(1, config.warmup_steps)

    def factor(step: int) -> float:
        if step < config.warmup_steps:
            return (step + 1) / warmup
        return (warmup / (step + 1)) ** 0.5 if config.schedule == "inverse_sqrt" else 1.0

    return LambdaLR(optimiser, factor)


def plateau(optimiser: Optimizer, config: OptimiserConfig, mode: Literal["min", "max"]) -> ReduceLROnPlateau:
    """The rate times `plateau_factor` after more than `plateau_patience` validations without progress."""
    return ReduceLROnPlateau(optimiser, mode, factor=config.plateau_factor, patience=config.plateau_patience)
