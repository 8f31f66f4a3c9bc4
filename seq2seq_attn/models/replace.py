"""A model with some of its modules replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from torch import nn

Model = TypeVar("Model", bound=nn.Module)
Parts = Mapping[str, nn.Module | None]


def with_parts(module: Model, parts: Parts, cls: type[nn.Module] | None = None) -> Model:
    """A shallow copy of a module, as an instance of `cls` or of its own class, with other submodules.

    It shares parameters, hooks and all other attributes. The submodules are ordinary attributes as well, which saves
    the search that `nn.Module.__getattr__` makes at every access.
    """
    copy: Any = (cls or type(module)).__new__(cls or type(module))
    copy.__dict__ = {**vars(module), **parts, "_modules": dict(parts)}
    return cast(Model, copy)


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
                copies[module] = with_parts(module, children, getattr(module, "stands_for", None))
        return copies[module]

    return cast(Model, replaced(model))
