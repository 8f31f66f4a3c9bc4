"""The error rates of pronunciation: of words (WER) and of phones (PER), against the nearest of several pronunciations.

    evaluation: {metrics: [experiments/pronunciation/metrics.py:WER, experiments/pronunciation/metrics.py:PER]}

A line has the phones of one word. So the word error rate of this field is 100 minus `exact_match`, and the words
between blanks that `wer` counts, as jiwer does, are phones.
"""

from __future__ import annotations

from dataclasses import replace

from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import Counting, percentage
from seq2seq_attn.evaluation.metrics import METRICS, Metric


def wrong_words(expected: Expected) -> Counting:
    """Whether the phones of a word differ from those of every reference."""
    return percentage(expected, lambda ours, theirs: (int(ours.split() != theirs.split()), 1), min)


WER = Metric(
    "word_error",
    "word error rate",
    "WER",
    1,
    "lower",
    "% of words with another pronunciation than every reference",
    counting=wrong_words,
    floor=99.9,
)
PER = replace(
    METRICS["wer"],
    key="phone_error",
    name="phone error rate",
    label="PER",
    meaning="edits per 100 phones of the nearest reference",
)
