"""The state that attention carries from step to step: explicit, immutable, and reordered by beam search like any state.

    history = context.start(source)
    contexts, weights, history = context(query, source, history)

A history is a tensor (B, K, ...), with one entry for each of the K hypotheses of each of the B sentences, or a tuple of
histories, nested like the parts. The history of a part without state is the empty tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

History: TypeAlias = Any  # a tensor or a tuple of histories

NOTHING: History = ()


def each_tensor(change: Callable[[Tensor], Tensor], history: History) -> History:
    """Applies a function to every tensor of a history.

    Args:
        change: The function, such as the choice of hypotheses in beam search.
        history: A tensor, or a tuple of histories.

    Returns:
        A history of the same structure.
    """
    if isinstance(history, tuple):
        return tuple([part if part is NOTHING else each_tensor(change, part) for part in history])
    return change(history)


def one_hot_first(positions: Tensor) -> Tensor:
    """1 at the first position and 0 elsewhere, in the shape (..., S) of the given tensor."""
    return F.pad(torch.ones_like(positions[..., :1]), (0, positions.shape[-1] - 1))
