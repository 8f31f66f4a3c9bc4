"""`check`: the attention doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq_attn.cli.console import answer, answer_json
from seq2seq_attn.cli.options import AsJson, argument
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.attention import Scorer


def check(
    scorers: Annotated[
        list[str],
        argument(
            "SCORER|OPTION=VALUE",
            "my_scorer.py:MyScorer, package.module:MyScorer, or a name that `scorers` lists; and options of their "
            "own, as in hidden_size=16.",
        ),
    ],
    query_size: Annotated[int | None, typer.Option(min=1, help="Numbers in a query; 16 unless given.")] = None,
    key_size: Annotated[
        int | None, typer.Option(min=1, help="Numbers in a key; 24 unless given, or as many as in a query.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compile down to machine code (inductor); takes longer.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Examine scorers: does each keep the laws of attention?

    A line a law: ok; note, worth knowing; warning, allowed and seldom meant; wrong. Padding, batches, queries at once
    and one by one, gradients, what the weights hang on, saturation, NaN, copies, torch.compile and torch.export. Exit
    code 1 where something is wrong.
    """
    from seq2seq_attn.doctor import check_scorer
    from seq2seq_attn.runs.plugin import find_scorer

    names = [each for each in scorers if "=" not in each]
    options = [each for each in scorers if "=" in each]
    if not names:
        raise UserError("no scorer is named; as in seq2seq-attn check my_scorer.py:MyScorer hidden_size=16")
    reports = []
    # A mistake in the last of them is said before the first is examined.
    for found, own in [(found, _own_options(found, options)) for found in map(find_scorer, names)]:
        reports.append(report := check_scorer(found, query_size, key_size, own, full))
        if not as_json:
            answer(f"{report}\n")
    if as_json:
        answer_json(
            [
                {
                    "name": name,
                    "scorer": report.scorer,
                    "is_wrong": report.is_wrong,
                    "findings": {law: finding._asdict() for law, finding in report.findings.items()},
                    "unasked": report.unasked,
                }
                for name, report in zip(names, reports, strict=True)
            ]
        )
    if any(report.is_wrong for report in reports):
        raise typer.Exit(1)


def _own_options(scorer: type[Scorer], given: list[str]) -> dict[str, Any]:
    """The options as the scorer declares them, read as those of a configuration are."""
    if not given:
        return {}
    from seq2seq_attn.config import override, parse
    from seq2seq_attn.models.recurrent.parts import ScorerConfig

    return parse(ScorerConfig, override({"name": scorer}, given)).options
