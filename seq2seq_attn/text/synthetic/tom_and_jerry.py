"""The embedded corpus: English to Chinese, sentences of 1 to 50 words, divided by their length.

Words count as they stand between spaces, "'s" and punctuation too. Test and validation sets have the same number of
sentences in every band of length; the training set has more of the short ones, from which order and words are learnt
quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from seq2seq_attn.text.synthetic.draw import below
from seq2seq_attn.text.synthetic.phrase import Phrase
from seq2seq_attn.text.synthetic.sentences import fragment, sentence
from seq2seq_attn.text.synthetic.split import Parts, Stratum, divide


class Band(NamedTuple):
    """Sentences by their number of source words."""

    shortest: int
    longest: int
    clauses: tuple[int, ...]  # how many make sentences of about this length; 0 is no clause but a noun phrase
    train: int


BANDS = (
    Band(1, 10, (0, 1, 1, 1, 1, 1), 3600),
    Band(11, 20, (1, 2), 3000),
    Band(21, 30, (2, 3), 2400),
    Band(31, 40, (3, 4), 1800),
    Band(41, 50, (4, 5), 1200),
)
VALIDATION, TEST = 200, 400  # pairs of each band


def parts(random: Random) -> Parts:
    """The whole corpus."""
    return divide([Stratum(pairs(random, band), band.train, VALIDATION, TEST) for band in BANDS], random)


def pairs(random: Random, band: Band) -> Iterator[Phrase]:
    """Endless pairs whose source is as long as the band says."""
    while True:
        clauses = band.clauses[below(random, len(band.clauses))]
        pair = sentence(random, clauses) if clauses else fragment(random)
        if band.shortest <= len(pair.source) <= band.longest:
            yield pair
