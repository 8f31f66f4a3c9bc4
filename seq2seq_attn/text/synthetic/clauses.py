"""Clauses: who did what to whom, how, where and when.

English says it in that order; Chinese says when, where and how before the verb, the agent of a passive before it with
被, and what is handed over before it with 把.
"""

from __future__ import annotations

from collections.abc import Callable

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.draw import Draw
from seq2seq_attn.text.synthetic.lexicon import Verb
from seq2seq_attn.text.synthetic.nouns import counted, someone, something
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word
from seq2seq_attn.text.synthetic.verbs import Tense, be, modal, place, predicate, time

PRESENT: tuple[Tense, ...] = ("habit", "ongoing", "modal")
TENSES: tuple[Tense, ...] = ("past", "past", "past", "future", "future", "habit", *PRESENT)  # repeats are weights

ACTIVE = Rule("SUBJECT AUXILIARY VERB OBJECT MANNER PLACE TIME", "SUBJECT TIME AUXILIARY PLACE MANNER VERB OBJECT")
FRONTED = Rule("TIME CLAUSE", "TIME CLAUSE")
WAS_DONE = Rule("PATIENT WAS VERB by AGENT PLACE TIME", "PATIENT TIME PLACE 被 AGENT VERB WAS", "by-被")
WILL_BE_DONE = Rule("PATIENT MODAL be VERB by AGENT PLACE TIME", "PATIENT TIME MODAL PLACE 被 AGENT VERB", "by-被")
GAVE = Rule("GIVER VERB THING to TAKER TIME", "GIVER TIME 把 THING VERB 给 了 TAKER", "VERB-了 to-给")
WILL_GIVE = Rule("GIVER MODAL VERB THING to TAKER TIME", "GIVER TIME MODAL 把 THING VERB 给 TAKER", "to-给")
THERE = Rule("there BE THING WHERE the PLACE TIME", "TIME PLACE WHERE BE THING")
COMPARED = Rule("SUBJECT BE QUALITY than OTHER", "SUBJECT BE 比 OTHER QUALITY", "than-比")
DESCRIBED = Rule("SUBJECT BE QUALITY", "SUBJECT BE QUALITY")
REPORTED = Rule("SPEAKER VERB that CLAUSE", "SPEAKER VERB CLAUSE")


def any_tense(draw: Draw) -> Tense:
    return draw.any(TENSES)


def clause(draw: Draw, tense: Tense) -> Phrase:
    """Any clause of this tense."""
    kinds: list[Callable[[Draw, Tense], Phrase]] = [event] * 4
    if tense in ("past", "future", "modal"):
        kinds += [passive, passive, transfer]
    if tense == "habit":
        kinds += [existence, comparison, description]
    return draw.any(kinds)(draw, tense)


def event(draw: Draw, tense: Tense, dependent: bool = False) -> Phrase:
    """Someone does something: "Tom carried a book carefully in the park on Monday".

    A dependent clause is not denied, and does not begin with the time.
    """
    plural = draw.chance(0.3)
    subject = someone(draw, plural, relative=0.25)
    closed = draw.chance(0.25)  # by a relative clause: no adverbial may follow, it would seem to belong there
    verb, happening = action(draw, relative=float(closed))
    auxiliary, verb_phrase = predicate(draw, verb, tense, plural, denied=not dependent and draw.chance(0.2))
    if closed:
        manner = where = EMPTY
    else:
        manner = draw.deal(lexicon.MANNERS).phrase if draw.chance(0.25) else EMPTY
        where = place(draw, tense) if draw.chance(0.4) else EMPTY
    fronted = closed or draw.chance(0.3)
    when = time(draw, tense) if draw.chance(0.5) and not (fronted and dependent) else EMPTY
    opening, end = (when, EMPTY) if fronted else (EMPTY, when)
    return FRONTED(opening, ACTIVE(subject, auxiliary, verb_phrase, happening, manner, where, end))


