"""Words as BLEU counts them: the tokens of one of sacrebleu's tokenisers, case and all.

With `13a` punctuation stands alone, with `zh` each Chinese character does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from seq2seq_attn.evaluation.metrics import bleu_metric


class Bag(NamedTuple):
    """How often a sentence has each word, and each two words one after the other."""

    words: Counter[str]
    bigrams: Counter[tuple[str, str]]


def bags(lines: Iterable[str], tokenize: str = "13a") -> list[Bag]:
    """One a line. UserError: sacrebleu has no such tokeniser."""
    return [Bag(Counter(words), Counter(pairwise(words))) for words in _words(lines, tokenize)]


def count_words(lines: Iterable[str], tokenize: str = "13a") -> Counter[str]:
    """How often each word occurs in all lines. Errors as of `bags`."""
    return Counter(word for words in _words(lines, tokenize) for word in words)


def _words(lines: Iterable[str], tokenize: str) -> Iterator[list[str]]:
    tokeniser = bleu_metric(tokenize, lowercase=False).tokenizer
    return (tokeniser(line.rstrip()).split() for line in lines)  # stripped, as BLEU does
