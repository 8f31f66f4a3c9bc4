"""A model with some of its modules replaced."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeVar, cast

from torch import nn

from seq2seq_attn.attention import Additive, Concat, MultiHead, NegativeSquaredDistance
from seq2seq_attn.ops.dispatch import changed, fusible_modules
from seq2seq_attn.ops.fused_scorers import FusedAdditive, FusedConcat, FusedNegativeSquaredDistance
from seq2seq_attn.ops.linear import Linear
from seq2seq_attn.ops.multi_head import FusedMultiHead

Model = TypeVar("Model", bound=nn.Module)

_FUSED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: Linear,
    Additive: FusedAdditive,
    Concat: FusedConcat,
    NegativeSquaredDistance: FusedNegativeSquaredDistance,
    MultiHead: FusedMultiHead,
}


def use_fused_modules(part: nn.Module) -> None:
    """Replaces, in place, the submodules that have a fused form by fused modules with the same parameters.

    Only within unmodified modules of this package; modules that a user wrote keep their submodules.
    """
    for module in fusible_modules(part):
        for name, child in module.named_children():
            fused = _FUSED.get(type(child))
            if fused is not None and changed(child) is None:
                setattr(module, name, _with_class(fused, child))


def replace_modules(model: Model, replacements: Mapping[nn.Module, nn.Module]) -> Model:
    """A model in which each module of the mapping is replaced wherever it occurs.

    Modules that contain a replaced one are shallow copies, which share parameters, hooks and all other attributes with
    the originals. All other modules are the originals themselves.
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
        return copies[module]

    return cast(Model, replaced(model))


def _with_class(cls: type[nn.Module], module: nn.Module) -> nn.Module:
    """A module of class `cls` that shares all attributes with `module`."""
    other = cls.__new__(cls)
    other.__dict__ = module.__dict__
    return other
