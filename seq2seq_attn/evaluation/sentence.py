"""Scores of single sentences, to find those worth looking at; a corpus is scored as a whole (`metrics`)."""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu import CHRF

from seq2seq_attn.evaluation.metrics import require_pairs


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each line by itself, 0 to 100; BLEU says little of so few words.

    Errors as in `metrics.bleu`.
    """
    require_pairs(hypotheses, references)
    metric = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return [float(metric.sentence_score(ours, [theirs]).score) for ours, theirs in pairs]
