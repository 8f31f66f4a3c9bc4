"""One alignment from those of two directions.

A directed alignment gives each word of one side its links; with that of the other direction it becomes many-to-many.
The intersection I is the more precise, the union U has the better recall (Och & Ney 2003). Between them lie the
heuristics of Koehn et al. 2003, which start from I and add links of U:

    grow-diag              neighbours of a link, the diagonal ones too, that give a word its first link
    grow-diag-final        then all of one direction, then of the other, that give a word its first link
    grow-diag-final-and    the same, if they give both their words the first link

A link that was added counts at once, so the order matters: here it is that of Moses's symal, by target word, then by
source word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.pharaoh import Link, Links

Method = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

# Steps (source, target) from a link to its neighbours, in the order in which symal looks at them.
_BESIDE = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def symmetrise(forward: Links, backward: Links, method: Method = "grow-diag-final-and") -> Links:
    """The links (source word, target word) of one sentence pair, from those of both directions.

    `forward` is the alignment of a source-to-target model, which gives each target word its links; `backward` that of
    the other direction, turned round by `flipped`. UserError: a method that there is not.
    """
    if method not in get_args(Method):
        raise UserError(f"symmetrisation {method!r}: there is {', '.join(get_args(Method))}")
    if method == "union":
        return forward | backward
    alignment = _Alignment(forward & backward)
    if method != "intersection":
        alignment.grow(forward | backward)
    if method in ("grow-diag-final", "grow-diag-final-and"):
        needed = 2 if method == "grow-diag-final-and" else 1
        alignment.add(_in_order(forward), needed)
        alignment.add(_in_order(backward), needed)
    return frozenset(alignment.links)


def flipped(links: Links) -> Links:
    """Every link read the other way."""
    return frozenset((target, source) for source, target in links)


class _Alignment:
    """Links that more are added to, and the words on either side that have one."""

    def __init__(self, links: Links) -> None:
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def add(self, candidates: Iterable[Link], needed: int) -> None:
        """Add, one after another, those that are the first link of at least so many of their two words."""
        for source, target in candidates:
            if (source not in self.sources) + (target not in self.targets) >= needed:
                self.links.add((source, target))
                self.sources.add(source)
                self.targets.add(target)

    def grow(self, union: Links) -> None:
        """Add neighbours of links, and neighbours of these, until none is left that would be added."""
        size = -1
        while size < len(self.links):
            size = len(self.links)
            for source, target in _in_order(union):
                if (source, target) in self.links:
                    beside = ((source + right, target + down) for right, down in _BESIDE)
                    self.add((link for link in beside if link in union), needed=1)


def _in_order(links: Links) -> list[Link]:
    return sorted(links, key=lambda link: (link[1], link[0]))
