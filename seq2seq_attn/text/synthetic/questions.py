"""Questions of one clause.

In Chinese the asked word stays where its answer would stand, and 吗 marks what can be answered with yes.
"""

from __future__ import annotations

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.clauses import action
from seq2seq_attn.text.synthetic.draw import Draw
from seq2seq_attn.text.synthetic.nouns import counting, someone
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word
from seq2seq_attn.text.synthetic.verbs import PERFECTIVE, Tense, modal
from seq2seq_attn.text.synthetic.verbs import place as any_place
from seq2seq_attn.text.synthetic.verbs import time as any_time

DID = Rule(
    "did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME PLACE VERB 了 OBJECT 吗 ？",
    "did-了 ?-吗 ?-？",
)
WILL = Rule("MODAL SUBJECT VERB OBJECT PLACE TIME ?", "SUBJECT TIME MODAL PLACE VERB OBJECT 吗 ？", "?-吗 ?-？")
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


def question(draw: Draw) -> Phrase:
    """A question of any kind."""
    return draw.any(QUESTIONS)(draw)


def did(draw: Draw) -> Phrase:
    return DID(subject(draw), *deed(draw), place(draw), time(draw))


def will(draw: Draw) -> Phrase:
    return WILL(modal(draw, "future"), subject(draw), *deed(draw), place(draw), time(draw, "future"))


def can(draw: Draw) -> Phrase:
    return WILL(modal(draw, "modal"), subject(draw), *deed(draw), place(draw), EMPTY)


def who(draw: Draw) -> Phrase:
    verb, happening = action(draw)
    return WHO(PERFECTIVE(verb.phrase("past")), happening, place(draw), time(draw))


def whom(draw: Draw) -> Phrase:
    return WHOM(subject(draw), draw.deal(lexicon.DEEDS).phrase("base"), place(draw), time(draw))


def what(draw: Draw) -> Phrase:
    return WHAT(subject(draw), draw.deal(lexicon.CHORES).phrase("base"), place(draw), time(draw))


def how_many(draw: Draw) -> Phrase:
    noun, verb = draw.deal(lexicon.THINGS), draw.deal(lexicon.CHORES)
    things = counting(noun.measure)(word("how many", "几"), EMPTY, noun.phrase(plural=True), EMPTY)
    return HOW_MANY(things, subject(draw), verb.phrase("base"), place(draw), time(draw))


def where(draw: Draw) -> Phrase:
    return WHERE(subject(draw), *deed(draw), time(draw))


def why(draw: Draw) -> Phrase:
    return WHY(subject(draw), *deed(draw), place(draw), time(draw))


QUESTIONS = (did, did, will, can, who, whom, what, how_many, where, why)  # repeats are weights


def subject(draw: Draw) -> Phrase:
    return someone(draw, plural=draw.chance(0.3), relative=0.15)


def deed(draw: Draw) -> tuple[Phrase, Phrase]:
    """A verb in its base form and its object."""
    verb, happening = action(draw)
    return verb.phrase("base"), happening


def place(draw: Draw) -> Phrase:
    return any_place(draw, "past") if draw.chance(0.4) else EMPTY


def time(draw: Draw, tense: Tense = "past") -> Phrase:
    return any_time(draw, tense) if draw.chance(0.4) else EMPTY
