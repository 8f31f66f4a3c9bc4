"""From clauses to sentences of any length, by subordination and coordination."""

from __future__ import annotations

from random import Random

from seq2seq_attn.text.synthetic.clauses import PRESENT, any_tense, clause, event, report
from seq2seq_attn.text.synthetic.draw import Draw
from seq2seq_attn.text.synthetic.nouns import someone, something
from seq2seq_attn.text.synthetic.phrase import Phrase, Rule
from seq2seq_attn.text.synthetic.questions import question

STATEMENT = Rule("CLAUSE .", "CLAUSE 。", ".-。")

# Subordination: Chinese may say the conjunction twice, or at the clause's end.
BECAUSE = Rule("because FIRST , SECOND", "因为 FIRST ， SECOND", "because-因为 ,-，")
ALTHOUGH = Rule("although FIRST , SECOND", "虽然 FIRST ， 但是 SECOND", "although-虽然 although-但是 ,-，")
IF = Rule("if FIRST , SECOND", "如果 FIRST ， SECOND", "if-如果 ,-，")
WHEN = Rule("when FIRST , SECOND", "当 FIRST 时 ， SECOND", "when-当 when-时 ,-，")
AFTER = Rule("after FIRST , SECOND", "FIRST 之后 ， SECOND", "after-之后 ,-，")
SUBORDINATION = (BECAUSE, ALTHOUGH, IF, WHEN, AFTER)

# Coordination: the comma that Chinese needs comes with the conjunction. Only the first two may lead to a question.
COORDINATION = (
    Rule("LEFT but RIGHT", "LEFT ， 但是 RIGHT", "but-， but-但是"),
    Rule("LEFT so RIGHT", "LEFT ， 所以 RIGHT", "so-， so-所以"),
    Rule("LEFT and then RIGHT", "LEFT ， 然后 RIGHT", "then-， then-然后"),
    Rule("LEFT while RIGHT", "LEFT ， 而 RIGHT", "while-， while-而"),
    Rule("LEFT or RIGHT", "LEFT ， 或者 RIGHT", "or-， or-或者"),
    Rule("LEFT yet RIGHT", "LEFT ， 不过 RIGHT", "yet-， yet-不过"),
)
BEFORE_QUESTION: tuple[Rule, ...] = COORDINATION[:2]


def sentence(random: Random, clauses: int) -> Phrase:
    """A sentence of this many clauses, not counting relative ones and those that are said, thought or known.

    It is made from its end: a question or a statement, and what goes before it.
    """
    draw = Draw(random)
    if draw.chance(0.2):
        rest, left, conjunctions = question(draw), clauses - 1, BEFORE_QUESTION
    else:
        last, used = statement(draw, clauses)
        rest, left, conjunctions = STATEMENT(last), clauses - used, COORDINATION
    while left > 0:
        before, used = statement(draw, left)
        rest = draw.deal(conjunctions)(before, rest)
        left, conjunctions = left - used, COORDINATION
    return rest


def fragment(random: Random) -> Phrase:
    """Someone or something, as in the title of a picture."""
    draw = Draw(random)
    plural = draw.chance(0.4)
    make = draw.any((someone, something))
    return make(draw, plural, relative=0.3)


def statement(draw: Draw, left: int) -> tuple[Phrase, int]:
    """The next main clause from the end, when `left` clauses are to come, and how many of them it takes.

    Only the sentence's beginning has a subordinate clause: one after a conjunction would be hard to read.
    """
    if left == 2 and draw.chance(0.5):
        return subordinate(draw), 2
    if draw.chance(0.15):
        return report(draw), 1
    return clause(draw, any_tense(draw)), 1


def subordinate(draw: Draw) -> Phrase:
    """Two clauses, the first depending on the second, in tenses that go together."""
    rule = draw.deal(SUBORDINATION)
    if rule is AFTER:
        return AFTER(event(draw, "past", dependent=True), clause(draw, "past"))
    if rule in (IF, WHEN):
        return rule(event(draw, draw.any(PRESENT), dependent=True), clause(draw, "future"))
    return rule(clause(draw, any_tense(draw)), clause(draw, any_tense(draw)))
