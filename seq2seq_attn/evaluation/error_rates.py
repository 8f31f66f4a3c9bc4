"""Word and character error rate: edits per 100 words or characters of the reference.

    100 Σ edits / Σ length,    summed over the sentences of a corpus

Edits are the fewest insertions, deletions and substitutions that turn a line into its reference (Levenshtein, 1966). Of
several references, the one with the fewest edits counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seq2seq_attn.evaluation.corpus_scores import References
from seq2seq_attn.evaluation.counts import Counting, percentage


def word_error_counting(references: References, lowercase: bool = False) -> Counting:
    """Edits and lengths in words that white space separates. Errors as in `counts.bleu_counting`."""
    return _counting(references, lowercase, "word")


def character_error_counting(references: References, lowercase: bool = False) -> Counting:
    """Edits and lengths in characters, with a single blank between words. Errors as in `counts.bleu_counting`."""
    return _counting(references, lowercase, "character")


def _counting(references: References, lowercase: bool, unit: str) -> Counting:
    def distance(ours: str, theirs: str) -> tuple[int, int]:
        sides = [(line.lower() if lowercase else line).split() for line in (ours, theirs)]
        one, other = sides if unit == "word" else (" ".join(words) for words in sides)
        return edit_distance(one, other), len(other)

    case = "lc" if lowercase else "mixed"
    return percentage(references, distance, min, f"case:{case}", f"unit:{unit}")


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other.

    Row by row of Levenshtein's table. Within a row, d_j = min over k <= j of c_k + (j - k), with c_k the cost without
    a preceding insertion; so the running minimum of c_k - k gives the whole row.
    """
    numbers: dict[str, int] = {}
    a, b = (np.array([numbers.setdefault(each, len(numbers)) for each in side], dtype=int) for side in (one, other))
    places = np.arange(len(b) + 1)
    row = places
    for deleted, token in enumerate(a, start=1):
        costs = np.minimum(row[1:] + 1, row[:-1] + (b != token))
        row = np.minimum.accumulate(np.concatenate([[deleted], costs]) - places) + places
    return int(row[-1])
