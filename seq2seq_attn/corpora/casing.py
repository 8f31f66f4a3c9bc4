"""The case of a source, given to a translation that has none."""

from __future__ import annotations

import re
from collections.abc import Iterable


def cased_as(source: str, text: str, kept: Iterable[str] = ()) -> str:
    """The text in capitals if the source is, or with its first letter a capital if that of the source is.

    What is in `kept`, such as words that were copied from the source, stays as it is.

    >>> cased_as("Two dogs", "zwei hunde"), cased_as("TWO DOGS", "zwei hunde"), cased_as("two dogs", "zwei hunde")
    ('Zwei hunde', 'ZWEI HUNDE', 'zwei hunde')
    >>> cased_as("SEE", "siehe www.x.de", ["www.x.de"]), cased_as("The iPod", "iPod ist", ["iPod"])
    ('SIEHE www.x.de', 'iPod ist')
    """
    phrases = "|".join(_whole(each) for each in sorted(kept, key=len, reverse=True))
    pattern = re.compile(f"({phrases})" if phrases else "((?!))")
    letters = [each for each in source if each.isupper() or each.islower()]
    if not letters or not letters[0].isupper():
        return text
    parts = pattern.split(text)  # those that are kept have odd indices
    if len(letters) > 1 and all(map(str.isupper, letters)):
        return "".join(part if index % 2 else part.upper() for index, part in enumerate(parts))
    for index, part in enumerate(parts):
        first = next((place for place, each in enumerate(part) if each.isupper() or each.islower()), None)
        if first is not None:
            if index % 2 == 0:
                parts[index] = part[:first] + part[first].title() + part[first + 1 :]
            break
    return "".join(parts)


def _whole(phrase: str) -> str:
    """A pattern for a phrase that is no part of a longer word."""
    before, after = (r"(?<!\w)" if phrase[0].isalnum() else ""), (r"(?!\w)" if phrase[-1].isalnum() else "")
    return f"{before}{re.escape(phrase)}{after}"
