"""Checks of arguments: an error names the part, what it needs, what it got, and the way out.

Shapes and dtypes are checked at every call, except under `torch.jit.trace`, where sizes are tensors and a comparison
would become a constant of the graph.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.shapes import IsToken, Keys, Query, Values


def unfit(part: nn.Module | str, needs: str, got: object, way_out: str = "") -> ValueError:
    """The error of a part that needs something else than it got; of a tensor its shape is named."""
    name = part if isinstance(part, str) else type(part).__name__
    found = str(tuple(got.shape)) if isinstance(got, Tensor) else got
    return ValueError(f"{name} needs {needs}, got {found}{way_out and f'; {way_out}'}")


def need_positive(part: nn.Module, **options: float) -> None:
    """ValueError if one of `options` is not above 0, or NaN."""
    for option, value in options.items():
        if not value > 0:
            raise unfit(part, f"{option} > 0", value)


def need_instance(owner: nn.Module, base: type[nn.Module], **arguments: object) -> None:
    """TypeError if one of `arguments` is not an instance of `base`, but a class or a name, say."""
    for argument, value in arguments.items():
        if isinstance(value, base):
            continue
        got = f"an instance of {_name(type(value))}"
        if isinstance(value, (type, str)):
            got = f"the class {value.__name__}" if isinstance(value, type) else f"the text {value!r}"
        way_out = f"give an instance of a class derived from {base.__name__}"
        if isinstance(value, type) and issubclass(value, base):
            parameters = inspect.signature(value).parameters.values()
            own = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
            needed = [f"{each.name}=..." for each in own if each.default is each.empty]
            way_out = f"give an instance: {value.__name__}({', '.join(needed)})"
        raise TypeError(
            f"{type(owner).__name__} needs {argument} to be an instance of {base.__name__}, got {got}; {way_out}"
        )


def _name(of: type) -> str:
    """Its name, with its module if that is not of this package: torch has a `Softmax`, too."""
    is_known = of.__module__ == "builtins" or of.__module__.startswith(f"{__package__}.")
    return of.__qualname__ if is_known else f"{of.__module__}.{of.__qualname__}"


def need_tensors(part: nn.Module, **arguments: object) -> None:
    """TypeError if one of `arguments` is an array of NumPy, a list or a number."""
    for argument, value in arguments.items():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"{type(part).__name__} needs {argument} as a tensor, got an instance of {_name(type(value))}; give "
                f"torch.as_tensor({argument})"
            )


def refuse(part: nn.Module, reason: str, **options: Tensor | bool | None) -> None:
    """ValueError with the reason if one of the options is given to a part that does not support it."""
    for name, option in options.items():
        if option is not None and option is not False:
            raise ValueError(f"{type(part).__name__} takes no {name}: {reason}")


def check_source(
    part: nn.Module,
    keys: Keys,
    values: Values | None,
    is_token: IsToken | None,
    key_size: int | None = None,
    value_size: int | None = None,
) -> None:
    """ValueError for what `prepare` cannot take, a sentence without a token included, if reading the mask is free.

    A mask that is True on padding instead of tokens cannot be detected.
    """
    need_tensors(part, keys=keys, values=values, is_token=is_token)
    if jit_traced():
        return
    if keys.dim() != 3:
        way_out = "for one sentence give keys[None]" if keys.dim() == 2 else ""
        raise unfit(part, "keys (sentences, positions, key_size)", keys, way_out)
    if key_size is not None and key_size != keys.shape[2]:
        raise unfit(part, f"keys of key_size {key_size}", keys)
    if values is not None and (values.dim() != 3 or values.shape[:2] != keys.shape[:2]):
        way_out = "give a mask by its name, is_token=mask" if values.dtype == torch.bool else ""
        raise unfit(part, f"a value for every key {tuple(keys.shape)}", values, way_out)
    width = (keys if values is None else values).shape[2]
    if value_size is not None and value_size != width:
        raise unfit(part, f"values of value_size {value_size}", width, f"give it value_size={width}")
    if keys.shape[1] == 0:
        raise unfit(part, "a source with positions", keys, "keep at least `</s>` in every sentence")
    if is_token is not None:
        check_mask(part, keys, is_token)
        if reading_is_free(is_token) and not (is_any := is_token.any(dim=1)).all():
            empty = (~is_any).nonzero().flatten().tolist()
            raise ValueError(f"no token in row(s) {empty} of the source; keep at least `</s>` in every sentence")


def check_mask(part: nn.Module, keys: Keys, is_token: IsToken) -> None:
    """ValueError for a mask whose dtype or shape does not fit the keys."""
    if is_token.dtype != torch.bool:
        way_out = "give mask.bool() for a mask with 1 on tokens, mask == 0 for one with 1 or -inf on padding"
        raise unfit(part, "is_token as a bool tensor, True on tokens", is_token.dtype, way_out)
    if is_token.shape != keys.shape[:2]:
        way_out = "give a mask per query as may_read" if is_token.dim() == 3 else ""
        raise unfit(part, f"is_token of shape {tuple(keys.shape[:2])} for these keys", is_token, way_out)


def check_extension(part: nn.Module, sentences: int, keys: Keys, is_token: IsToken | None, *within: Any) -> None:
    """ValueError if a source cannot be extended, or not by these keys; `within`: its scorers and normalizers."""
    for each in within:
        if not each.can_extend:
            raise ValueError(
                f"{type(each).__name__} cannot append to a source: its state depends on all positions; prepare the "
                f"longer source at once"
            )
    if jit_traced():
        return
    if keys.shape[0] != sentences:
        raise unfit(part, f"keys for the {sentences} sentences of the source", keys)
    if is_token is not None:  # a row may be all padding here: the sentence has tokens before
        check_mask(part, keys, is_token)


def check_query(part: nn.Module, query: Query, source: Any, query_size: int | None = None) -> None:
    """ValueError for queries whose shape does not fit; TypeError for a source that is not prepared."""
    if isinstance(source, Tensor):
        raise TypeError(
            f"{type(part).__name__} reads what its prepare returned, got a tensor; call source = "
            f"attention.prepare(keys, is_token=mask) once per sentence and then attention(query, source), or "
            f"attend(attention, query, keys, is_token=mask)"
        )
    need_tensors(part, query=query)
    if jit_traced():
        return
    if query.dim() != 3:
        way_out = "for one query per sentence give query[:, None]" if query.dim() == 2 else ""
        raise unfit(part, "queries (sentences, queries, query_size)", query, way_out)
    if query_size is not None and query_size != query.shape[2]:
        raise unfit(part, f"queries of query_size {query_size}", query)
    if query.shape[0] != source.sentences:
        raise unfit(part, f"queries for the {source.sentences} sentences of the source", query)


def check_scores(scorer: nn.Module, scores: Tensor, query: Query, positions: int) -> None:
    """ValueError if a scorer returned scores of another shape: torch may broadcast them with the mask."""
    if jit_traced() or torch.compiler.is_compiling():
        return
    shape = (*query.shape[:2], positions)
    if scores.shape != shape:
        raise unfit(scorer, f"to return scores (sentences, queries, positions) = {shape}", scores)


def check_bias(part: nn.Module, bias: Tensor) -> None:
    """ValueError if a bias is a mask."""
    if not bias.dtype.is_floating_point:
        raise unfit(part, "a floating-point bias", bias.dtype, "a bool mask is given as may_read")


def check_broadcast(part: nn.Module, argument: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """ValueError if the tensor does not broadcast to `shape`, the last of (sentences, heads, queries, positions)."""
    pairs = zip(reversed(tensor.shape), reversed(shape), strict=False)
    if not jit_traced() and (tensor.dim() > len(shape) or any(size != 1 and size != full for size, full in pairs)):
        axes = "sentences, queries, positions" if len(shape) == 3 else "sentences, heads, queries, positions"
        raise unfit(part, f"a {argument} that broadcasts to ({axes}) = {tuple(shape)}", tensor)


def jit_traced() -> bool:
    """Whether `torch.jit.trace` is active; sizes are then tensors, and the result of comparing them is a constant."""
    return torch._C._get_tracing_state() is not None


def is_exported() -> bool:
    """Whether a graph for any length is recorded, in which a branch on the length would be that of the example."""
    is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # not in torch 2.6
    return jit_traced() or is_exporting()


def reading_is_free(mask: Tensor) -> bool:
    """Whether Python may look at the contents of a mask, to find a row without a token.

    It may not while a graph is traced or within `torch.func` transforms, where a tensor has no contents, nor on an
    accelerator, where every look waits for all that was asked of it before.
    """
    is_traced = torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
    return mask.is_cpu and not is_traced
