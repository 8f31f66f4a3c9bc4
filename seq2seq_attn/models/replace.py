"""A model with some of its modules replaced."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeVar, cast

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def replace_modules(model: Model, replacements: Mapping[nn.Module, nn.Module]) -> Model:
    """A model in which each module of the mapping is replaced wherever it occurs.

    Modules that contain a replaced one are shallow copies, which share parameters, hooks and all other attributes with
    the originals. All other modules are the originals themselves. A fused form that loses a part is computed as the
    class that it stands for.
    """
    copies: dict[nn.Module, nn.Module] = dict(replacements)

    def replaced(module: nn.Module) -> nn.Module:
        if module not in copies:
            children = {name: child and replaced(child) for name, child in module._modules.items()}
            if all(child is module._modules[name] for name, child in children.items()):
                copies[module] = module
            else:
                copies[module] = copy.copy(module)
                copies[module]._modules = children
                copies[module].__class__ = getattr(module, "stands_for", type(module))
        return copies[module]

    return cast(Model, replaced(model))
