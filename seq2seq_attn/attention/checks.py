"""Checks of options that several parts share."""

from __future__ import annotations

from torch import nn


def need_positive(part: nn.Module, **options: float) -> None:
    """ValueError that names the part, the option and its value if one of `options` is not above 0."""
    for option, value in options.items():
        if not value > 0:
            raise ValueError(f"{type(part).__name__} needs {option} > 0, got {value}")
