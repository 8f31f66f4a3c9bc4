"""What is asked of outputs, in text; and the rules in token ids that a search keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import refuse_no_text
from seq2seq_attn.corpora.vocabulary import SPECIALS, UNK
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import iterate_lines
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.rules import CorpusRules, LineRules, SearchRules


class SourceLine(NamedTuple):
    """A source, with what is asked of its output."""

    source: str
    prefix: str = ""  # with which the output begins
    constraints: tuple[str, ...] = ()  # words and phrases that it contains, each as often as it is given
    terms: tuple[tuple[str, str], ...] = ()  # what a glossary has of the source, and the target of each

    @classmethod
    def of(cls, given: str | SourceLine) -> SourceLine:
        """The line itself; text is a line of which nothing is asked."""
        return given if isinstance(given, SourceLine) else cls(given)

    def phrases(self, target: Codec, options: SearchOptions) -> tuple[str, ...]:
        """What the output must contain: the constraints, and the targets of the terms.

        With `options.replace_unknown`, the term of a source word that the model cannot write is left to the replacement
        of `<unk>`.
        """
        left = [
            options.replace_unknown and len(source.split()) == 1 and UNK in target.given(self.source).encode(term)
            for source, term in self.terms
        ]
        return (*self.constraints, *(term for (_, term), is_left in zip(self.terms, left, strict=True) if not is_left))

    def term(self, token: str, word: str) -> str | None:
        """What the glossary has for a token of the source, or within its word; None if it has nothing."""
        known = dict(self.terms)
        return known.get(token) or next((target for _, target in Glossary(known).terms(word)), None)


class Constraint(NamedTuple):
    """A word or phrase that an output was to contain."""

    phrase: str  # as it was asked for
    steps: tuple[int, int] | None  # the first of its tokens and the one after its last; None if it is not there
    by: Literal["constraint", "glossary", "prefix"] = "constraint"  # what asked for it


class Replacement(NamedTuple):
    """An unknown word of an output, and what is shown in its place."""

    step: int  # which predicted `<unk>`
    text: str  # what is shown
    by: Literal["copy", "glossary"] | None  # None: nothing was attended to, so `<unk>` is shown
    position: int | None = None  # of the source token that it attends to most
    source: str | None = None  # this token


class Glossary:
    """Target phrases for source phrases, which are looked for as whole words, the longest first.

    >>> Glossary({"house": "Haus", "White House": "Weißes Haus"}).terms("The White House is no house.")
    (('White House', 'Weißes Haus'), ('house', 'Haus'))
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        for pair in entries.items():
            if not all(isinstance(text, str) and text.strip() for text in pair):
                raise UserError(f"glossary: {pair[1]!r} for {pair[0]!r}: give text on both sides")
        self.entries = dict(entries)
        phrases = sorted(map(re.escape, self.entries), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)" if phrases else "(?!)")

    @classmethod
    def of(cls, given: Mapping[str, str] | Path | str) -> Glossary:
        """Entries as they are, or those of a file. UserError: it is neither."""
        if isinstance(given, Mapping):
            return cls(given)
        if not isinstance(given, Path | str):
            raise UserError(f"glossary = {given!r}: give a mapping from source to target phrases, or a file of them")
        return cls.load(Path(given))

    @classmethod
    def load(cls, path: Path) -> Glossary:
        """A file with a source phrase, a TAB and its target phrase in each line. UserError: a line has another form."""
        entries: dict[str, str] = {}
        for number, line in enumerate(iterate_lines(path), start=1):
            fields = [field.strip() for field in line.split("\t")]
            if not line.strip():
                continue
            if len(fields) != 2 or not all(fields):
                raise UserError(f"{path}:{number}: a source phrase, one TAB and its target phrase, got {line!r}")
            if entries.setdefault(fields[0], fields[1]) != fields[1]:
                raise UserError(f"{path}:{number}: {fields[0]!r} has another target above; leave one of them")
        return cls(entries)

    def terms(self, source: str) -> tuple[tuple[str, str], ...]:
        """What is found in a source, in its order, each with its target phrase."""
        return tuple((found[0], self.entries[found[0]]) for found in self._pattern.finditer(source))


_MISSING = object()  # in place of a value, where another iterable is longer


def lines_of(
    sources: Iterable[str],
    prefixes: Iterable[str] | None = None,
    constraints: Iterable[Sequence[str]] | None = None,
    glossary: Glossary | None = None,
) -> Iterator[SourceLine]:
    """Each source with what is asked of it.

    UserError: there are more or fewer prefixes or constraints than sources.
    """
    asked: dict[str, Iterable[Any]] = {"sentences": sources}
    asked |= {} if prefixes is None else {"prefixes": prefixes}
    asked |= {} if constraints is None else {"constraints": constraints}
    for number, values in enumerate(zip_longest(*asked.values(), fillvalue=_MISSING)):
        of = dict(zip(asked, values, strict=True))
        if missing := [name for name, value in of.items() if value is _MISSING]:
            raise UserError(
                f"{number} {missing[0]}, and more of others: give one for every sentence, a blank one for none"
            )
        phrases = of.get("constraints", ())
        if isinstance(phrases, str):
            raise UserError(
                f"constraints of sentence {number}: a list of phrases, got {phrases!r}; write [{phrases!r}]"
            )
        prefix = of.get("prefixes") or ""
        refuse_no_text([of["sentences"]], "sentence", number)
        refuse_no_text([prefix], "prefix", number)
        refuse_no_text(phrases, f"sentence {number}, constraint")
        found = () if glossary is None else glossary.terms(of["sentences"])
        yield SourceLine(of["sentences"], prefix, tuple(phrases), found)


