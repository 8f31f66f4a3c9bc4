"""Clauses and questions.

The English order is subject, verb, object, manner, place, time. Chinese puts time, place and manner before the verb,
the agent of a passive before it with 被, and the object of a ditransitive verb before it with 把. In a question, the
interrogative stays where its answer would be, and 吗 marks a yes-no question.
"""

from __future__ import annotations

from collections.abc import Callable

from generator import word_list
from generator.constituents import (
    PERFECTIVE,
    Tense,
    be,
    counted,
    counting,
    modal,
    place,
    predicate,
    someone,
    something,
    time,
)
from generator.grammar import EMPTY, Draw, Phrase, Rule, word
from generator.word_list import Verb

PRESENT: tuple[Tense, ...] = ("habit", "ongoing", "modal")
TENSES: tuple[Tense, ...] = ("past", "past", "past", "future", "future", "habit", *PRESENT)  # repeats are weights

ACTIVE = Rule("SUBJECT AUXILIARY VERB OBJECT MANNER PLACE TIME", "SUBJECT TIME AUXILIARY PLACE MANNER VERB OBJECT")
FRONTED = Rule("TIME CLAUSE", "TIME CLAUSE")
WAS_DONE = Rule("PATIENT WAS VERB by AGENT PLACE TIME", "PATIENT TIME PLACE 被 AGENT VERB WAS", "by-被")
WILL_BE_DONE = Rule("PATIENT MODAL be VERB by AGENT PLACE TIME", "PATIENT TIME MODAL PLACE 被 AGENT VERB", "by-被")
GAVE = Rule("GIVER VERB THING to TAKER TIME", "GIVER TIME 把 THING VERB 给 了 TAKER", "VERB-了 to-给")
WILL_GIVE = Rule("GIVER MODAL VERB THING to TAKER TIME", "GIVER TIME MODAL 把 THING VERB 给 TAKER", "to-给")
THERE = Rule("there BE THING WHERE the PLACE TIME", "TIME PLACE WHERE BE THING")
COMPARISON = Rule("SUBJECT BE QUALITY than OTHER", "SUBJECT BE 比 OTHER QUALITY", "than-比")
DESCRIPTION = Rule("SUBJECT BE QUALITY", "SUBJECT BE QUALITY")
REPORTED = Rule("SPEAKER VERB that CLAUSE", "SPEAKER VERB CLAUSE")

ASK_DID = Rule(
    "did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME PLACE VERB 了 OBJECT 吗 ？",
    "did-了 ?-吗 ?-？",
)
ASK_WILL = Rule("MODAL SUBJECT VERB OBJECT PLACE TIME ?", "SUBJECT TIME MODAL PLACE VERB OBJECT 吗 ？", "?-吗 ?-？")
ASK_WHO = Rule("who VERB OBJECT PLACE TIME ?", "谁 TIME PLACE VERB OBJECT ？", "who-谁 ?-？")
ASK_WHOM = Rule("who did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 谁 ？", "who-谁 did-了 ?-？")
ASK_WHAT = Rule("what did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 什么 ？", "what-什么 did-了 ?-？")
ASK_HOW_MANY = Rule("THINGS did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 THINGS ？", "did-了 ?-？")
ASK_WHERE = Rule(
    "where did SUBJECT VERB OBJECT TIME ?",
    "SUBJECT TIME 在 哪里 VERB 了 OBJECT ？",
    "where-在 where-哪里 did-了 ?-？",
)
ASK_WHY = Rule(
    "why did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME 为什么 PLACE VERB OBJECT ？",
    "why-为什么 ?-？",
)


def any_tense(draw: Draw) -> Tense:
    """A random tense."""
    return draw.any(TENSES)


def clause(draw: Draw, tense: Tense) -> Phrase:
    """A random clause of this tense."""
    kinds: list[Callable[[Draw, Tense], Phrase]] = [event] * 4
    if tense in ("past", "future", "modal"):
        kinds += [_passive, _passive, _transfer]
    if tense == "habit":
        kinds += [_existence, _comparison, _description]
    return draw.any(kinds)(draw, tense)


