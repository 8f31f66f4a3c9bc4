"""A model with some of its parts exchanged."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import chain
from typing import TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def exchanged(model: Model, parts: Mapping[nn.Module, nn.Module]) -> Model:
    """A copy in which each part of the mapping is replaced wherever it stands; all other tensors are `model`'s own."""
    of_modules = (value for module in model.modules() for value in vars(module).values())
    tensors = chain(model.parameters(), model.buffers(), filter(torch.is_tensor, of_modules))
    shared = {id(tensor): tensor for tensor in tensors}
    return copy.deepcopy(model, {**shared, **{id(part): other for part, other in parts.items()}})
