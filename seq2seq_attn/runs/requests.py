"""What is asked of translations, in text; and the rules in token ids that a search keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.rules import CorpusRules, LineRules, SearchRules


class Line(NamedTuple):
    """A line to translate, with what is asked of its translation."""

    source: str
    prefix: str = ""  # with which the translation begins

    @classmethod
    def of(cls, given: str | Line) -> Line:
        """The line itself; text is a line of which nothing is asked."""
        return given if isinstance(given, Line) else cls(given)


def lines_of(sources: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[str | Line]:
    """Each source with what is asked of it.

    UserError: there are more or fewer prefixes than sources.
    """
    if prefixes is None:
        yield from sources
        return
    for number, (source, prefix) in enumerate(zip_longest(sources, prefixes), start=1):
        if source is None or prefix is None:
            short, long = ("sentences", "prefixes") if source is None else ("prefixes", "sentences")
            raise UserError(
                f"{number - 1} {short}, and more {long}; give one prefix for every sentence, blank for none"
            )
        yield Line(source, prefix)


def rules_of(target: Codec, lines: Sequence[Line], options: SearchOptions, first_line: int = 1) -> CorpusRules | None:
    """The rules for the translations of these lines; None if there are none.

    UserError: a prefix is longer than a translation may be, with the number of its line, counted from `first_line`; or
    a phrase of `options.avoid` is blank.
    """
    if not (any(line.prefix for line in lines) or options.has_rules):
        return None
    rules = [LineRules(target.encode(line.prefix)[:-1]) for line in lines]
    for number, rule in enumerate(rules, first_line):
        if len(rule.prefix) >= options.max_length:
            raise UserError(
                f"line {number}: a prefix of {len(rule.prefix)} tokens, and max_length={options.max_length} counts "
                f"`</s>` as well; shorten it, or raise max_length"
            )
    return CorpusRules(rules, SearchRules(_avoided(target, options.avoid), options.no_repeat_ngram))


def _avoided(target: Codec, phrases: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The token sequences that spell a phrase."""
    for phrase in phrases:
        if not phrase.strip():
            raise UserError(f"avoid: {phrase!r} is blank; give a word or a phrase")
    return tuple(tuple(ids) for phrase in phrases for ids in target.spellings(phrase))