def event(draw: Draw, tense: Tense, dependent: bool = False) -> Phrase:
    """An active clause: "Tom carried a book carefully in the park on Monday".

    A dependent clause is not negated and does not begin with an adverbial of time.
    """
    plural = draw.chance(0.3)
    subject = someone(draw, plural, relative=0.25)
    closed = draw.chance(0.25)  # by a relative clause, to which an adverbial after it would seem to belong
    verb, object_ = action(draw, relative=float(closed))
    auxiliary, verb_phrase = predicate(draw, verb, tense, plural, negated=not dependent and draw.chance(0.2))
    if closed:
        manner = where = EMPTY
    else:
        manner = draw.deal(word_list.MANNERS).phrase if draw.chance(0.25) else EMPTY
        where = place(draw, tense) if draw.chance(0.4) else EMPTY
    fronted = closed or draw.chance(0.3)
    when = time(draw, tense) if draw.chance(0.5) and not (fronted and dependent) else EMPTY
    opening, end = (when, EMPTY) if fronted else (EMPTY, when)
    return FRONTED(opening, ACTIVE(subject, auxiliary, verb_phrase, object_, manner, where, end))


def action(draw: Draw, relative: float = 0.0) -> tuple[Verb, Phrase]:
    """A verb and its object, which is empty for an intransitive verb."""
    kind = draw.any(("deed", "deed", "chore", "chore", "activity"))
    if kind == "activity" and not relative:
        return draw.deal(word_list.ACTIVITIES), EMPTY
    plural = draw.chance(0.35)
    if kind == "deed":
        return draw.deal(word_list.DEEDS), someone(draw, plural, relative)
    return draw.deal(word_list.CHORES), something(draw, plural, relative)


def _passive(draw: Draw, tense: Tense) -> Phrase:
    """A passive clause: "the book was carried by Tom" -> 书 被 汤姆 搬 了."""
    plural = draw.chance(0.3)
    if draw.chance(0.6):
        patient, verb = someone(draw, plural, relative=0.2), draw.deal(word_list.DEEDS)
    else:
        patient, verb = something(draw, plural, relative=0.2), draw.deal(word_list.CHORES)
    agent = someone(draw, plural=draw.chance(0.2))
    where = place(draw, tense) if draw.chance(0.35) else EMPTY
    when = time(draw, tense) if draw.chance(0.4) else EMPTY
    if tense == "past":
        was = word("were" if plural else "was", "了")
        return WAS_DONE(patient, was, verb.phrase("past"), agent, where, when)
    return WILL_BE_DONE(patient, modal(draw, tense), verb.phrase("past"), agent, where, when)


def _transfer(draw: Draw, tense: Tense) -> Phrase:
    """A ditransitive clause: "Tom sold the book to Jerry" -> 汤姆 把 书 卖 给 了 杰瑞."""
    giver = someone(draw, plural=draw.chance(0.2))
    thing = something(draw, plural=draw.chance(0.3))
    taker = someone(draw, plural=draw.chance(0.2))
    verb = draw.deal(word_list.TRANSFERS)
    when = time(draw, tense) if draw.chance(0.4) else EMPTY
    if tense == "past":
        return GAVE(giver, verb.phrase("past"), thing, taker, when)
    return WILL_GIVE(giver, modal(draw, tense), verb.phrase("base"), thing, taker, when)


def _existence(draw: Draw, tense: Tense) -> Phrase:
    """An existential clause: "there is a cat in the park" -> 公园 里 有 一 只 猫."""
    plural = draw.chance(0.5)
    noun = draw.deal(draw.any((word_list.CREATURES, word_list.THINGS)))
    where, location = draw.deal(word_list.PREPOSITIONS).phrase, draw.deal(word_list.LOCATIONS).phrase
    when = time(draw, tense) if draw.chance(0.3) else EMPTY
    return THERE(be(plural, "有"), counted(draw, noun, plural), where, location, when)


