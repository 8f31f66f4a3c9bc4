"""Commands made from functions and their option records, each option of which is given once.

A function that `takes` a record (`seq2seq_attn/options.py`) becomes a command with one option per field: `beam_size` is
`--beam-size`, with the type, the limits and the help of the field.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from seq2seq_attn.options import taken_fields


class App(typer.Typer):
    """A program, or a group of its commands: functions whose docstrings are their help, with a section of examples."""

    def callback(self, *_: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().callback
        return lambda function: register(invoke_without_command=True, **options | _help(function))(function)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        register = super().command
        return lambda function: register(name, cls=_Command, **options | _help(function))(_with_options(function))


def _help(function: Callable[..., Any]) -> dict[str, str | None]:
    """The docstring without its examples, and these at the end of the help; `\\b` preserves their line breaks."""
    about, _, examples = inspect.cleandoc(function.__doc__ or "").partition("\n\nExamples:\n")
    lines = "\n".join(f"  {each.strip()}" for each in examples.splitlines())
    return {"help": about, "epilog": f"\b\nExamples:\n{lines}" if examples else None}


class _Command(TyperCommand):
    """Refuses a repeated option, unless it takes several values: click would use the last one and say nothing."""

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            parsed = parse(args)
            counts: Counter[Any] = Counter(parsed[2])  # of the parameters, which stand there as often as they are given
            for given, times in counts.items():
                if times > 1 and not getattr(given, "multiple", True) and not given.is_eager:
                    raise typer.BadParameter(f"given {times} times; give it once", ctx=ctx, param=given)
            return parsed

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function with the signature that typer reads, where the fields that it takes are options."""
    fields, signature = taken_fields(function), inspect.signature(function)
    hints = inspect.get_annotations(function, eval_str=True)  # `get_type_hints` of Python 3.10 hides what has None
    parameters = [
        each.replace(annotation=_option(each.annotation, fields[name]) if name in fields else hints[name])
        for name, each in signature.parameters.items()
    ]
    vars(function)["__signature__"] = signature.replace(parameters=parameters)
    return function


def _option(kind: Any, field: FieldInfo) -> Any:
    """An option of this type with the limits and the help of a field; open limits of numbers are left to the record."""
    kinds = (kind, *get_args(kind))
    limits = {name: getattr(each, name) for each in field.metadata for name in _LIMITS if hasattr(each, name)}
    if int in kinds:
        limits |= {closed: limits[name] + step for name, closed, step in _OPEN if name in limits}
    for each in kinds:
        if get_origin(each) is tuple and get_args(each)[-1] is ...:
            values: Any = list[get_args(each)[0]]  # type: ignore[misc]
            kind = values if each is kind else values | None
    return Annotated[
        kind,
        typer.Option(
            help=field.description,
            min=limits.get("ge"),
            max=limits.get("le"),
            metavar="FILE" if Path in kinds else None,
        ),
    ]


_LIMITS = ("ge", "gt", "le", "lt")
_OPEN = (("gt", "ge", 1), ("lt", "le", -1))  # of whole numbers: above 0 is at least 1
