"""Questions of one clause.

In Chinese the asked word stays where its answer would stand, and 吗 marks what can be answered with yes.
"""

from __future__ import annotations

from collections.abc import Callable

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.grammar import PERFECTIVE, Grammar, Tense, counting
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word

DID = Rule(
    "did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME PLACE VERB 了 OBJECT 吗 ？",
    "did-了 ?-吗 ?-？",
)
WILL = Rule(
    "MODAL SUBJECT VERB OBJECT PLACE TIME ?", "SUBJECT TIME MODAL PLACE VERB OBJECT 吗 ？", "?-吗 ?-？"
)
WHO = Rule("who VERB OBJECT PLACE TIME ?", "谁 TIME PLACE VERB OBJECT ？", "who-谁 ?-？")
WHOM = Rule("who did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 谁 ？", "who-谁 did-了 ?-？")
WHAT = Rule("what did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 什么 ？", "what-什么 did-了 ?-？")
HOW_MANY = Rule("THINGS did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 THINGS ？", "did-了 ?-？")
WHERE = Rule(
    "where did SUBJECT VERB OBJECT TIME ?",
    "SUBJECT TIME 在 哪里 VERB 了 OBJECT ？",
    "where-在 where-哪里 did-了 ?-？",
)
WHY = Rule(
    "why did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME 为什么 PLACE VERB OBJECT ？",
    "why-为什么 ?-？",
)


def question(grammar: Grammar) -> Phrase:
    """A question of any kind."""
    return grammar.draw.any(QUESTIONS)(grammar)


def did(grammar: Grammar) -> Phrase:
    return DID(subject(grammar), *action(grammar), place(grammar), time(grammar))


def will(grammar: Grammar) -> Phrase:
    return WILL(grammar.modal("future"), subject(grammar), *action(grammar), place(grammar), time(grammar, "future"))


def can(grammar: Grammar) -> Phrase:
    return WILL(grammar.modal("modal"), subject(grammar), *action(grammar), place(grammar), EMPTY)


def who(grammar: Grammar) -> Phrase:
    verbs, happening = grammar.happening()
    return WHO(PERFECTIVE(grammar.past(verbs)), happening, place(grammar), time(grammar))


def whom(grammar: Grammar) -> Phrase:
    return WHOM(subject(grammar), grammar.base(lexicon.DEEDS), place(grammar), time(grammar))


def what(grammar: Grammar) -> Phrase:
    return WHAT(subject(grammar), grammar.base(lexicon.CHORES), place(grammar), time(grammar))


def how_many(grammar: Grammar) -> Phrase:
    noun = grammar.draw.deal(lexicon.THINGS)
    things = counting(noun.measure)(word("how many", "几"), EMPTY, word(noun.plural, noun.chinese), EMPTY)
    return HOW_MANY(things, subject(grammar), grammar.base(lexicon.CHORES), place(grammar), time(grammar))


def where(grammar: Grammar) -> Phrase:
    return WHERE(subject(grammar), *action(grammar), time(grammar))


def why(grammar: Grammar) -> Phrase:
    return WHY(subject(grammar), *action(grammar), place(grammar), time(grammar))


QUESTIONS: tuple[Callable[[Grammar], Phrase], ...] = (did, did, will, can, who, whom, what, how_many, where, why)


def subject(grammar: Grammar) -> Phrase:
    return grammar.someone(grammar.draw.chance(0.3), relative=0.15)


def action(grammar: Grammar) -> tuple[Phrase, Phrase]:
    """A verb in its base form and its object."""
    verbs, happening = grammar.happening()
    return grammar.base(verbs), happening


def place(grammar: Grammar) -> Phrase:
    return grammar.maybe(0.4, lambda: grammar.place("past"))


def time(grammar: Grammar, tense: Tense = "past") -> Phrase:
    return grammar.maybe(0.4, lambda: grammar.time(tense))