def action(draw: Draw, relative: float = 0.0) -> tuple[Verb, Phrase]:
    """A verb and its object, which is empty for what one does alone."""
    kind = draw.any(("deed", "deed", "chore", "chore", "activity"))
    if kind == "activity" and not relative:
        return draw.deal(lexicon.ACTIVITIES), EMPTY
    plural = draw.chance(0.35)
    if kind == "deed":
        return draw.deal(lexicon.DEEDS), someone(draw, plural, relative)
    return draw.deal(lexicon.CHORES), something(draw, plural, relative)


def passive(draw: Draw, tense: Tense) -> Phrase:
    """Something is done by someone: "the book was carried by Tom" -> 书 被 汤姆 搬 了."""
    plural = draw.chance(0.3)
    if draw.chance(0.6):
        patient, verb = someone(draw, plural, relative=0.2), draw.deal(lexicon.DEEDS)
    else:
        patient, verb = something(draw, plural, relative=0.2), draw.deal(lexicon.CHORES)
    agent = someone(draw, plural=draw.chance(0.2))
    where = place(draw, tense) if draw.chance(0.35) else EMPTY
    when = time(draw, tense) if draw.chance(0.4) else EMPTY
    if tense == "past":
        was = word("were" if plural else "was", "了")
        return WAS_DONE(patient, was, verb.phrase("past"), agent, where, when)
    return WILL_BE_DONE(patient, modal(draw, tense), verb.phrase("past"), agent, where, when)


def transfer(draw: Draw, tense: Tense) -> Phrase:
    """Something goes from one to another: "Tom sold the book to Jerry" -> 汤姆 把 书 卖 给 了 杰瑞."""
    giver = someone(draw, plural=draw.chance(0.2))
    thing = something(draw, plural=draw.chance(0.3))
    taker = someone(draw, plural=draw.chance(0.2))
    verb = draw.deal(lexicon.TRANSFERS)
    when = time(draw, tense) if draw.chance(0.4) else EMPTY
    if tense == "past":
        return GAVE(giver, verb.phrase("past"), thing, taker, when)
    return WILL_GIVE(giver, modal(draw, tense), verb.phrase("base"), thing, taker, when)


def existence(draw: Draw, tense: Tense) -> Phrase:
    """Something is somewhere: "there is a cat in the park" -> 公园 里 有 一 只 猫."""
    plural = draw.chance(0.5)
    noun = draw.deal(draw.any((lexicon.CREATURES, lexicon.THINGS)))
    where, location = draw.deal(lexicon.PREPOSITIONS).phrase, draw.deal(lexicon.PLACES).phrase
    when = time(draw, tense) if draw.chance(0.3) else EMPTY
    return THERE(be(plural, "有"), counted(draw, noun, plural), where, location, when)


def comparison(draw: Draw, _: Tense) -> Phrase:
    """One is more than another: "Tom is bigger than Jerry" -> 汤姆 比 杰瑞 大."""
    plural = draw.chance(0.3)
    temper = draw.deal(lexicon.TEMPERS)
    more = word(temper.comparative, temper.chinese)
    return COMPARED(someone(draw, plural, relative=0.2), be(plural, ""), more, someone(draw))


def description(draw: Draw, _: Tense) -> Phrase:
    """How someone is: "Tom is big" -> 汤姆 很 大."""
    plural = draw.chance(0.3)
    temper = draw.deal(lexicon.TEMPERS)
    quality = word(temper.positive, temper.chinese)
    return DESCRIBED(someone(draw, plural, relative=0.3), be(plural, "很"), quality)


def report(draw: Draw) -> Phrase:
    """Someone says that something happens; what was said in the past happened in the past."""
    plural = draw.chance(0.3)
    verb = draw.deal(lexicon.SPEECH)
    speaker = someone(draw, plural)
    if draw.chance(0.6):
        return REPORTED(speaker, verb.phrase("past"), clause(draw, "past"))
    return REPORTED(speaker, verb.phrase("base" if plural else "third"), clause(draw, any_tense(draw)))
