"""Verb phrases, adverbials and noun phrases.

A Chinese verb has one form: the past of an event is 了 after it or 没有 before it, the progressive is 正在. In a
Chinese noun phrase, possessors and relative clauses precede the noun with 的, and a counted or demonstrative noun
requires its measure word: "a clever cat that chased Jerry" -> 一 只 追逐 了 杰瑞 的 聪明的 猫. The article "the" has no
counterpart.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from generator import word_list
from generator.grammar import EMPTY, Draw, Phrase, Rule, word
from generator.word_list import Noun, Verb

Tense = Literal["past", "habit", "ongoing", "modal", "future"]

PERFECTIVE = Rule("VERB", "VERB 了", "VERB-了")
DID_NOT = Rule("did not", "没有", "not-没有")()
NOT = Rule("MODAL not", "不 MODAL", "not-不")

IN = Rule("WHERE the PLACE", "在 PLACE WHERE", "WHERE-在")
IN_THE_MIDST = Rule("WHERE the PLACE", "PLACE WHERE")  # after 正在, which already contains 在

ON = Rule("on DAY PART", "DAY PART")
DAY = Rule("DAY PART", "DAY PART")
THIS = Rule("this PART", "今天 PART", "this-今天")
EVERY = Rule("every PART", "每天 PART", "every-每天")


def predicate(draw: Draw, verb: Verb, tense: Tense, plural: bool, negated: bool) -> tuple[Phrase, Phrase]:
    """The auxiliary, which in Chinese precedes the place, and the verb. Only the past and modals can be negated."""
    if tense == "past":
        return (DID_NOT, verb.phrase("base")) if negated else (EMPTY, PERFECTIVE(verb.phrase("past")))
    if tense == "habit":
        frequency = draw.deal(word_list.FREQUENCY_ADVERBS).phrase if draw.chance(0.5) else EMPTY
        return frequency, verb.phrase("base" if plural else "third")
    if tense == "ongoing":
        return be(plural, "正在"), verb.phrase("progressive")
    auxiliary = modal(draw, tense)
    return (NOT(auxiliary) if negated else auxiliary), verb.phrase("base")


def modal(draw: Draw, tense: Tense) -> Phrase:
    """The auxiliary "will" for the future, otherwise a modal verb."""
    return word("will", "会") if tense == "future" else draw.deal(word_list.MODALS).phrase


def be(plural: bool, chinese: str) -> Phrase:
    """The word "is" or "are" with its Chinese counterpart in this construction, which may be empty."""
    return word("are" if plural else "is", chinese)


def place(draw: Draw, tense: Tense) -> Phrase:
    """An adverbial of place: "in the garden" -> 在 花园 里."""
    rule = IN_THE_MIDST if tense == "ongoing" else IN
    return rule(draw.deal(word_list.PREPOSITIONS).phrase, draw.deal(word_list.LOCATIONS).phrase)


def time(draw: Draw, tense: Tense) -> Phrase:
    """An adverbial of time, empty where the tense admits none: "on Monday morning", "last week", "every evening"."""
    if tense in ("ongoing", "modal"):
        return EMPTY
    part = draw.deal(word_list.DAY_PARTS).phrase
    if tense == "habit":
        return EVERY(part)
    kind = draw.any(("day", "weekday", "weekday", "this", "far"))
    if kind == "this":
        return THIS(part)
    if kind == "far":
        return draw.deal(word_list.LONG_AGO if tense == "past" else word_list.LATER).phrase
    part = part if draw.chance(0.5) else EMPTY
    if kind == "weekday":
        return ON(draw.deal(word_list.WEEKDAYS).phrase, part)
    return DAY(word("yesterday", "昨天") if tense == "past" else word("tomorrow", "明天"), part)


BOTH = Rule("NAME and OTHER", "NAME 和 OTHER", "and-和")
NOMINAL = Rule("DETERMINER QUALITY NOUN RELATIVE", "DETERMINER RELATIVE QUALITY NOUN")
OWNED = Rule("OWNER 's", "OWNER 的", "'s-的")

# Relative clauses, named by the role of the noun in them.
DOER = Rule("that VERB OBJECT", "VERB OBJECT 的", "that-的")
OBJECT = Rule("that SUBJECT VERB", "SUBJECT VERB 的", "that-的")
PATIENT = Rule("that WAS VERB by AGENT", "WAS 被 AGENT VERB 的", "that-的 by-被")


@cache
def counting(measure: str) -> Rule:
    """The rule for a number or "this": the noun requires its own measure word and is linked to it."""
    return Rule("NUMBER QUALITY NOUN RELATIVE", f"NUMBER {measure} RELATIVE QUALITY NOUN", f"NOUN-{measure}")


def someone(draw: Draw, plural: bool = False, relative: float = 0.0) -> Phrase:
    """A person or an animal; unless it is a name, it has a relative clause with probability `relative`."""
    if draw.chance(0.4):
        return BOTH(_name(draw), _name(draw)) if plural else _name(draw)
    clause = _relative_clause(draw, plural) if draw.chance(relative) else EMPTY
    quality = draw.deal(word_list.TEMPERS).before_noun if draw.chance(0.35) else EMPTY
    return _determined(draw, draw.deal(word_list.CREATURES), plural, quality, clause)


def something(draw: Draw, plural: bool = False, relative: float = 0.0) -> Phrase:
    """A thing, with a relative clause with probability `relative`."""
    clause = EMPTY
    if draw.chance(relative):
        clause = OBJECT(_name(draw), draw.deal(word_list.CHORES).phrase("past"))
    quality = draw.deal(word_list.LOOKS).phrase if draw.chance(0.5) else EMPTY
    return _determined(draw, draw.deal(word_list.THINGS), plural, quality, clause)


def _name(draw: Draw) -> Phrase:
    return draw.deal(word_list.NAMES).phrase


def _determined(draw: Draw, noun: Noun, plural: bool, quality: Phrase, relative: Phrase) -> Phrase:
    """The noun with a random determiner; with a relative clause, no possessor or demonstrative."""
    kind = draw.any(("the", "counted", "counted") if relative.source else ("the", "counted", "this", "owned"))
    if kind == "counted":
        return counted(draw, noun, plural, quality, relative)
    if kind == "this" and not plural:
        return counting(noun.measure)(word("this", "这"), quality, noun.phrase(plural), relative)
    determiner = {"the": word("the", ""), "this": word("these", "这些")}.get(kind) or _possessor(draw)
    return NOMINAL(determiner, quality, noun.phrase(plural), relative)


def counted(draw: Draw, noun: Noun, plural: bool, quality: Phrase = EMPTY, relative: Phrase = EMPTY) -> Phrase:
    """An indefinite noun phrase: "a cat" -> 一 只 猫, "three books" -> 三 本 书."""
    head = noun.phrase(plural)
    following = (quality.source or head.source)[0]
    one = word("an" if following[0] in "aeiou" else "a", "一")
    number = draw.deal(word_list.NUMBERS).phrase if plural else one
    return counting(noun.measure)(number, quality, head, relative)


def _possessor(draw: Draw) -> Phrase:
    """A possessor: "Tom 's" -> 汤姆 的, "my" -> 我的."""
    return OWNED(_name(draw)) if draw.chance(0.5) else draw.deal(word_list.OWNERS).phrase


def _relative_clause(draw: Draw, plural: bool) -> Phrase:
    """A relative clause for a person or an animal, in the past tense."""
    kind = draw.any(("did", "did", "did to a thing", "whom", "was"))
    verb = draw.deal(word_list.CHORES if kind == "did to a thing" else word_list.DEEDS).phrase("past")
    if kind == "did":
        return DOER(PERFECTIVE(verb), someone(draw, plural=draw.chance(0.2)))
    if kind == "did to a thing":
        return DOER(PERFECTIVE(verb), something(draw, plural=draw.chance(0.3)))
    if kind == "whom":
        return OBJECT(_name(draw), verb)
    return PATIENT(word("were" if plural else "was", ""), verb, someone(draw))
