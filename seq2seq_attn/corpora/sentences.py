"""The sentences of a line, by rules: for text in which a line is a paragraph."""

from __future__ import annotations

import functools
import re

from seq2seq_attn.corpora.languages import MOSES

# The end of a sentence: points and what closes after them, then white space or, after full-width points, nothing.
_END = re.compile(r"(?P<points>[.!?…]+)[\"'”’»)\]]*(?P<space>\s+)|[。！？]+[”’」』）]*\s*")
_OPENS = "\"'“‘«„([¿¡"  # what may stand before the first letter of a sentence
_UNSPACED = ("ja", "yue", "zh")  # languages without blanks between sentences


def sentences(line: str, language: str) -> list[str]:
    """The sentences of a line, without white space at their ends; the line itself if it has no end of one within it.

    A sentence ends with `.`, `!`, `?` or `…` before white space and a capital, a digit or a letter without case, and
    with full-width points. It does not end with the point of an abbreviation of the language (the lists of Moses, where
    it has any) or of a single capital.

    >>> sentences("Dr. Smith met J. Doe at 5 p.m. today. Why? No. 5 called! (He did.) ok", "en")
    ['Dr. Smith met J. Doe at 5 p.m. today.', 'Why?', 'No. 5 called!', '(He did.) ok']
    >>> sentences("他 来 了。她 走 了！好", "zh")
    ['他 来 了。', '她 走 了！', '好']
    """
    found, start = [], 0
    for end in _END.finditer(line):
        if end["points"] is None or _is_end(line[start : end.start()], end["points"], line[end.end() :], language):
            found.append(line[start : end.end()].strip())
            start = end.end()
    rest = line[start:].strip()
    return [each for each in (*found, rest) if each] or [line]


def joined(translations: list[str], language: str, *, spaced: bool = False) -> str:
    """The translations of the sentences of a line as one line.

    A blank stands between them, unless the language has none there and its text is not `spaced` into words.
    """
    return ("" if language in _UNSPACED and not spaced else " ").join(filter(None, translations))


def _is_end(before: str, points: str, after: str, language: str) -> bool:
    """Whether a sentence ends between this text, with these points, and what follows."""
    first = after.lstrip(_OPENS)[:1]
    if not first.isalnum() or first.islower():
        return False
    word = before.rpartition(" ")[2].lstrip(_OPENS)
    if points != "." or not word:
        return True
    always, before_digits = _abbreviations(language)
    is_initial = len(word) == 1 and word.isupper()
    return not (is_initial or word in always or (first.isdigit() and word in before_digits))


@functools.cache
def _abbreviations(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words after which a point ends no sentence, in general and before digits."""
    if language not in MOSES:
        return frozenset(), frozenset()
    from sacremoses.corpus import NonbreakingPrefixes

    listed = [line.partition("#") for line in NonbreakingPrefixes().words(language)]
    words = [(word.strip(), mark == "#") for word, mark, _ in listed]
    return frozenset(word for word, numeric in words if not numeric), frozenset(
        word for word, numeric in words if numeric
    )
