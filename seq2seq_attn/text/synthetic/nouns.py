"""Noun phrases: "a clever cat that chased Jerry" -> 一 只 追逐 了 杰瑞 的 聪明的 猫.

In Chinese, owners and relative clauses stand before the noun with 的, and what is counted or pointed at takes the
measure word of its noun. The article "the" has no counterpart.
"""

from __future__ import annotations

from functools import cache

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.draw import Draw
from seq2seq_attn.text.synthetic.lexicon import Noun
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word
from seq2seq_attn.text.synthetic.verbs import PERFECTIVE

BOTH = Rule("NAME and OTHER", "NAME 和 OTHER", "and-和")
NOMINAL = Rule("DETERMINER QUALITY NOUN RELATIVE", "DETERMINER RELATIVE QUALITY NOUN")
OWNED = Rule("OWNER 's", "OWNER 的", "'s-的")

# Relative clauses, by what the noun is in them.
DOER = Rule("that VERB OBJECT", "VERB OBJECT 的", "that-的")
OBJECT = Rule("that SUBJECT VERB", "SUBJECT VERB 的", "that-的")
PATIENT = Rule("that WAS VERB by AGENT", "WAS 被 AGENT VERB 的", "that-的 by-被")


@cache
def counting(measure: str) -> Rule:
    """What follows a number or "this": the noun asks for its own measure word, and is linked to it."""
    return Rule("NUMBER QUALITY NOUN RELATIVE", f"NUMBER {measure} RELATIVE QUALITY NOUN", f"NOUN-{measure}")


def someone(draw: Draw, plural: bool = False, relative: float = 0.0) -> Phrase:
    """A person or an animal; without a name, it has a relative clause with probability `relative`."""
    if draw.chance(0.4):
        return BOTH(name(draw), name(draw)) if plural else name(draw)
    clause = about_someone(draw, plural) if draw.chance(relative) else EMPTY
    quality = draw.deal(lexicon.TEMPERS).before_noun if draw.chance(0.35) else EMPTY
    return determined(draw, draw.deal(lexicon.CREATURES), plural, quality, clause)


def something(draw: Draw, plural: bool = False, relative: float = 0.0) -> Phrase:
    """A thing, with a relative clause with probability `relative`."""
    clause = EMPTY
    if draw.chance(relative):
        clause = OBJECT(name(draw), draw.deal(lexicon.CHORES).phrase("past"))
    quality = draw.deal(lexicon.LOOKS).phrase if draw.chance(0.5) else EMPTY
    return determined(draw, draw.deal(lexicon.THINGS), plural, quality, clause)


def name(draw: Draw) -> Phrase:
    return draw.deal(lexicon.NAMES).phrase


def determined(draw: Draw, noun: Noun, plural: bool, quality: Phrase, relative: Phrase) -> Phrase:
    """The noun with any determiner. One with an owner or a demonstrative needs no relative clause."""
    kind = draw.any(("the", "counted", "counted") if relative.source else ("the", "counted", "this", "owned"))
    if kind == "counted":
        return counted(draw, noun, plural, quality, relative)
    if kind == "this" and not plural:
        return counting(noun.measure)(word("this", "这"), quality, noun.phrase(plural), relative)
    determiner = {"the": word("the", ""), "this": word("these", "这些")}.get(kind) or owner(draw)
    return NOMINAL(determiner, quality, noun.phrase(plural), relative)


def counted(draw: Draw, noun: Noun, plural: bool, quality: Phrase = EMPTY, relative: Phrase = EMPTY) -> Phrase:
    """One or more: "a cat" -> 一 只 猫, "three books" -> 三 本 书."""
    head = noun.phrase(plural)
    following = (quality.source or head.source)[0]
    one = word("an" if following[0] in "aeiou" else "a", "一")
    number = draw.deal(lexicon.NUMBERS).phrase if plural else one
    return counting(noun.measure)(number, quality, head, relative)


def owner(draw: Draw) -> Phrase:
    """Whose it is: "Tom 's" -> 汤姆 的, "my" -> 我的."""
    return OWNED(name(draw)) if draw.chance(0.5) else draw.deal(lexicon.OWNERS).phrase


def about_someone(draw: Draw, plural: bool) -> Phrase:
    """A relative clause about a person or an animal, in the past."""
    kind = draw.any(("did", "did", "did to a thing", "whom", "was"))
    verb = draw.deal(lexicon.CHORES if kind == "did to a thing" else lexicon.DEEDS).phrase("past")
    if kind == "did":
        return DOER(PERFECTIVE(verb), someone(draw, plural=draw.chance(0.2)))
    if kind == "did to a thing":
        return DOER(PERFECTIVE(verb), something(draw, plural=draw.chance(0.3)))
    if kind == "whom":
        return OBJECT(name(draw), verb)
    return PATIENT(word("were" if plural else "was", ""), verb, someone(draw))
