"""What a translation says twice, and what it leaves out, against its reference.

Each function gives two counts, a part and a whole: a system's rate is the sum of its parts over that of its wholes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from seq2seq_attn.evaluation.words import Bag

COMMON = 0.01  # share of all words from which on a word counts as a function word


def repeated(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """Bigrams of the hypothesis that are there once more than they should be, of all its bigrams.

        Σ_g max(0, h(g) - max(1, r(g))) of Σ_g h(g),    h, r: how often hypothesis and reference have the bigram g

    So the first time is free, and any further that the reference has as well. Bigrams, as single words such as
    articles come again in any long sentence; a word said over and over is a fault from its third time on.
    """
    ours, theirs = hypothesis.bigrams, reference.bigrams
    again = (times - max(1, theirs[bigram]) for bigram, times in ours.items() if times > 1)
    return sum(max(0, times) for times in again), ours.total()


def repeats(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """Whether any bigram is `repeated`, of one sentence."""
    return int(repeated(hypothesis, reference)[0] > 0), 1


def missing(hypothesis: Bag, reference: Bag, content: Collection[str]) -> tuple[int, int]:
    """Content words of the reference that the hypothesis lacks, of those that the reference has, each time counted.

    A translation in other words lacks them, too: this is an upper bound of what was left untranslated.
    """
    wanted = {word: times for word, times in reference.words.items() if word in content}
    lacking = sum(max(0, times - hypothesis.words[word]) for word, times in wanted.items())
    return lacking, sum(wanted.values())


def lengths(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """Words of the hypothesis, and of the reference: far below 1 where much is left out."""
    return hypothesis.words.total(), reference.words.total()


def content_words(references: Collection[Bag]) -> frozenset[str]:
    """The words with a letter or digit that make up less than `COMMON` of a text; no list of stop words is needed."""
    counts: Counter[str] = Counter()
    for reference in references:
        counts.update(reference.words)
    most = COMMON * counts.total()
    return frozenset(word for word, times in counts.items() if times < most and any(map(str.isalnum, word)))