def _comparison(draw: Draw, _: Tense) -> Phrase:
    """A comparison: "Tom is bigger than Jerry" -> 汤姆 比 杰瑞 大."""
    plural = draw.chance(0.3)
    temper = draw.deal(word_list.TEMPERS)
    more = word(temper.comparative, temper.chinese)
    return COMPARISON(someone(draw, plural, relative=0.2), be(plural, ""), more, someone(draw))


def _description(draw: Draw, _: Tense) -> Phrase:
    """A predicative adjective: "Tom is big" -> 汤姆 很 大."""
    plural = draw.chance(0.3)
    temper = draw.deal(word_list.TEMPERS)
    quality = word(temper.positive, temper.chinese)
    return DESCRIPTION(someone(draw, plural, relative=0.3), be(plural, "很"), quality)


def reported_speech(draw: Draw) -> Phrase:
    """Someone says that something happens; a past verb of speech takes a clause in the past."""
    plural = draw.chance(0.3)
    verb = draw.deal(word_list.SPEECH)
    speaker = someone(draw, plural)
    if draw.chance(0.6):
        return REPORTED(speaker, verb.phrase("past"), clause(draw, "past"))
    return REPORTED(speaker, verb.phrase("base" if plural else "third"), clause(draw, any_tense(draw)))


def question(draw: Draw) -> Phrase:
    """A random question of one clause."""
    return draw.any(_QUESTIONS)(draw)


def _ask_did(draw: Draw) -> Phrase:
    return ASK_DID(_subject(draw), *_deed(draw), _maybe_place(draw), _maybe_time(draw))


def _ask_will(draw: Draw) -> Phrase:
    return ASK_WILL(
        modal(draw, "future"), _subject(draw), *_deed(draw), _maybe_place(draw), _maybe_time(draw, "future")
    )


def _ask_can(draw: Draw) -> Phrase:
    return ASK_WILL(modal(draw, "modal"), _subject(draw), *_deed(draw), _maybe_place(draw), EMPTY)


def _ask_who(draw: Draw) -> Phrase:
    verb, object_ = action(draw)
    return ASK_WHO(PERFECTIVE(verb.phrase("past")), object_, _maybe_place(draw), _maybe_time(draw))


def _ask_whom(draw: Draw) -> Phrase:
    return ASK_WHOM(_subject(draw), draw.deal(word_list.DEEDS).phrase("base"), _maybe_place(draw), _maybe_time(draw))


def _ask_what(draw: Draw) -> Phrase:
    return ASK_WHAT(_subject(draw), draw.deal(word_list.CHORES).phrase("base"), _maybe_place(draw), _maybe_time(draw))


def _ask_how_many(draw: Draw) -> Phrase:
    noun, verb = draw.deal(word_list.THINGS), draw.deal(word_list.CHORES)
    things = counting(noun.measure)(word("how many", "几"), EMPTY, noun.phrase(plural=True), EMPTY)
    return ASK_HOW_MANY(things, _subject(draw), verb.phrase("base"), _maybe_place(draw), _maybe_time(draw))


def _ask_where(draw: Draw) -> Phrase:
    return ASK_WHERE(_subject(draw), *_deed(draw), _maybe_time(draw))


def _ask_why(draw: Draw) -> Phrase:
    return ASK_WHY(_subject(draw), *_deed(draw), _maybe_place(draw), _maybe_time(draw))


_QUESTIONS = (
    _ask_did,
    _ask_did,  # a repetition is a weight
    _ask_will,
    _ask_can,
    _ask_who,
    _ask_whom,
    _ask_what,
    _ask_how_many,
    _ask_where,
    _ask_why,
)


def _subject(draw: Draw) -> Phrase:
    return someone(draw, plural=draw.chance(0.3), relative=0.15)


def _deed(draw: Draw) -> tuple[Phrase, Phrase]:
    """A verb in its base form and its object."""
    verb, object_ = action(draw)
    return verb.phrase("base"), object_


def _maybe_place(draw: Draw) -> Phrase:
    return place(draw, "past") if draw.chance(0.4) else EMPTY


def _maybe_time(draw: Draw, tense: Tense = "past") -> Phrase:
    return time(draw, tense) if draw.chance(0.4) else EMPTY
