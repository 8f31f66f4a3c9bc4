"""A synchronous grammar of English and Chinese: phrases and clauses.

The rules say what differs: in Chinese relative clauses and owners stand before the noun with 的, numbers take a measure
word, time and place stand before the verb, the agent of a passive stands before it with 被, and the past of an event
is 了. The methods of `Grammar` choose words and put them into rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Literal

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.draw import Draw
from seq2seq_attn.text.synthetic.lexicon import Entry, Noun, Verb
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word

Tense = Literal["past", "habit", "ongoing", "modal", "future"]
PRESENT: tuple[Tense, ...] = ("habit", "ongoing", "modal")
TENSES: tuple[Tense, ...] = ("past", "past", "past", "future", "future", "habit", *PRESENT)  # repeats are weights

# Noun phrases.
BOTH = Rule("NAME and OTHER", "NAME 和 OTHER", "and-和")
NOMINAL = Rule("DETERMINER QUALITY NOUN RELATIVE", "DETERMINER RELATIVE QUALITY NOUN")
OWNED = Rule("OWNER 's", "OWNER 的", "'s-的")
WHO_DID = Rule("that VERB OBJECT", "VERB OBJECT 的", "that-的")
WHOM_SOMEONE_DID = Rule("that SUBJECT VERB", "SUBJECT VERB 的", "that-的")
WHO_WAS = Rule("that was VERB by AGENT", "被 AGENT VERB 的", "that-的 by-被")
WHO_WERE = Rule("that were VERB by AGENT", "被 AGENT VERB 的", "that-的 by-被")

# Verbs.
PERFECTIVE = Rule("VERB", "VERB 了", "VERB-了")
DID_NOT = Rule("did not", "没有", "not-没有")()
NOT = Rule("MODAL not", "不 MODAL", "not-不")
BE = Rule("MODAL be", "MODAL")

# Adverbials.
AT = Rule("WHERE the PLACE", "在 PLACE WHERE", "WHERE-在")
AT_AFTER_ZHENGZAI = Rule("WHERE the PLACE", "PLACE WHERE")  # 正在 在 contracts to 正在
ON = Rule("on DAY PART", "DAY PART")
DAY = Rule("DAY PART", "DAY PART")
THIS = Rule("this PART", "今天 PART", "this-今天")
EVERY = Rule("every PART", "每天 PART", "every-每天")
FRONTED = Rule("TIME CLAUSE", "TIME CLAUSE")

# Clauses.
ACTIVE = Rule(
    "SUBJECT AUXILIARY VERB OBJECT MANNER PLACE TIME", "SUBJECT TIME AUXILIARY PLACE MANNER VERB OBJECT"
)
WAS_DONE = Rule(
    "PATIENT WAS VERB by AGENT PLACE TIME", "PATIENT TIME PLACE 被 AGENT VERB WAS", "by-被"
)
WILL_BE_DONE = Rule(
    "PATIENT AUXILIARY VERB by AGENT PLACE TIME", "PATIENT TIME AUXILIARY PLACE 被 AGENT VERB", "by-被"
)
GAVE = Rule("GIVER VERB THING to TAKER TIME", "GIVER TIME 把 THING VERB 给 了 TAKER", "VERB-了 to-给")
GIVE = Rule("GIVER MODAL VERB THING to TAKER TIME", "GIVER TIME MODAL 把 THING VERB 给 TAKER", "to-给")
THERE = Rule("there BE THING WHERE the PLACE TIME", "TIME PLACE WHERE BE THING")
COMPARED = Rule("SUBJECT BE QUALITY than OTHER", "SUBJECT BE 比 OTHER QUALITY", "than-比")
DESCRIBED = Rule("SUBJECT BE QUALITY", "SUBJECT BE QUALITY")
REPORT = Rule("SPEAKER VERB that CLAUSE", "SPEAKER VERB CLAUSE")


@cache
def counting(measure: str) -> Rule:
    """What follows a number or "this": the noun asks for its own measure word, and is linked to it."""
    return Rule(
        "NUMBER QUALITY NOUN RELATIVE", f"NUMBER {measure} RELATIVE QUALITY NOUN", f"NOUN-{measure}"
    )


def entry(pair: Entry) -> Phrase:
    return word(pair.english, pair.chinese)


def adjective(english: str, chinese: str) -> Phrase:
    """An adjective before its noun: one of two or more syllables takes 的."""
    return word(english, chinese if len(chinese) == 1 else f"{chinese} 的")


class Grammar:
    """The phrases of one sentence, filled with words that are drawn as they are needed."""

    def __init__(self, random: Random) -> None:
        self.draw = Draw(random)

    def maybe(self, probability: float, make: Callable[[], Phrase]) -> Phrase:
        return make() if self.draw.chance(probability) else EMPTY

    def entry(self, table: tuple[Entry, ...]) -> Phrase:
        return entry(self.draw.deal(table))

    # Noun phrases: "the clever cat that chased Jerry" -> 追逐 了 杰瑞 的 聪明 的 猫.

    def name(self) -> Phrase:
        return self.entry(lexicon.NAMES)

    def someone(self, plural: bool = False, relative: float = 0.0) -> Phrase:
        """A person or an animal, with a relative clause at this probability."""
        if self.draw.chance(0.4):
            return BOTH(self.name(), self.name()) if plural else self.name()
        clause = self.maybe(relative, lambda: self.about_someone(plural))
        temper = self.maybe(0.35, lambda: adjective(*self.draw.deal(lexicon.TEMPERS)[::2]))
        return self.noun_phrase(self.draw.deal(lexicon.CREATURES), plural, temper, clause)

    def thing(self, plural: bool = False, relative: float = 0.0) -> Phrase:
        clause = self.maybe(relative, lambda: WHOM_SOMEONE_DID(self.name(), self.past(lexicon.CHORES)))
        look = self.maybe(0.5, lambda: adjective(*self.draw.deal(lexicon.LOOKS)))
        return self.noun_phrase(self.draw.deal(lexicon.THINGS), plural, look, clause)

    def noun_phrase(self, noun: Noun, plural: bool, quality: Phrase, relative: Phrase) -> Phrase:
        kinds = ("the", "counted", "counted") if relative.source else ("the", "counted", "this", "owned")
        kind = self.draw.any(kinds)
        head = word(noun.plural if plural else noun.singular, noun.chinese)
        if kind == "counted":
            return self.counted(noun, plural, quality, relative)
        if kind == "this" and not plural:
            return counting(noun.measure)(word("this", "这"), quality, head, relative)
        determiner = {"the": word("the", ""), "this": word("these", "这些")}.get(kind) or self.owner()
        return NOMINAL(determiner, quality, head, relative)

    def counted(self, noun: Noun, plural: bool, quality: Phrase = EMPTY, relative: Phrase = EMPTY) -> Phrase:
        """One or more: "a cat" -> 一 只 猫, "three books" -> 三 本 书."""
        head = word(noun.plural if plural else noun.singular, noun.chinese)
        if plural:
            number = self.entry(lexicon.NUMBERS)
        else:
            following = (quality.source or head.source)[0]
            number = word("an" if following[0] in "aeiou" else "a", "一")
        return counting(noun.measure)(number, quality, head, relative)

    def owner(self) -> Phrase:
        if self.draw.chance(0.5):
            return OWNED(self.name())
        owner = self.draw.deal(lexicon.OWNERS)
        return word(owner.english, f"{owner.chinese} 的")

    def about_someone(self, plural: bool) -> Phrase:
        """A relative clause about a person or an animal."""
        kind = self.draw.any(("did", "did", "did to a thing", "whom", "was"))
        if kind == "did":
            return WHO_DID(PERFECTIVE(self.past(lexicon.DEEDS)), self.someone(self.draw.chance(0.2)))
        if kind == "did to a thing":
            return WHO_DID(PERFECTIVE(self.past(lexicon.CHORES)), self.thing(self.draw.chance(0.3)))
        if kind == "whom":
            return WHOM_SOMEONE_DID(self.name(), self.past(lexicon.DEEDS))
        return (WHO_WERE if plural else WHO_WAS)(self.past(lexicon.DEEDS), self.someone())

    # Verbs.

    def past(self, verbs: tuple[Verb, ...]) -> Phrase:
        """A past form or participle, without 了."""
        verb = self.draw.deal(verbs)
        return word(verb.past, verb.chinese)

    def base(self, verbs: tuple[Verb, ...]) -> Phrase:
        verb = self.draw.deal(verbs)
        return word(verb.base, verb.chinese)

    def predicate(self, verb: Verb, tense: Tense, plural: bool, denied: bool) -> tuple[Phrase, Phrase]:
        """The auxiliary, which in Chinese stands before the place, and the verb."""
        base = word(verb.base, verb.chinese)
        if tense == "past":
            return (DID_NOT, base) if denied else (EMPTY, PERFECTIVE(word(verb.past, verb.chinese)))
        if tense == "habit":
            form = verb.base if plural else verb.third
            return self.maybe(0.5, lambda: self.entry(lexicon.FREQUENCIES)), word(form, verb.chinese)
        if tense == "ongoing":
            return word("are" if plural else "is", "正在"), word(verb.progressive, verb.chinese)
        modal = self.modal(tense)
        return (NOT(modal) if denied else modal), base

    def modal(self, tense: Tense) -> Phrase:
        return word("will", "会") if tense == "future" else self.entry(lexicon.MODALS)

    # Adverbials.

    def place(self, tense: Tense) -> Phrase:
        rule = AT_AFTER_ZHENGZAI if tense == "ongoing" else AT
        return rule(self.entry(lexicon.PREPOSITIONS), self.entry(lexicon.PLACES))

    def manner(self) -> Phrase:
        return self.entry(lexicon.MANNERS)

    def time(self, tense: Tense) -> Phrase:
        """When, where the tense allows to say it: "on Monday morning", "last week", "every evening"."""
        if tense in ("ongoing", "modal"):
            return EMPTY
        part = self.entry(lexicon.DAY_PARTS)
        if tense == "habit":
            return EVERY(part)
        kind = self.draw.any(("day", "weekday", "weekday", "this", "far"))
        if kind == "this":
            return THIS(part)
        if kind == "far":
            return self.entry(lexicon.LONG_AGO if tense == "past" else lexicon.LATER)
        part = part if self.draw.chance(0.5) else EMPTY
        if kind == "weekday":
            return ON(self.entry(lexicon.WEEKDAYS), part)
        return DAY(word("yesterday", "昨天") if tense == "past" else word("tomorrow", "明天"), part)

    # Clauses.

    def tense(self) -> Tense:
        return self.draw.any(TENSES)

    def clause(self, tense: Tense) -> Phrase:
        """Any clause of this tense."""
        kinds: list[Callable[[Tense], Phrase]] = [self.event] * 4  # repeats are weights
        if tense in ("past", "future", "modal"):
            kinds += [self.passive, self.passive, self.transfer]
        if tense == "habit":
            kinds += [self.existence, self.comparison, self.description]
        return self.draw.any(kinds)(tense)

    def event(self, tense: Tense, deniable: bool = True) -> Phrase:
        """Someone does something: "Tom carefully washed ..."."""
        plural = self.draw.chance(0.3)
        subject = self.someone(plural, relative=0.25)
        closing = self.draw.chance(0.25)  # a relative clause ends the clause, and no adverbial can follow it
        verbs, happening = self.happening(relative=1.0 if closing else 0.0)
        denied = deniable and self.draw.chance(0.2)
        auxiliary, verb = self.predicate(self.draw.deal(verbs), tense, plural, denied)
        time = self.maybe(0.5, lambda: self.time(tense))
        if closing:
            return FRONTED(time, ACTIVE(subject, auxiliary, verb, happening, EMPTY, EMPTY, EMPTY))
        manner = self.maybe(0.25, self.manner)
        place = self.maybe(0.4, lambda: self.place(tense))
        if self.draw.chance(0.3):
            return FRONTED(time, ACTIVE(subject, auxiliary, verb, happening, manner, place, EMPTY))
        return ACTIVE(subject, auxiliary, verb, happening, manner, place, time)

    def happening(self, relative: float = 0.0) -> tuple[tuple[Verb, ...], Phrase]:
        """A table of verbs, and an object for them."""
        kind = self.draw.any(("deed", "deed", "chore", "chore", "activity"))
        if kind == "activity" and not relative:
            return lexicon.ACTIVITIES, EMPTY
        plural = self.draw.chance(0.35)
        if kind == "deed":
            return lexicon.DEEDS, self.someone(plural, relative)
        return lexicon.CHORES, self.thing(plural, relative)

    def passive(self, tense: Tense) -> Phrase:
        plural = self.draw.chance(0.3)
        if self.draw.chance(0.6):
            patient, verb = self.someone(plural, relative=0.2), self.past(lexicon.DEEDS)
        else:
            patient, verb = self.thing(plural, relative=0.2), self.past(lexicon.CHORES)
        agent = self.someone(self.draw.chance(0.2))
        place, time = self.maybe(0.35, lambda: self.place(tense)), self.maybe(0.4, lambda: self.time(tense))
        if tense == "past":
            return WAS_DONE(patient, word("were" if plural else "was", "了"), verb, agent, place, time)
        return WILL_BE_DONE(patient, BE(self.modal(tense)), verb, agent, place, time)

    def transfer(self, tense: Tense) -> Phrase:
        giver, thing = self.someone(self.draw.chance(0.2)), self.thing(self.draw.chance(0.3))
        taker = self.someone(self.draw.chance(0.2))
        time = self.maybe(0.4, lambda: self.time(tense))
        if tense == "past":
            return GAVE(giver, self.past(lexicon.TRANSFERS), thing, taker, time)
        return GIVE(giver, self.modal(tense), self.base(lexicon.TRANSFERS), thing, taker, time)

    def existence(self, tense: Tense) -> Phrase:
        plural = self.draw.chance(0.5)
        noun = self.draw.deal(self.draw.any((lexicon.CREATURES, lexicon.THINGS)))
        something = self.counted(noun, plural)
        be = word("are" if plural else "is", "有")
        time = self.maybe(0.3, lambda: self.time(tense))
        where, place = self.entry(lexicon.PREPOSITIONS), self.entry(lexicon.PLACES)
        return THERE(be, something, where, place, time)

    def comparison(self, _: Tense) -> Phrase:
        plural = self.draw.chance(0.3)
        _, comparative, chinese = self.draw.deal(lexicon.TEMPERS)
        be = word("are" if plural else "is", "")
        return COMPARED(self.someone(plural, 0.2), be, word(comparative, chinese), self.someone())

    def description(self, _: Tense) -> Phrase:
        plural = self.draw.chance(0.3)
        quality, _, chinese = self.draw.deal(lexicon.TEMPERS)
        be = word("are" if plural else "is", "很")
        return DESCRIBED(self.someone(plural, 0.3), be, word(quality, chinese))

    def report(self) -> Phrase:
        """Someone says that something happens."""
        plural = self.draw.chance(0.3)
        verb = self.draw.deal(lexicon.SPEECH)
        speaker = self.someone(plural)
        if self.draw.chance(0.6):
            return REPORT(speaker, word(verb.past, verb.chinese), self.clause("past"))
        says = word(verb.base if plural else verb.third, verb.chinese)
        return REPORT(speaker, says, self.clause(self.tense()))
