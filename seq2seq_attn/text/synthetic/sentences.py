"""From clauses to sentences of any length: questions, subordination, coordination."""

from __future__ import annotations

from random import Random

from seq2seq_attn.text.synthetic import lexicon
from seq2seq_attn.text.synthetic.grammar import PRESENT, Grammar
from seq2seq_attn.text.synthetic.phrase import EMPTY, Phrase, Rule, word

STATEMENT = Rule("CLAUSE .", "CLAUSE 。", ".-。")

# Questions: the asked word stays where its answer would stand, and 吗 marks what can be answered with yes.
DID = Rule(
    "did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME PLACE VERB 了 OBJECT 吗 ？",
    "did-了 ?-吗 ?-？",
)
WILL = Rule(
    "MODAL SUBJECT VERB OBJECT PLACE TIME ?", "SUBJECT TIME MODAL PLACE VERB OBJECT 吗 ？", "?-吗 ?-？"
)
ASKED_SUBJECT = Rule("who VERB OBJECT PLACE TIME ?", "谁 TIME PLACE VERB OBJECT ？", "who-谁 ?-？")
ASKED_PERSON = Rule(
    "who did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 谁 ？", "who-谁 did-了 ?-？"
)
ASKED_THING = Rule(
    "what did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 什么 ？", "what-什么 did-了 ?-？"
)
ASKED_NUMBER = Rule(
    "THINGS did SUBJECT VERB PLACE TIME ?", "SUBJECT TIME PLACE VERB 了 THINGS ？", "did-了 ?-？"
)
ASKED_PLACE = Rule(
    "where did SUBJECT VERB OBJECT TIME ?",
    "SUBJECT TIME 在 哪里 VERB 了 OBJECT ？",
    "where-在 where-哪里 did-了 ?-？",
)
ASKED_REASON = Rule(
    "why did SUBJECT VERB OBJECT PLACE TIME ?",
    "SUBJECT TIME 为什么 PLACE VERB OBJECT ？",
    "why-为什么 ?-？",
)

# Subordination: two clauses, or a clause and the rest of the sentence.
BECAUSE = Rule("because FIRST , SECOND", "因为 FIRST ， 所以 SECOND", "because-因为 because-所以 ,-，")
ALTHOUGH = Rule("although FIRST , SECOND", "虽然 FIRST ， 但是 SECOND", "although-虽然 although-但是 ,-，")
IF = Rule("if FIRST , SECOND", "如果 FIRST ， 那么 SECOND", "if-如果 if-那么 ,-，")
WHEN = Rule("when FIRST , SECOND", "当 FIRST 时 ， SECOND", "when-当 when-时 ,-，")
AFTER = Rule("after FIRST , SECOND", "FIRST 之后 ， SECOND", "after-之后 ,-，")

# Coordination.
ASKING = (  # what may also join a question to what was said before it
    Rule("LEFT , and RIGHT", "LEFT ， 而且 RIGHT", "and-而且 ,-，"),
    Rule("LEFT , but RIGHT", "LEFT ， 但是 RIGHT", "but-但是 ,-，"),
    Rule("LEFT , so RIGHT", "LEFT ， 所以 RIGHT", "so-所以 ,-，"),
)
TELLING = (
    *ASKING,
    Rule("LEFT , while RIGHT", "LEFT ， 而 RIGHT", "while-而 ,-，"),
    Rule("LEFT , or RIGHT", "LEFT ， 或者 RIGHT", "or-或者 ,-，"),
    Rule("LEFT , yet RIGHT", "LEFT ， 不过 RIGHT", "yet-不过 ,-，"),
)


def sentence(random: Random, clauses: int) -> Phrase:
    """A sentence of this many clauses, not counting relative ones and those that are said, thought or known."""
    grammar = Grammar(random)
    asked = grammar.draw.chance(0.15)
    phrase = _question(grammar) if asked else None
    ...


def fragment(random: Random) -> Phrase:
    """Someone or something, as in the title of a picture."""
    grammar = Grammar(random)
    plural = grammar.draw.chance(0.4)
    return grammar.draw.any((grammar.someone, grammar.thing))(plural, 0.3)
