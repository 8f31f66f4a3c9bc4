"""Verbs with their auxiliaries, and the adverbials that tense decides on.

In Chinese a verb has one form: the past of an event is 了 after it or 没有 before it, what is going on has 正在.
"""

from __future__ import annotations

from typing import Literal

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.draw import Draw
from seq2seq_attn.text.synthetic.lexicon import Verb
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word

Tense = Literal["past", "habit", "ongoing", "modal", "future"]

PERFECTIVE = Rule("VERB", "VERB 了", "VERB-了")
DID_NOT = Rule("did not", "没有", "not-没有")()
NOT = Rule("MODAL not", "不 MODAL", "not-不")

IN = Rule("WHERE the PLACE", "在 PLACE WHERE", "WHERE-在")
IN_THE_MIDST = Rule("WHERE the PLACE", "PLACE WHERE")  # after 正在, which holds a 在 already

ON = Rule("on DAY PART", "DAY PART")
DAY = Rule("DAY PART", "DAY PART")
THIS = Rule("this PART", "今天 PART", "this-今天")
EVERY = Rule("every PART", "每天 PART", "every-每天")


def predicate(draw: Draw, verb: Verb, tense: Tense, plural: bool, denied: bool) -> tuple[Phrase, Phrase]:
    """The auxiliary, which in Chinese stands before the place, and the verb. Only past and modals can be denied."""
    if tense == "past":
        return (DID_NOT, verb.phrase("base")) if denied else (EMPTY, PERFECTIVE(verb.phrase("past")))
    if tense == "habit":
        frequency = draw.deal(lexicon.FREQUENCIES).phrase if draw.chance(0.5) else EMPTY
        return frequency, verb.phrase("base" if plural else "third")
    if tense == "ongoing":
        return be(plural, "正在"), verb.phrase("progressive")
    auxiliary = modal(draw, tense)
    return (NOT(auxiliary) if denied else auxiliary), verb.phrase("base")


def modal(draw: Draw, tense: Tense) -> Phrase:
    """The auxiliary "will", or a modal verb if the tense is not the future."""
    return word("will", "会") if tense == "future" else draw.deal(lexicon.MODALS).phrase


def be(plural: bool, chinese: str) -> Phrase:
    """The word "is" or "are" for what it stands for in Chinese, which may be nothing."""
    return word("are" if plural else "is", chinese)


def place(draw: Draw, tense: Tense) -> Phrase:
    """Where something happens: "in the garden" -> 在 花园 里."""
    rule = IN_THE_MIDST if tense == "ongoing" else IN
    return rule(draw.deal(lexicon.PREPOSITIONS).phrase, draw.deal(lexicon.PLACES).phrase)


def time(draw: Draw, tense: Tense) -> Phrase:
    """When, if the tense allows to say it: "on Monday morning", "last week", "every evening"."""
    if tense in ("ongoing", "modal"):
        return EMPTY
    part = draw.deal(lexicon.DAY_PARTS).phrase
    if tense == "habit":
        return EVERY(part)
    kind = draw.any(("day", "weekday", "weekday", "this", "far"))
    if kind == "this":
        return THIS(part)
    if kind == "far":
        return draw.deal(lexicon.LONG_AGO if tense == "past" else lexicon.LATER).phrase
    part = part if draw.chance(0.5) else EMPTY
    if kind == "weekday":
        return ON(draw.deal(lexicon.WEEKDAYS).phrase, part)
    return DAY(word("yesterday", "昨天") if tense == "past" else word("tomorrow", "明天"), part)
