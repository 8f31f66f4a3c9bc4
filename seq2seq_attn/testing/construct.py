"""How a part is found by its name and constructed, and where its code is."""

from __future__ import annotations

import copy
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Any, get_args, get_origin

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Attention,
    General,
    MeanState,
    ScorerFactory,
    normalizer_classes,
    own_options,
    scorer_class,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.attention.user_code import class_at, place_and_class
from seq2seq_attn.errors import UserError
from seq2seq_attn.testing.subject import BASES, KEY_SIZE, QUERY_SIZE, Kind, Subject


def make_subject(
    part: Any,
    query_size: int | None = None,
    key_size: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Subject:
    """The subject for a class, an instance or a name; the arguments are those of `laws_of`.

    Raises:
        UserError: The part is of none of the four kinds, or cannot be constructed with these sizes and options.
    """
    part = find_part(part) if isinstance(part, str) else part
    cls = part if isinstance(part, type) else type(part)
    kind = next((kind for kind, base in BASES.items() if issubclass(cls, base)), None)
    if kind is None:
        raise UserError(
            f"{getattr(part, '__name__', part)} is not a scorer, normalizer, window or context; "
            f"derive it from Scorer, Normalizer, Window or Context"
        )
    if not isinstance(part, type):
        own = getattr(part, "query_size", None), getattr(part, "key_size", None)
        given = zip((query_size, key_size), own, strict=True)
        if options or any(asked and known and asked != known for asked, known in given):
            raise UserError(
                f"an instance of {cls.__name__} already has its sizes and options; pass the class to choose others"
            )
        sizes = own[0] or query_size or QUERY_SIZE, own[1] or key_size or KEY_SIZE
        return Subject(kind, cls, lambda *_: _copy(part), *sizes, is_instance=True)
    options = options or {}
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise UserError(f"{cls.__name__} is an abstract {kind}; implement {missing}")
    known = list(options_of(cls))
    for name in options:
        if name not in known:
            raise UserError(f"{cls.__name__} has no option {name!r}; it has: {', '.join(known) or 'none'}")

    def make(query_size: int, key_size: int) -> Any:
        return cls(**_arguments(kind, cls, query_size, key_size, options), **options)

    query_size = QUERY_SIZE if query_size is None else query_size
    if key_size is None:
        key_size = query_size if getattr(cls, "needs_equal_sizes", False) else KEY_SIZE
    subject = Subject(kind, cls, make, query_size, key_size)
    try:
        with torch.random.fork_rng(devices=[]):
            subject.make(query_size, key_size)
    except (Exception, SystemExit) as error:  # whatever third-party code raises
        reason = str(error) if isinstance(error, (TypeError, ValueError)) else in_one_line(error, cls)
        raise UserError(f"{subject.name} cannot be constructed: {reason}") from error
    return subject


def find_part(name: str) -> type[nn.Module]:
    """The class called `additive`, `my_parts.py:MyScorer` or `package.module:MyWindow`.

    Raises:
        UserError: There is no such class, or its module cannot be imported.
    """
    known: dict[str, type[nn.Module]] = {**window_classes(), **normalizer_classes(), **scorer_classes()}
    if name in known:
        return known[name]
    try:
        place, wanted = place_and_class(name)
        return class_at(place, wanted, *BASES.values()) if place else scorer_class(name)
    except ValueError as error:
        raise UserError(str(error)) from error


def read_options(part: type[nn.Module], words: Sequence[str]) -> dict[str, Any]:
    """The arguments of `laws_of` for OPTION=VALUE: JSON values, text, and scorers by name.

    Raises:
        UserError: A value has another type than the part declares.
    """
    sizes = {name: Parameter(name, Parameter.KEYWORD_ONLY, annotation=int) for name in ("query_size", "key_size")}
    known, values = {**sizes, **options_of(part)}, {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        wanted = known[name].annotation if name in known else Any
        if wanted is ScorerFactory:
            value = find_part(text)
        kinds = [get_origin(each) or each for each in get_args(wanted) or (wanted,)]
        if float in kinds:
            kinds.append(int)
        is_checked = all(isinstance(each, type) and each not in (Any, Parameter.empty) for each in kinds)
        if is_checked and not isinstance(value, tuple(kinds)):
            raise UserError(f"{name}={text}: {part.__name__} takes {getattr(wanted, '__name__', wanted)}")
        values[name] = value
    return values


def options_of(part: type[nn.Module]) -> dict[str, Parameter]:
    """As `own_options`. UserError: the type of an option cannot be evaluated."""
    try:
        return own_options(part)
    except ValueError as error:
        raise UserError(str(error)) from error


def _arguments(kind: Kind, cls: type, query_size: int, key_size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments besides the options.

    A context may require sizes, a summary, a scorer or an inner context; they are recognized by their usual names.
    """
    if kind != "context":
        sizes = {"query_size": query_size, "key_size": key_size}
        return {"scorer": sizes, "window": {"query_size": query_size}, "normalizer": {}}[kind]
    known: dict[str, Callable[[], Any]] = {
        "query_size": lambda: query_size,
        "key_size": lambda: key_size,
        "value_size": lambda: key_size,
        "heads": lambda: 2,
        "scorer": lambda: General(query_size, key_size),
        "attention": lambda: Attention(General(query_size, key_size)),
        "context": lambda: Attention(General(query_size, key_size)),
        "summary": MeanState,
    }
    parameters = inspect.signature(cls).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.name not in options]
    named = [name for name in needed if name not in ("args", "kwargs")]
    unknown = [name for name in named if name not in known]
    if unknown:
        raise TypeError(f"its constructor needs {', '.join(unknown)}; pass an instance instead of the class")
    return {name: known[name]() for name in named}


def _copy(part: nn.Module) -> nn.Module:
    """A copy in float32 on the CPU.

    `torch.nn.utils.weight_norm` stores a computed weight as an attribute; `deepcopy` refuses to copy it unaided.
    """
    computed = [
        value for module in part.modules() for value in vars(module).values() if isinstance(value, Tensor)
    ]  # parameters and buffers are stored in separate dictionaries
    memo = {id(value): value.detach().clone() for value in computed if not value.is_leaf}
    return copy.deepcopy(part, memo).to("cpu", torch.float32)


def in_one_line(error: BaseException, cls: type) -> str:
    """The error in one line, with the line of the part's own file that raised it."""
    message, place = str(error).strip(), ""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is not None:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        # An error while a graph is traced names the line in its message.
        lines += re.findall(rf'File "{re.escape(file)}", line (\d+)', message)
        place = f"{Path(file).name}, line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {' '.join(message.splitlines()[:1])}"


def place_of(cls: type[nn.Module]) -> str:
    """File and line of the class, as in "mine.py, line 7"; empty for a class that no file has."""
    try:
        return f"{Path(inspect.getsourcefile(cls) or '').name}, line {inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""
