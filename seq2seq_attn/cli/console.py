"""Output: answers and scores go to stdout, messages and progress to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Agreement

_LINK_RATES = {
    "precision": ("precision", "share of the links that are gold links, sure or possible"),
    "recall": ("recall", "share of the sure gold links that were found"),
    "f1": ("F1", "harmonic mean of the two"),
}


def say(text: str) -> None:
    """Print a message to stderr: a warning, progress or the next step."""
    typer.echo(text, err=True)


def answer(text: str) -> None:
    """Print a line of the answer to stdout."""
    typer.echo(text)


def answer_json(value: Any) -> None:
    """Print a line of the answer as JSON."""
    answer(json.dumps(value, ensure_ascii=False))


def answer_rich(shown: Any, width: int | None = None) -> None:
    """Print what rich can show, as wide as the terminal; `width` columns into a file."""
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=width)).print(shown)


@contextmanager
def progress(task: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, advanced by calling the function that this yields; `total` is None if unknown.

    It is drawn only if stderr is a terminal and stdout is not, so that it does not interleave with the answer.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        identity = bar.add_task(task, total=total)
        yield lambda done: bar.advance(identity, done)


def answer_scores(scores: Mapping[str, Any]) -> None:
    """Print those of the scores, with signatures, alignment rates and BLEU by length that are present."""
    from seq2seq_attn.evaluation.metrics import METRICS

    for key, metric in METRICS.items():
        if isinstance(scores.get(key), Mapping):
            answer(f"{metric.name:<17}{scores[key]['value']:6.2f}  {scores[key]['signature']}")
        elif scores.get(key) is not None:
            answer(f"{metric.name:<16}{scores[key]:7.{metric.digits}f}  {metric.meaning}")
    for key, (name, meaning) in _LINK_RATES.items():
        if key in scores:
            answer(f"{name:<16}{scores[key]:7.3f}  {meaning}")
    for band in scores.get("bleu_by_length", ()):
        length = f"{band['low']}+" if band["high"] is None else f"{band['low']}-{band['high']}"
        answer(f"{'BLEU ' + length:<17}{band['bleu']:6.2f}  {band['sentences']:,} sentences of {length} source words")
    if "difference" in scores:
        _answer_difference(scores["difference"], scores["randomisation"])


def _answer_difference(pair: Mapping[str, Any], randomisation: Mapping[str, Any]) -> None:
    """Print a BLEU difference with its paired bootstrap and approximate randomisation tests."""
    answer(
        f"{'BLEU difference':<16}{pair['difference']:+7.2f}  95 % interval [{pair['low']:+.2f}, {pair['high']:+.2f}], "
        f"p = {pair['p_value']:.3f}, {pair['signature']}"
    )
    answer(f"{'':<25}approximate randomisation p = {randomisation['p_value']:.4f}, {randomisation['signature']}")


def rates(agreed: Agreement) -> dict[str, float]:
    """The agreement of word links with gold links, by name of the rate."""
    return {"aer": agreed.error_rate, "precision": agreed.precision, "recall": agreed.recall, "f1": agreed.f1}


def rates_line(agreed: Agreement) -> str:
    """The same rates as one line of text."""
    return ", ".join(f"{name} {value:.4f}" for name, value in rates(agreed).items())
