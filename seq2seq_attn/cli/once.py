"""Commands whose options are given once, unless they take several values.

Of an option that is repeated, click would use the last value and say nothing of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand


class _Command(TyperCommand):
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


class App(typer.Typer):
    """A program, or a group of its commands."""

    def command(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        return super().command(*arguments, cls=_Command, **options)
