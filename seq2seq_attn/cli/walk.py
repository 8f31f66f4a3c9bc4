"""`walk`: attention step by step, with all intermediate numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, Plugin, argument, complete_scorers, load_plugins, require_file
from seq2seq_attn.cli.console import answer, answer_json
from seq2seq_attn.errors import UserError
from seq2seq_attn.walkthrough import QUERY, STATES

if TYPE_CHECKING:
    from seq2seq_attn.walkthrough.steps import Walk, WalkStep


def _typed(rows: Sequence[Sequence[float]]) -> str:
    return "; ".join(" ".join(map(str, row)) for row in rows)


def walk(
    scorer: Annotated[
        list[str] | None,
        argument(
            "SCORER|OPTION=VALUE",
            "A name listed by `scorers`, my_scorer.py:MyScorer or package.module:MyScorer, and the scorer's "
            "options, as in temperature=0.5. Default: dot.",
            complete_scorers,
        ),
    ] = None,
    query: Annotated[str, typer.Option(metavar="ROWS", help="Queries, one per step.")] = _typed(QUERY),
    states: Annotated[str, typer.Option(metavar="ROWS", help="Encoder states, one row per word.")] = _typed(STATES),
    values: Annotated[
        str | None, typer.Option(metavar="ROWS", help="Values to sum, one row per word; default: the states.")
    ] = None,
    words: Annotated[str | None, typer.Option(metavar="TEXT", help="Words to label the states with.")] = None,
    normaliser: Annotated[
        str, typer.Option(metavar="TEXT", help="A normaliser and its options, as in 'softmax temperature=2'.")
    ] = "softmax",
    seed: Annotated[int, typer.Option(help="Random seed for the scorer's parameters, if it has any.")] = 1,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Walk through attention step by step, with numbers.

    Prints the scores, the weights and the weighted sum, each with its equation, inputs and result. ROWS are numbers
    separated by blanks, with semicolons between rows.
    """
    names = [word for word in scorer or () if "=" not in word] or ["dot"]
    if len(names) > 1:
        raise UserError(f"give one scorer, not {len(names)}: {' '.join(names)}")
    require_file(names[0])
    given = {"query": _rows("--query", query), "states": _rows("--states", states)}
    if values is not None:
        given["values"] = _rows("--values", values)

    from seq2seq_attn.strict import override

    load_plugins(plugin)
    name, *options = normaliser.split() or [""]
    walked = s2s.walk(
        override({"name": names[0]}, [word for word in scorer or () if "=" in word]),
        **given,
        words=words,
        normaliser=override({"name": name}, options),
        seed=seed,
    )
    if as_json:
        answer_json(_record(walked))
    else:
        answer(str(walked))


def _rows(option: str, text: str) -> list[list[float]]:
    """The rows of numbers in the text of an option; UserError that names the first bad row."""
    rows: list[list[float]] = []
    for index, row in enumerate(text.rstrip("; ").split(";"), start=1):
        words = row.replace(",", " ").split()
        bad = [word for word in words if not math.isfinite(_number(word))]
        wrong = None
        if bad:
            wrong = f"{bad[0]!r} is not a finite number"
        elif not words:
            wrong = "there are no numbers"
        elif rows and len(words) != len(rows[0]):
            wrong = f"{len(words)} numbers, where row 1 has {len(rows[0])}"
        if wrong:
            raise UserError(f'{option}, row {index}: {wrong}; write rows as in {option} "1 0 0.5; 2 1 0"')
        rows.append([_number(word) for word in words])
    return rows


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _record(walked: Walk) -> dict[str, Any]:
    scorer, normaliser = walked.attention.scorer, walked.attention.normaliser
    return {
        "scorer": {"name": type(scorer).__name__, "equation": scorer.equation, "source": scorer.source},
        "normaliser": {"name": type(normaliser).__name__, "equation": normaliser.equation, "source": normaliser.source},
        "parameters": {name: value.tolist() for name, value in scorer.state_dict().items()},
        "words": walked.words,
        "keys": walked.keys.tolist(),
        "values": walked.values.tolist(),
        "prepared": walked.prepared.tolist(),
        "steps": [_step(step) for step in walked.steps],
    }


def _step(step: WalkStep) -> dict[str, Any]:
    """null stands for a score of -inf, which JSON cannot represent, and for what the normaliser does not compute."""
    numbers = {name: None if part is None else part.tolist() for name, part in step._asdict().items()}
    scores = [None if score == -math.inf else score for score in step.scores.tolist()]
    return numbers | {"scores": scores}
