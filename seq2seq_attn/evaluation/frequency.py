"""Rare words: how often the training text has the words of a sentence, and which of the reference's are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seq2seq_attn.evaluation.length import Band
from seq2seq_attn.evaluation.words import Bag

FREQUENCIES = {"unseen": Band(0, 0), "1-5": Band(1, 5), "6-50": Band(6, 50), "51+": Band(51, None)}


def rarest(sentences: Iterable[Bag], counts: Mapping[str, int]) -> list[int | None]:
    """How often a sentence's rarest word is in `counts`, 0 for one that is not there; None without a word."""
    return [min((counts.get(word, 0) for word in sentence.words), default=None) for sentence in sentences]


def found(hypothesis: Bag, reference: Bag, counts: Mapping[str, int], band: Band) -> tuple[int, int]:
    """How many of the reference's words whose count lies in the band the hypothesis has, too; and how many there are.

    Each occurrence is found at most once: Σ_w min(hypothesis has w, reference has w) of Σ_w reference has w.
    """
    wanted = {word: times for word, times in reference.words.items() if counts.get(word, 0) in band}
    return sum(min(times, hypothesis.words[word]) for word, times in wanted.items()), sum(wanted.values())
