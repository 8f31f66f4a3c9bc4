"""How well predicted word alignments agree with gold ones (Och & Ney, 2003).

Links are counted over all sentence pairs: A predicted, S sure, P possible; a sure link is possible, too.

    precision = |A & P| / |A|     recall = |A & S| / |S|     AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.pharaoh import Links


@dataclass(frozen=True)
class Agreement:
    """Counts of links over a corpus, and the rates that follow from them, each from 0 to 1."""

    predicted: int  # |A|
    sure: int  # |S|, at least 1
    predicted_and_sure: int  # |A & S|
    predicted_and_possible: int  # |A & P|

    @property
    def precision(self) -> float:
        """|A & P| / |A|; 0 where nothing was predicted."""
        return self.predicted_and_possible / max(self.predicted, 1)

    @property
    def recall(self) -> float:
        """|A & S| / |S|."""
        return self.predicted_and_sure / self.sure

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 - AER where every possible link is sure."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    @property
    def error_rate(self) -> float:
        """AER; lower is better."""
        return 1 - (self.predicted_and_sure + self.predicted_and_possible) / (self.predicted + self.sure)


def agreement(predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None) -> Agreement:
    """Compare links, one set a sentence pair; without `possible`, the sure links are all that are possible.

    A sure link counts as possible whether or not `possible` holds it.
    UserError: the numbers of sentence pairs differ, or the gold alignment has no sure link.
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise UserError(
            f"{len(predicted)} lines of predicted links, {len(sure)} of sure and {len(possible)} of possible "
            "ones; line i of each must belong to the same sentence pair"
        )
    if not any(sure):
        raise UserError("nothing to score: the gold alignment has no sure link; check that it is the right file")
    pairs = list(zip(predicted, sure, possible, strict=True))
    return Agreement(
        predicted=sum(len(a) for a, _, _ in pairs),
        sure=sum(len(s) for _, s, _ in pairs),
        predicted_and_sure=sum(len(a & s) for a, s, _ in pairs),
        predicted_and_possible=sum(len(a & (s | p)) for a, s, p in pairs),
    )


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """AER, from 0 (perfect) to 1; arguments and errors as in `agreement`."""
    return agreement(predicted, sure, possible).error_rate