def rules_of(
    target: Codec, lines: Sequence[SourceLine], options: SearchOptions, first_line: int = 1
) -> CorpusRules | None:
    """The rules for the outputs of these lines; None if there are none.

    UserError, with the number of the line, counted from `first_line`: a prefix and constraints are longer than an
    output may be, one of them is unknown to the model, a constraint is blank, or nothing but a beam search can
    meet it; or a phrase of `options.avoid` is blank.
    """
    if not (any(line.prefix or line.constraints or line.terms for line in lines) or options.has_rules):
        return None
    avoided = _avoided(target, options.avoid)
    rules = []
    for number, line in enumerate(lines, first_line):
        codec = target.given(line.source)
        asked = line.phrases(target, options)
        phrases = [_required(codec, phrase, avoided, f"line {number}") for phrase in asked]
        within = [codec.within(phrase) for phrase in asked]
        begun = _begun(codec, line.prefix, f"line {number}")
        rules.append(LineRules(begun, phrases, within if within != phrases else ()))
        if rules[-1].length > options.max_length:
            raise UserError(
                f"line {number}: a prefix of {len(rules[-1].prefix)} tokens and constraints of "
                f"{sum(map(len, phrases))}, and max_length={options.max_length} counts `</s>` as well; raise max_length"
            )
        if phrases and (options.draws or options.beam_size == 1):
            raise UserError(
                f"line {number}: constraints need a beam search; set beam_size to 2 or more, and draw nothing"
            )
    begins_word = None
    if any(rule.phrases for rule in rules):
        begins_word = torch.tensor(target.begins_word)
    return CorpusRules(rules, SearchRules(avoided, options.no_repeat_ngram, begins_word))


def kept(target: Codec, line: SourceLine, options: SearchOptions, tokens: Sequence[int]) -> tuple[Constraint, ...]:
    """Where the tokens of an output, without `</s>`, are what was asked of it, the prefix first."""
    prefix = target.encode(line.prefix)[:-1]
    begun = [Constraint(line.prefix, (0, len(prefix)), "prefix")] if prefix else []
    found = met(target, line.phrases(target, options), tokens)
    asked, terms = found[: len(line.constraints)], found[len(line.constraints) :]
    return (*begun, *asked, *(each._replace(by="glossary") for each in terms))


def met(target: Codec, phrases: Sequence[str], tokens: Sequence[int]) -> tuple[Constraint, ...]:
    """Where the tokens of an output, without `</s>`, are these phrases."""
    used: set[int] = set()
    found = []
    for phrase in phrases:
        places = sorted(
            place
            for ids in (target.encode(phrase)[:-1], target.within(phrase))
            for place in _places(target, ids, tokens)
        )
        place = next((each for each in places if each[0] not in used), None)
        if place is not None:
            used.update(range(*place) if phrases.count(phrase) > 1 else ())
        found.append(Constraint(phrase, place))
    return tuple(found)


def _places(target: Codec, ids: Sequence[int], tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where the tokens have these ids, and a word ends."""
    for end in range(len(ids), len(tokens) + 1):
        if tokens[end - len(ids) : end] == ids and (end == len(tokens) or target.begins_word[tokens[end]]):
            yield end - len(ids), end


def _begun(target: Codec, prefix: str, place: str) -> list[int]:
    """The tokens of a prefix, which may have `<unk>` if it says so itself."""
    if unknown := [each for each in target.unknown_words(prefix) if each != SPECIALS[UNK]]:
        words = " and ".join(map(repr, unknown))
        raise UserError(
            f"{place}: the prefix {prefix!r} has {words}, which this model cannot write; leave it out, or give "
            f"{SPECIALS[UNK]} in its place"
        )
    return target.encode(prefix)[:-1]


def _required(target: Codec, phrase: str, avoided: Iterable[tuple[int, ...]], place: str) -> list[int]:
    """The tokens of a phrase that must appear."""
    ids = target.encode(phrase)[:-1]
    if not ids:
        raise UserError(f"{place}: the constraint {phrase!r} is blank; give a word or a phrase")
    if UNK in ids:
        unknown = " and ".join(map(repr, target.unknown_words(phrase)))
        raise UserError(
            f"{place}: the constraint {phrase!r} has {unknown}, which this model cannot write; leave it out, or "
            "give replace_unknown, by which a glossary replaces words that the model writes as <unk>"
        )
    for other in avoided:
        if any(tuple(ids[start : start + len(other)]) == other for start in range(len(ids))):
            raise UserError(f"{place}: the constraint {phrase!r} is to be avoided as well; leave out one of the two")
    return ids


def _avoided(target: Codec, phrases: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The token sequences that spell a phrase."""
    for phrase in phrases:
        if not phrase.strip():
            raise UserError(f"avoid: {phrase!r} is blank; give a word or a phrase")
        if target.vocabulary.slots and (unknown := target.unknown_words(phrase)):
            raise UserError(
                f"avoid: {phrase!r} has {unknown[0]!r}, which is in no vocabulary but may be copied from a source "
                "(text.copy_slots); leave it out"
            )
        if values := target.placeholders.values(phrase):
            raise UserError(
                f"avoid: {phrase!r} has {min(values)!r}, which text.placeholders takes from the source; leave it out"
            )
    return tuple(tuple(ids) for phrase in phrases for ids in target.spellings(phrase))
