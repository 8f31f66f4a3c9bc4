"""HTML as a tree, parsed strictly: elements are closed in order, and ids are unique."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Element:
    def __init__(self, name, attributes):
        self.name, self.attributes, self.parts = name, attributes, []

    def __iter__(self):
        """The element and its descendants."""
        yield self
        for part in self.parts:
            if isinstance(part, Element):
                yield from part

    def all(self, name, cls=None):
        found = [each for each in self if each.name == name]
        return [each for each in found if cls is None or cls in (each.attributes.get("class") or "").split()]

    def one(self, name, cls=None):
        (found,) = self.all(name, cls)
        return found

    def id(self, name):
        (found,) = (each for each in self if each.attributes.get("id") == name)
        return found

    @property
    def text(self):
        return " ".join("".join(p if isinstance(p, str) else f" {p.text} " for p in self.parts).split())


class _Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"<{tag}> has an attribute twice: {attributes}"
        element = Element(tag, dict(attributes))
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].parts.append(Element(tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop().name == tag, f"</{tag}> closes nothing, at {self.getpos()}"

    def handle_data(self, data):
        self.open[-1].parts.append(data)


def parse(text):
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert len(parser.open) == 1, f"<{parser.open[-1].name}> is never closed"
    ids = [each.attributes["id"] for each in parser.root if "id" in each.attributes]
    assert len(set(ids)) == len(ids)
    return parser.root
