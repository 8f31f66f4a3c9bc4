"""A model with some of its parts exchanged."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import chain
from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def exchanged(model: Model, parts: Mapping[nn.Module, nn.Module]) -> Model:
    """A copy in which each part of the mapping is replaced wherever it stands; other weights are those of `model`."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, {**shared, **{id(part): other for part, other in parts.items()}})
