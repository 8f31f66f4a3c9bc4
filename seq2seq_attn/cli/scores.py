"""Scores as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seq2seq_attn.cli.console import answer

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Agreement

_LINK_RATES = {
    "precision": ("precision", "share of the links that are gold links, sure or possible"),
    "recall": ("recall", "share of the sure gold links that are there"),
    "f1": ("F1", "harmonic mean of the two"),
}


def answer_scores(scores: Mapping[str, Any]) -> None:
    """Each score with its signature or its meaning, and BLEU by length."""
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
        answer_difference(scores["difference"], scores["randomisation"])


def answer_difference(pair: Mapping[str, Any], randomisation: Mapping[str, Any]) -> None:
    """What the paired bootstrap and the approximate randomisation say."""
    answer(
        f"{'BLEU difference':<16}{pair['difference']:+7.2f}  95 % interval [{pair['low']:+.2f}, {pair['high']:+.2f}], "
        f"p = {pair['p_value']:.3f}, {pair['signature']}"
    )
    answer(f"{'':<25}approximate randomisation p = {randomisation['p_value']:.4f}, {randomisation['signature']}")


def rates(agreed: Agreement) -> dict[str, float]:
    """How well word links agree with gold ones."""
    return {"aer": agreed.error_rate, "precision": agreed.precision, "recall": agreed.recall, "f1": agreed.f1}


def rates_line(agreed: Agreement) -> str:
    """The same as a line of text."""
    return ", ".join(f"{name} {value:.4f}" for name, value in rates(agreed).items())
