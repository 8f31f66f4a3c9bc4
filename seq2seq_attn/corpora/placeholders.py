"""Placeholders: text that a model does not read, such as an address, and that stands in the translation unchanged.

Before a line is tokenized, each match of a pattern is put aside: a numbered symbol stands for it, `⟨url1⟩` for the
first address. Text of the target that the source has as well gets the number that it has there. After decoding, the
symbol in a translation is the text of the source again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

MOST = 9  # of a kind in one sentence; others are ordinary text

PATTERNS = {
    "url": r"(?:https?://|ftp://|www\.)[^\s<>\"'⟨⟩]*[^\s<>\"'⟨⟩.,;:!?()\[\]{}]",
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "number": r"(?<!\w)(?<!\d[.,])\d+(?:[.,]\d+)*(?!\w)",
    "tag": r"</?[A-Za-z][^<>]*>|⟨[^⟨⟩\s]+⟩",
}


class Placed(NamedTuple):
    """A placeholder of a source or of its translation."""

    symbol: str  # that stands for it
    text: str | None  # what it stands for; None: the source has no such text, and the symbol is shown
    in_source: int  # how often
    in_translation: int  # how often


class Placeholders:
    """The kinds of text that are put aside, each by the name of its pattern or as `name=pattern`.

    Where two match the same text, the first one counts.

    >>> Placeholders(["url", "code=[A-Z]{2}-[0-9]+"]).masked("see www.a.de/b, AB-7 and www.a.de/b.")
    'see ⟨url1⟩, ⟨code1⟩ and ⟨url1⟩.'

    Raises:
        ValueError: A name is unknown or given twice, or a pattern is not a regular expression without groups.
    """

    def __init__(self, given: Iterable[str]) -> None:
        self.given = tuple(given)
        patterns: dict[str, str] = {}
        for each in self.given:
            name, _, pattern = each.partition("=")
            if name in patterns:
                raise ValueError(f"{name} is given twice; leave out one of them")
            patterns[name] = _checked(name, pattern or PATTERNS.get(name))
        self.symbols = tuple(f"⟨{name}{number}⟩" for name in patterns for number in range(1, MOST + 1))
        self._symbol = re.compile("|".join(self.symbols) or "(?!)")
        # A symbol that stands in a text is put aside as well, so that it is not taken for what it would stand for.
        kinds = (f"(?P<{name}>⟨{name}[1-{MOST}]⟩|{pattern})" for name, pattern in patterns.items())
        self._pattern = re.compile("|".join(kinds) or "(?!)")

    def values(self, source: str) -> dict[str, str]:
        """The symbol of each text of a source that is put aside."""
        found: dict[str, dict[str, None]] = {}
        for match in self._matches(source):
            found.setdefault(str(match.lastgroup), {})[match[0]] = None
        symbols: dict[str, str] = {}
        for name, texts in found.items():
            ranked = sorted(texts, key=lambda text: not self._symbol.search(text))  # stable: else in their order
            for number, text in enumerate(ranked[:MOST], start=1):
                symbols.setdefault(text, f"⟨{name}{number}⟩")
        return symbols

    def parts(self, line: str, values: Mapping[str, str]) -> Iterator[tuple[int, str]]:
        """The line, of a source or a target, in parts where symbols stand for the `values` of the source.

        Each with the index of its first character in the line.
        """
        end = 0
        for match in self._matches(line):
            if (symbol := values.get(match[0])) is not None:
                yield end, line[end : match.start()]
                yield match.start(), symbol
                end = match.end()
        yield end, line[end:]

    def masked(self, line: str, source: str | None = None) -> str:
        """The line as it is tokenized; for a target, `source` is the line that it translates."""
        return "".join(text for _, text in self.parts(line, self.values(line if source is None else source)))

    def read(self, source: str) -> str:
        """A source without what is put aside."""
        return "".join(text for _, text in list(self.parts(source, self.values(source)))[::2])

    def restored(self, text: str, values: Mapping[str, str]) -> str:
        """The text with the `values` of its source in place of their symbols."""
        texts = {symbol: value for value, symbol in values.items()}
        return self._symbol.sub(lambda match: texts.get(match[0], match[0]), text)

    def placed(self, source: str, tokens: Sequence[str]) -> tuple[Placed, ...]:
        """How often each placeholder is in a source, and in the tokens of its translation."""
        values = self.values(source)
        texts = {symbol: value for value, symbol in values.items()}
        read = [values[match[0]] for match in self._matches(source) if match[0] in values]
        written = [token for token in tokens if token in self.symbols]
        return tuple(
            Placed(symbol, texts.get(symbol), read.count(symbol), written.count(symbol))
            for symbol in dict.fromkeys((*read, *written))
        )

    def _matches(self, line: str) -> Iterator[re.Match[str]]:
        return (match for match in self._pattern.finditer(line) if match[0])


def _checked(name: str, pattern: str | None) -> str:
    """The pattern. ValueError: it cannot be one."""
    if not re.fullmatch("[a-z]+", name):
        raise ValueError(f"{name!r} is not a name of letters a to z, as in code=[A-Z]{{2}}-[0-9]+")
    if pattern is None:
        raise ValueError(f"{name} is not among {', '.join(PATTERNS)}; give a pattern as well, as in {name}=[0-9]+")
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"{name}: {pattern!r} is not a regular expression: {error}") from None
    if groups:
        raise ValueError(f"{name}: {pattern!r} has a group that captures; write (?:...) in its place")
    return pattern


class PlaceholderReport:
    """Counts the placeholders of translations, for one summary."""

    def __init__(self) -> None:
        self.total = self.kept = self.missing = self.repeated = self.without_source = 0

    def add(self, placed: Iterable[Placed]) -> None:
        """Counts those of a translation."""
        for each in placed:
            self.total += each.text is not None
            self.kept += each.text is not None and each.in_source == each.in_translation
            self.missing += each.in_translation < each.in_source
            self.repeated += each.text is not None and each.in_translation > each.in_source
            self.without_source += each.text is None

    def include(self, other: PlaceholderReport) -> None:
        """Counts those of another report as well."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    def __str__(self) -> str:
        return (
            f"placeholders: {self.kept:,} of {self.total:,} as often as in the source, {self.missing:,} missing, "
            f"{self.repeated:,} repeated; {self.without_source:,} that no source has"
        )
