"""The cross-attention of other people's models: what their outputs hold, and what torch's layers compute and discard.

Outputs are read by the names of their attributes, which are those of Hugging Face's encoder-decoders; their library is
not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from torch import nn

Layers = tuple[NDArray[Any], ...]  # (H, T, S) of each layer


class ReadAttention(NamedTuple):
    """What a model returned, and the cross-attention weights that it used, in the form of a forced output."""

    output: Any
    cross_attentions: tuple[Any, ...]  # (B, H, T, S) of each layer


def read_attention(model: nn.Module, *inputs: Any, modules: Iterable[str] = (), **options: Any) -> ReadAttention:
    """Calls a model of torch's own layers once, and reads the cross-attention weights that these layers discard.

    For the duration of the call, `nn.MultiheadAttention` is asked for its weights by hooks; its callers receive what
    they asked for. Call `model.eval()` first: weights in training have had dropout.

    Args:
        model: An `nn.Transformer`, or any module that contains layers of the class `nn.TransformerDecoderLayer`.
        *inputs: Given to the model.
        modules: The names in `model.named_modules()` of the modules `nn.MultiheadAttention` to read instead, for
            decoders of one's own.
        **options: Given to the model.

    Returns:
        The output of the model, and a tensor (B, H, T, S) for each layer, in the order of their calls.

    Raises:
        UserError: There are no such modules, or none of them was called.
    """
    from torch import nn

    named = dict(model.named_modules())
    found = [each.multihead_attn for each in named.values() if isinstance(each, nn.TransformerDecoderLayer)]
    for name in (chosen := list(modules)):
        if not isinstance(named.get(name), nn.MultiheadAttention):
            raise UserError(f"modules: {name!r} is not the name of an nn.MultiheadAttention in model.named_modules()")
    if chosen:
        found = [named[name] for name in chosen]
    if not found:
        raise UserError(
            f"{type(model).__name__} has no nn.TransformerDecoderLayer; name its nn.MultiheadAttention "
            f"modules: modules=[...]"
        )
    weights: list[Any] = []
    with ExitStack() as hooks:
        for module in dict.fromkeys(found):
            for handle in _reading(module, weights.append):
                hooks.callback(handle.remove)
        output = model(*inputs, **options)
    if not weights:
        raise UserError(f"{type(model).__name__} did not call its cross-attention; give it a source and a target")
    return ReadAttention(output, tuple(each if each.dim() == 4 else each[None] for each in weights))


def _reading(module: Any, keep: Callable[[Any], None]) -> list[Any]:
    """The handles of hooks that keep the weights of every call of a module, and give its caller what it asked for."""
    parameters, asked = signature(module.forward).parameters, []

    def ask(module: nn.Module, given: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[()], dict[str, Any]]:
        options = dict(zip(parameters, given, strict=False)) | options
        asked.append([options.get(name, parameters[name].default) for name in ("need_weights", "average_attn_weights")])
        return (), options | {"need_weights": True, "average_attn_weights": False}

    def answer(module: nn.Module, given: tuple[Any, ...], output: tuple[Any, Any]) -> tuple[Any, Any]:
        read, weights = output
        keep(weights.detach())
        needed, averaged = asked.pop()
        return read, (weights.mean(dim=-3) if averaged else weights) if needed else None

    return [module.register_forward_pre_hook(ask, with_kwargs=True), module.register_forward_hook(answer)]


def of_output(output: Any) -> list[Layers]:
    """The weights of each sequence of an output, by layer.

    A forced output has one array per layer, (B, H, T, S). A generated one has, for each step, one per layer for all
    sequences or beams, (R, H, rows, S); its first step may have read several tokens. `beam_indices` say which beam each
    token of a sequence was predicted from.
    """
    found = output.cross_attentions
    if not found or any(each is None or each[0] is None for each in found):
        raise UserError(
            "cross_attentions: the output has none; load the model with attn_implementation='eager', and call it with "
            "output_attentions=True, generate with return_dict_in_generate=True as well"
        )
    if not is_generated(output):
        layers = [as_array(layer) for layer in found]
        return [tuple(layer[row] for layer in layers) for row in range(len(layers[0]))]
    steps = [[as_array(layer) for layer in step] for step in found]
    later = [[layer[:, :, -1:] for layer in step] for step in steps[1:]]  # without a cache, a step has all rows
    found = []
    for path in _paths(output, len(steps), len(steps[0][0])):
        rows = [[layer[row] for layer in step] for row, step in zip(path, (steps[0], *later), strict=False)]
        found.append(tuple(np.concatenate(layer, axis=1) for layer in zip(*rows, strict=True)))
    return found


def is_generated(output: Any) -> bool:
    """Whether the labels of a target may begin with the token that generation started from."""
    return isinstance(output.cross_attentions[0], (tuple, list))


def _paths(output: Any, steps: int, rows: int) -> list[Sequence[int]]:
    """For each sequence, the row of the weights at each of its steps."""
    indices, sequences = getattr(output, "beam_indices", None), len(output.sequences)
    if indices is not None:
        return [[int(row) for row in path if row >= 0] for path in indices]
    if rows != sequences:
        raise UserError(
            f"beam_indices: the output has weights of {rows} beams for {sequences} sequences, and does not say which "
            f"are whose; generate with output_scores=True as well"
        )
    return [[row] * steps for row in range(rows)]


def as_array(weights: Any) -> NDArray[Any]:
    """A tensor on any device and in any precision, or an array, as an array of floats."""
    if hasattr(weights, "detach"):
        weights = weights.detach()
        weights = (weights if weights.element_size() >= 4 else weights.float()).cpu().numpy()
    return np.asarray(weights, dtype=None if np.asarray(weights).dtype.kind == "f" else np.float64)
