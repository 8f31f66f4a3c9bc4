"""Speed by one explicit pass: `fuse` returns a model in which each part that has a fused form is replaced by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from torch import nn

from seq2seq_attn.models.replace import Model, with_parts
from seq2seq_attn.ops.attention import FusedMultiHead, ScaledDotAttention
from seq2seq_attn.ops.decoders import FusedBahdanauDecoder, FusedConditionalDecoder, FusedLuongDecoder
from seq2seq_attn.ops.form import Form, changed, hooks_on_all_modules, is_reference, why_not_numbers
from seq2seq_attn.ops.graphs import Searched
from seq2seq_attn.ops.inference import InferenceAttention, InferenceGRUCell, InferenceLinear
from seq2seq_attn.ops.layers import Dropout, LayerNorm, Linear
from seq2seq_attn.ops.loss import ChunkedPointerGeneratorHead, FusedSoftmaxHead
from seq2seq_attn.ops.recurrent import (
    FusedGRUCell,
    FusedMinGRUCell,
    FusedRecurrentEncoder,
    FusedSRUCell,
    FusedStackedCell,
)
from seq2seq_attn.ops.scorers import FusedAdditive, FusedConcat, FusedNegativeSquaredDistance
from seq2seq_attn.ops.transformer import InferenceDecoder, InferenceEncoder

# Of several forms of one class, the first that can stand for a module is used.
FORMS: tuple[type[Form], ...] = (
    *(Linear, LayerNorm, Dropout),
    *(FusedAdditive, FusedConcat, FusedNegativeSquaredDistance),
    *(ScaledDotAttention, FusedMultiHead),
    *(FusedGRUCell, FusedMinGRUCell, FusedSRUCell, FusedStackedCell),
    FusedRecurrentEncoder,
    *(FusedBahdanauDecoder, FusedConditionalDecoder, FusedLuongDecoder),
    *(FusedSoftmaxHead, ChunkedPointerGeneratorHead),
)
CONSTANT_FORMS: tuple[type[Form], ...] = (
    *(InferenceLinear, InferenceAttention, InferenceGRUCell),
    *(InferenceEncoder, InferenceDecoder),
    Searched,
)


def fuse(model: Model, *, constant: bool = False) -> Model:
    """The model with fused forms of its parts, for training or inference; it shares all parameters.

    A part is replaced if it is exactly an instance of the class that a form stands for. Whatever a user wrote,
    subclassed, hooked, parametrized or wrapped is the same object in both models, with everything in it. Modules in
    between are shallow copies. The names in a state dict are the same. What is changed later in `model` is not seen:
    `fuse` looks at the model once.

    Within `reference`, and with SEQ2SEQ_ATTN_FAST=0 in the environment, the model itself is returned. Give the model
    itself to torch.compile, torch.export and torch.func, and for second derivatives.

    Args:
        model: A model, or a part of one.
        constant: For inference with the current weights alone: they are cast to autocast's dtype, if autocast is
            enabled now, and reordered for their products. The model then cannot be moved to another device. On a GPU,
            the steps of a recurrent model are replayed as CUDA graphs.
    """
    if is_reference() or hooks_on_all_modules():
        return model
    forms = (*CONSTANT_FORMS, *FORMS) if constant else FORMS
    fused: dict[nn.Module, nn.Module] = {}

    def of(module: nn.Module) -> nn.Module:
        if module not in fused:
            fused[module] = _fused(module)
        return fused[module]

    def _fused(module: nn.Module) -> nn.Module:
        if changed(module, deep=False) is not None:
            return module
        form = next((form for form in _forms_of(module, forms) if _why_not(form, module) is None), None)
        if form is not None and form.covers_parts:
            return form.of(module, module._modules)
        parts = {name: part and of(part) for name, part in module._modules.items()}
        if form is not None:
            return form.of(module, parts)
        if all(part is module._modules[name] for name, part in parts.items()):
            return module
        return with_parts(module, parts)

    return cast(Model, of(model))


def unfused(model: nn.Module) -> str | None:
    """One line that names the parts of a model that are computed step by step, and why; None if no part is.

    None, too, if `fuse` changes nothing at all.
    """
    if is_reference():
        return None  # `description` reports this
    parts = [f"{name or 'model'} ({reason})" for name, reason in reasons(model).items()]
    return f"computed step by step: {', '.join(parts)}" if parts else None


def reasons(model: nn.Module) -> dict[str, str]:
    """The modules of a model that `fuse` leaves without a form that takes all steps at once, each with the reason."""
    if hooks_on_all_modules():
        return {"": "there are hooks on all modules"}
    return dict(_reasons(model, ""))


def _reasons(module: nn.Module, name: str) -> Iterator[tuple[str, str]]:
    reported = [form for form in FORMS if form.is_reported and isinstance(module, form.stands_for)]
    if (reason := changed(module, deep=False)) is not None:
        if reported:
            yield name, reason
        return
    for form in reported:
        if not isinstance(module, Form) and (reason := _why_not(form, module)) is not None:
            yield name, reason
    for part, child in module.named_children():
        yield from _reasons(child, f"{name}.{part}" if name else part)


def _forms_of(module: nn.Module, forms: Sequence[type[Form]]) -> Iterator[type[Form]]:
    return (form for form in forms if form.stands_for is type(module))


def _why_not(form: type[Form], module: nn.Module) -> str | None:
    return (None if form.any_dtype else why_not_numbers(module)) or form.why_not(module)
