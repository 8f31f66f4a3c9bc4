"""Words that a model does not know: how they are read, marked, counted and reported, and what is near to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from seq2seq_attn.corpora.languages import is_unspaced
from seq2seq_attn.corpora.vocabulary import SPECIALS, UNK, Vocabulary

_LONGEST = 100  # characters of a word that is looked up in other forms, so that no input takes long


def known_forms(word: str, vocabulary: Vocabulary) -> list[str]:
    """The form in which the vocabulary has an unknown word: in lower case, capitalized, without final punctuation.

    Final punctuation becomes words of its own, as in text that is tokenized, where it is known or the rest of the word
    is. In a script without spaces, a word becomes the fewest known ones that it consists of. A word that is known, or
    that has no such form, is returned as it is.

    >>> vocabulary = Vocabulary(["Tom", "'s", "dog", "the", "."])
    >>> known_forms("TOM'S", vocabulary), known_forms("The", vocabulary), known_forms("Dog.", vocabulary)
    (['Tom', "'s"], ['the'], ['dog', '.'])
    >>> known_forms("Tom!", vocabulary), known_forms("cats!", vocabulary), known_forms("cats.", vocabulary)
    (['Tom', '!'], ['cats!'], ['cats', '.'])
    >>> known_forms("懒女孩", Vocabulary(["懒", "女", "女孩"]))
    ['懒', '女孩']
    """
    if word in vocabulary or len(word) > _LONGEST:
        return [word]
    rest, ends = word, list[str]()
    while (known := _in_known_case(rest, vocabulary)) is None:
        rest, end = _split_known_end(rest, vocabulary)
        if end is None:
            return (_split_unspaced(rest, vocabulary) or _split_unknown_end(rest, vocabulary)) + ends
        ends.insert(0, end)
    return [known, *ends]


def _in_known_case(word: str, vocabulary: Vocabulary) -> str | None:
    if word in vocabulary:
        return word
    return next((form for form in (word.lower(), word.capitalize()) if form in vocabulary), None)


def _split_known_end(word: str, vocabulary: Vocabulary) -> tuple[str, str | None]:
    """The word without its shortest end that begins with punctuation and is known, and this end; None if it has none.

    `'s` is such an end.
    """
    for start in range(len(word) - 1, 0, -1):
        if not word[start].isalnum() and (end := _in_known_case(word[start:], vocabulary)) is not None:
            return word[:start], end
    return word, None


def _split_unknown_end(word: str, vocabulary: Vocabulary) -> list[str]:
    """`Tom!` as `Tom` and `!`, although `!` is unknown; the word as it is, if nothing before its end is known."""
    end = re.search(r"[\W_]+$", word)
    known = end and _in_known_case(word[: end.start()], vocabulary)
    return [known, end.group()] if end and known else [word]


def _split_unspaced(word: str, vocabulary: Vocabulary) -> list[str]:
    """The fewest known words that make up this one, the longest first of equals; none if the script has spaces."""
    if not is_unspaced(word):
        return []
    of_end: list[list[str] | None] = [*[None] * len(word), []]  # of what begins at each place
    for start in reversed(range(len(word))):
        splits = (
            [word[start:end], *rest]
            for end in range(len(word), start, -1)
            if (rest := of_end[end]) is not None and word[start:end] in vocabulary
        )
        of_end[start] = min(splits, key=len, default=None)
    return of_end[0] or []


class ReadAs(NamedTuple):
    """A word of a source that is read otherwise than it is written."""

    word: str  # as it is written
    place: int  # of the word in the line, from 0
    tokens: tuple[str, ...]  # as they are read; `<unk>` for one that is not in the vocabulary
    suggestions: tuple[str, ...]  # instead of a word that is unknown, the nearest first


class Spellings:
    """The words of a vocabulary, to be found by the pairs of letters that they share with another word.

    >>> near = Spellings(Vocabulary(["chases", "Jerry", "house", "mouse", "."])).near
    >>> near("chasing"), near("Jery"), near("Mouses"), near("Zaphod")
    (['chases'], ['Jerry'], ['mouse'], [])
    """

    _MOST = 3  # words that are found
    _ALIKE = 0.5  # pairs in common, as a share of those of both words: the coefficient of Dice (1945)

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.words = vocabulary.get_itos()[len(SPECIALS) :]
        pairs = [_pairs(word) for word in self.words]
        self._sizes = [len(each) for each in pairs]
        self._with_pair: dict[str, list[int]] = {}
        for number, each in enumerate(pairs):
            for pair in each:
                self._with_pair.setdefault(pair, []).append(number)

    def near(self, word: str) -> list[str]:
        """Words that are spelled like this one, the nearest first, and of equals the first of the vocabulary."""
        if len(word) > _LONGEST:
            return []
        own = _pairs(word)
        shared = Counter(number for pair in own for number in self._with_pair.get(pair, ()))
        alike = {number: 2 * count / (len(own) + self._sizes[number]) for number, count in shared.items()}
        ranked = sorted(alike, key=lambda number: (-alike[number], number))
        return [self.words[number] for number in ranked if alike[number] >= self._ALIKE][: self._MOST]


def _pairs(word: str) -> set[str]:
    """The pairs of neighboring letters, in lower case, with a blank before and after the word."""
    letters = f" {word.lower()} "
    return {letters[place : place + 2] for place in range(len(letters) - 1)}


def stand_in(word: str) -> str:
    """What a token is called, in a picture or a list, that the model knows as `<unk>` alone.

    >>> stand_in("Zaphod")
    'Zaphod (<unk>)'
    """
    unknown = SPECIALS[UNK]
    return word if word == unknown else f"{word} ({unknown})"


class UnknownCount(NamedTuple):
    """How many words of a text are unknown."""

    unknown: int
    words: int

    @classmethod
    def total(cls, counts: Iterable[tuple[int, int]]) -> UnknownCount:
        """The sums of the unknown words and of the words of each line."""
        found = list(counts)
        return cls(sum(unknown for unknown, _ in found), sum(words for _, words in found))

    @property
    def share(self) -> float:
        """Between 0 and 1; 0 for a text without words."""
        return self.unknown / self.words if self.words else 0.0

    def __str__(self) -> str:
        return f"{self.unknown:,} of {self.words:,} words ({100 * self.share:.2f} %)"


class UnknownWords(NamedTuple):
    """How many words of both sides of a corpus are unknown."""

    source: UnknownCount
    target: UnknownCount

    def __str__(self) -> str:
        return f"{100 * self.source.share:.2f} % of the source and {100 * self.target.share:.2f} % of the target"

    @property
    def shares(self) -> dict[str, float]:
        """As in metrics.json, between 0 and 1."""
        return {"unknown_source_words": self.source.share, "unknown_reference_words": self.target.share}


class UnknownReport:
    """Reports the unknown words of one line after the other: the first lines that have any, then a summary.

    `most` is the number of lines that are reported one by one; None: all, as for lines that are typed.
    """

    _WORDS = 10  # of a line, the others are only counted

    def __init__(self, say: Callable[[str], object], most: int | None = 5) -> None:
        self.say = say
        self.most = most
        self.lines = self.lines_with_unknown = 0
        self.count = UnknownCount(0, 0)
        self.replaced: Counter[str | None] = Counter()  # how the unknown words of outputs are replaced

    def add(self, line: str, unknown: Sequence[str]) -> None:
        """Reports the next line, with its unknown words in their order."""
        words = len(line.split())
        self.lines += 1
        self.count = UnknownCount(self.count.unknown + len(unknown), self.count.words + words)
        if not unknown:
            return
        self.lines_with_unknown += 1
        if self.most is None or self.lines_with_unknown <= self.most:
            rest = len(unknown) - self._WORDS
            listed = ", ".join(unknown[: self._WORDS]) + (f" and {rest:,} more" if rest > 0 else "")
            verb = "is" if len(unknown) == 1 else "are"
            self.say(f"line {self.lines}: {len(unknown):,} of {words:,} words {verb} unknown to this model: {listed}")

    def include(self, other: UnknownReport) -> None:
        """Counts the lines of another report as well, without reporting them one by one."""
        self.lines += other.lines
        self.lines_with_unknown += other.lines_with_unknown
        self.count = UnknownCount.total([self.count, other.count])
        self.replaced.update(other.replaced)

    def add_replaced(self, replaced_by: Iterable[str | None]) -> None:
        """Counts the unknown words of an output by what replaced them: `glossary`, `copy`, or None."""
        self.replaced.update(replaced_by)

    def summarize(self) -> None:
        """Reports the share of unknown words in all lines, if not every line was reported by itself.

        Also reports how many unknown words of outputs were replaced, if any.
        """
        if self.most is not None and self.lines_with_unknown > self.most:
            lines = f"{self.lines_with_unknown:,} of {self.lines:,} lines"
            self.say(f"in all, {self.count} are unknown to this model, in {lines}")
        if written := self.replaced.total():
            done, listed = written - self.replaced[None], self.replaced["glossary"]
            self.say(f"replaced {done:,} of {written:,} unknown words in the outputs, {listed:,} by the glossary")
