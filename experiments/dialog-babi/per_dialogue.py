"""Per-dialogue accuracy: the share of the dialogues in which every response is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import Counting, exact_match_counting
from seq2seq_attn.evaluation.metrics import Metric


def first_turns(histories: Sequence[str], responses: Sequence[str]) -> list[int]:
    """The lines with which a dialogue begins: those whose history does not go on from the turn before."""
    before = [f"{history} {response} " for history, response in zip(histories, responses, strict=True)]
    return [
        line for line, history in enumerate(histories) if line == 0 or not f"{history} ".startswith(before[line - 1])
    ]


def count_dialogues(expected: Expected) -> Counting | None:
    """Each first line of a dialogue counts 1, and 1 right if all its responses are; other lines count nothing.

    None without sources, which tell where a dialogue begins.
    """
    if not any(expected.sources):
        return None
    exact = exact_match_counting(expected)
    starts = first_turns(expected.sources, expected.references[0])

    def count(responses: Sequence[str]) -> NDArray[np.int64]:
        counts = np.zeros((len(responses), 2), dtype=np.int64)
        counts[starts, 0] = np.minimum.reduceat(exact.count(responses)[:, 0], starts)
        counts[starts, 1] = 1
        return counts

    return Counting(count, exact.score, exact.signature.replace("|version:", "|unit:dialogue|version:"))


PerDialogue = Metric(
    "per_dialogue",
    "per-dialogue accuracy",
    "Dialogues",
    1,
    "higher",
    "% of dialogues in which every response is right",
    counting=count_dialogues,
)
