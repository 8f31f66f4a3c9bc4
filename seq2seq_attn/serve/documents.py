"""What of a text is translated, sentence by sentence, and what is kept around it: line ends, or the tags of HTML."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Literal, NamedTuple

# Elements whose text is not translated, as by LibreTranslate; so is one with translate="no".
KEPT = frozenset(["address", "applet", "audio", "canvas", "code", "embed", "script", "style", "time", "video"])
# Elements that have no end tag.
VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
# Elements whose text may have references such as &lt;, which newer releases of Python give unescaped, as raw text.
WITH_REFERENCES = frozenset(["textarea", "title"])


class Document(NamedTuple):
    """A text in parts: `kept[0] sentences[0] kept[1] sentences[1] ... kept[-1]`."""

    sentences: list[str]
    kept: list[str]  # one more than sentences
    is_html: bool

    @classmethod
    def of(cls, text: str, form: Literal["text", "html"]) -> Document:
        """The lines of a text, or the texts between the tags of HTML, blank ones left out.

        >>> Document.of("<p>Tom <b>chases</b> Jerry</p>", "html").sentences
        ['Tom', 'chases', 'Jerry']
        """
        if form == "html":
            parser = _Parts()
            parser.feed(text)
            parser.close()
            return cls(parser.sentences, list(map("".join, parser.kept)), is_html=True)
        lines = text.replace("\r\n", "\n").split("\n")
        return cls(lines, ["", *["\n"] * (len(lines) - 1), ""], is_html=False)

    def filled(self, translations: Iterable[str]) -> str:
        """The text with these in place of its sentences. In HTML they are text, never tags."""
        texts = map(_escaped, translations) if self.is_html else translations
        return self.kept[0] + "".join(part for pair in zip(texts, self.kept[1:], strict=True) for part in pair)


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


class _Parts(HTMLParser):
    """Collects the parts of HTML. Whatever its nesting, every tag takes constant time."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sentences: list[str] = []
        self.kept: list[list[str]] = [[]]
        self.open: list[tuple[str, bool]] = []  # elements, and whether their text is kept
        self.names: Counter[str] = Counter()  # of the open elements

    def keep(self, text: str) -> None:
        self.kept[-1].append(text)

    @property
    def is_kept(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.keep(self.get_starttag_text() or "")
        if tag in VOID:
            return
        asked = dict(attrs).get("translate", "inherited")
        self.open.append((tag, asked == "no" or (asked not in ("yes", "", None) and (self.is_kept or tag in KEPT))))
        self.names[tag] += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.keep(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.keep(f"</{tag}>")
        while self.names[tag]:  # elements that were left open within it end, too
            name, _ = self.open.pop()
            self.names[name] -= 1
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        is_raw = self.cdata_elem not in (None, *WITH_REFERENCES)
        if self.is_kept or is_raw:
            self.keep(data if is_raw else _escaped(data))
            return
        for text in data.splitlines(keepends=True) if self.names["pre"] else [data]:
            if not any(map(str.isalnum, text)):
                self.keep(_escaped(text))
                continue
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            self.keep(text[:start])
            self.sentences.append(" ".join(text.split()))
            self.kept.append([text[end:]])

    def handle_comment(self, data: str) -> None:
        self.keep(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.keep(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.keep(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self.keep(f"<![{data}{']' if data.startswith('CDATA[') else ''}]>")
