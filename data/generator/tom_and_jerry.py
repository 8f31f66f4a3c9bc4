"""The embedded corpus: English to Chinese, sentences of 1 to 50 words, divided by length.

A sentence is built of clauses by subordination and coordination. Words are counted between spaces, so "'s" and
punctuation count too. Validation and test set have equally many sentences in every band of length; the training set has
more short ones, from which words and word order are learned quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from generator.clauses import PRESENT, any_tense, clause, event, question, reported_speech
from generator.constituents import someone, something
from generator.grammar import Draw, Phrase, Rule, below


class LengthBand(NamedTuple):
    """A range of lengths of the source, in words."""

    shortest: int
    longest: int
    clauses: tuple[int, ...]  # numbers that give about this length; 0 is a noun phrase
    train: int  # pairs in the training set


BANDS = (
    LengthBand(1, 10, (0, 1, 1, 1, 1, 1), 3600),
    LengthBand(11, 20, (1, 2), 3000),
    LengthBand(21, 30, (2, 3), 2400),
    LengthBand(31, 40, (3, 4), 1800),
    LengthBand(41, 50, (4, 5), 1200),
)
VALIDATION, TEST = 200, 400  # pairs of each band in the validation and the test set

STATEMENT = Rule("CLAUSE .", "CLAUSE 。", ".-。")

# Subordination: Chinese may have a pair of conjunctions, or one at the end of the clause.
BECAUSE = Rule("because FIRST , SECOND", "因为 FIRST ， SECOND", "because-因为 ,-，")
ALTHOUGH = Rule("although FIRST , SECOND", "虽然 FIRST ， 但是 SECOND", "although-虽然 although-但是 ,-，")
IF = Rule("if FIRST , SECOND", "如果 FIRST ， SECOND", "if-如果 ,-，")
WHEN = Rule("when FIRST , SECOND", "当 FIRST 时 ， SECOND", "when-当 when-时 ,-，")
AFTER = Rule("after FIRST , SECOND", "FIRST 之后 ， SECOND", "after-之后 ,-，")
SUBORDINATION = (BECAUSE, ALTHOUGH, IF, WHEN, AFTER)

# Coordination: Chinese requires a comma before the conjunction. Only the first two may precede a question.
COORDINATION = (
    Rule("LEFT but RIGHT", "LEFT ， 但是 RIGHT", "but-， but-但是"),
    Rule("LEFT so RIGHT", "LEFT ， 所以 RIGHT", "so-， so-所以"),
    Rule("LEFT and then RIGHT", "LEFT ， 然后 RIGHT", "then-， then-然后"),
    Rule("LEFT while RIGHT", "LEFT ， 而 RIGHT", "while-， while-而"),
    Rule("LEFT or RIGHT", "LEFT ， 或者 RIGHT", "or-， or-或者"),
    Rule("LEFT yet RIGHT", "LEFT ， 不过 RIGHT", "yet-， yet-不过"),
)
_BEFORE_QUESTION: tuple[Rule, ...] = COORDINATION[:2]


def pairs_of_length(random: Random, band: LengthBand) -> Iterator[Phrase]:
    """An endless stream of pairs whose source length is within the band."""
    while True:
        clauses = band.clauses[below(random, len(band.clauses))]
        pair = sentence(random, clauses) if clauses else fragment(random)
        if band.shortest <= len(pair.source) <= band.longest:
            yield pair


def sentence(random: Random, clauses: int) -> Phrase:
    """A sentence of this many clauses, not counting relative clauses and those of reported speech.

    It is built from its end: a question or a statement, then the clauses before it.
    """
    draw = Draw(random)
    if draw.chance(0.2):
        rest, left, conjunctions = question(draw), clauses - 1, _BEFORE_QUESTION
    else:
        last, used = _statement(draw, clauses)
        rest, left, conjunctions = STATEMENT(last), clauses - used, COORDINATION
    while left > 0:
        before, used = _statement(draw, left)
        rest = draw.deal(conjunctions)(before, rest)
        left, conjunctions = left - used, COORDINATION
    return rest


def fragment(random: Random) -> Phrase:
    """A noun phrase, as in the title of a picture."""
    draw = Draw(random)
    plural = draw.chance(0.4)
    noun_phrase = draw.any((someone, something))
    return noun_phrase(draw, plural, relative=0.3)


def _statement(draw: Draw, left: int) -> tuple[Phrase, int]:
    """The next main clause from the end, with `left` clauses to go, and how many of them it uses.

    A subordinate clause occurs only at the beginning of the sentence: after a conjunction it would be hard to read.
    """
    if left == 2 and draw.chance(0.5):
        return _subordinate(draw), 2
    if draw.chance(0.15):
        return reported_speech(draw), 1
    return clause(draw, any_tense(draw)), 1


def _subordinate(draw: Draw) -> Phrase:
    """Two clauses, the first subordinate to the second, in compatible tenses."""
    rule = draw.deal(SUBORDINATION)
    if rule is AFTER:
        return AFTER(event(draw, "past", dependent=True), clause(draw, "past"))
    if rule in (IF, WHEN):
        return rule(event(draw, draw.any(PRESENT), dependent=True), clause(draw, "future"))
    return rule(clause(draw, any_tense(draw)), clause(draw, any_tense(draw)))
