"""From clauses to sentences of any length, by subordination and coordination."""

from __future__ import annotations

from random import Random

from seq2seq_attn.text.synthetic.grammar import PRESENT, Grammar
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

# Coordination. Only the first three may also join a question to what was said before it.
COORDINATION = (
    Rule("LEFT , and RIGHT", "LEFT ， 而且 RIGHT", "and-而且 ,-，"),
    Rule("LEFT , but RIGHT", "LEFT ， 但是 RIGHT", "but-但是 ,-，"),
    Rule("LEFT , so RIGHT", "LEFT ， 所以 RIGHT", "so-所以 ,-，"),
    Rule("LEFT , while RIGHT", "LEFT ， 而 RIGHT", "while-而 ,-，"),
    Rule("LEFT , or RIGHT", "LEFT ， 或者 RIGHT", "or-或者 ,-，"),
    Rule("LEFT , yet RIGHT", "LEFT ， 不过 RIGHT", "yet-不过 ,-，"),
)
BEFORE_QUESTION = COORDINATION[:3]


def sentence(random: Random, clauses: int) -> Phrase:
    """A sentence of this many clauses, not counting relative ones and those that are said, thought or known.

    It is made from its end: a question or a statement, and what goes before it.
    """
    grammar = Grammar(random)
    if grammar.draw.chance(0.2):
        rest, left, conjunctions = question(grammar), clauses - 1, BEFORE_QUESTION
    else:
        last, used = statement(grammar, clauses)
        rest, left, conjunctions = STATEMENT(last), clauses - used, COORDINATION
    while left > 0:
        before, used = statement(grammar, left)
        rest = grammar.draw.deal(conjunctions)(before, rest)
        left, conjunctions = left - used, COORDINATION
    return rest


def fragment(random: Random) -> Phrase:
    """Someone or something, as in the title of a picture."""
    grammar = Grammar(random)
    plural = grammar.draw.chance(0.4)
    return grammar.someone(plural, 0.3) if grammar.draw.chance(0.5) else grammar.thing(plural, 0.3)


def statement(grammar: Grammar, clauses: int) -> tuple[Phrase, int]:
    """A main clause with what depends on it, of `clauses` clauses at most, and how many it has."""
    if clauses >= 2 and grammar.draw.chance(0.4):
        return subordinate(grammar), 2
    if grammar.draw.chance(0.15):
        return grammar.report(), 1
    return grammar.clause(grammar.tense()), 1


def subordinate(grammar: Grammar) -> Phrase:
    """Two clauses, the first depending on the second, in tenses that go together."""
    rule = grammar.draw.deal(SUBORDINATION)
    if rule is IF:
        return IF(grammar.event(grammar.draw.any(PRESENT)), grammar.clause("future"))
    if rule in (WHEN, AFTER):
        return rule(grammar.event("past", deniable=False), grammar.clause("past"))
    return rule(grammar.clause(grammar.tense()), grammar.clause(grammar.tense()))
