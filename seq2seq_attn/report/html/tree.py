"""A beam laid out: a column a token, a row a line of hypotheses, and no two lines cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from seq2seq_attn.results.examples import ArmReading, Found, Step


class Node(NamedTuple):
    """A step in its place, both from 1; `<s>`, before all of them, is at row 1 and column 1."""

    place: int  # of the step in the beam
    step: Step
    row: int
    column: int
    parent_row: int
    rank: int | None  # of the best hypothesis that goes through it, from 1; None: abandoned
    found: Found | None  # the hypothesis that ends here

    @property
    def probability(self) -> float:
        return math.exp(self.step.log_probability)


def layout(reading: ArmReading) -> list[Node]:
    """The best hypothesis is the first row; what leaves a line goes on in the first row below that is free."""
    ranks = _ranks(reading)
    found = {each.last: each for each in reversed(reading.hypotheses)}
    nodes: list[Node] = []
    free: dict[int, int] = {}  # the first row of each column that nothing stands in or above

    def place(first: int, column: int, parent_row: int, is_branch: bool) -> None:
        line = _line(reading.beam, ranks, first)
        columns = range(column, column + len(line))
        row = max(free.get(each, 1) for each in columns)
        row = max(row, parent_row + is_branch)
        free.update((each, row + 1) for each in columns)
        for index, at in enumerate(line):
            above = row if index else parent_row
            nodes.append(Node(at, reading.beam[at], row, column + index, above, ranks.get(at), found.get(at)))
        # From the right: a branch then reaches down past nothing but those that left their line after it.
        for index in reversed(range(len(line) - 1)):
            for sibling in _children(reading.beam, ranks, line[index])[1:]:
                place(sibling, column + index + 1, row, is_branch=True)

    for number, first in enumerate(_children(reading.beam, ranks, None)):
        place(first, 2, 1, is_branch=number > 0)
    return nodes


def _ranks(reading: ArmReading) -> dict[int, int]:
    """The best hypothesis through each step."""
    ranks: dict[int, int] = {}
    for rank, found in enumerate(reading.hypotheses, start=1):
        for at in reading.path(found):
            ranks.setdefault(at, rank)
    return ranks


def _children(beam: Sequence[Step], ranks: dict[int, int], parent: int | None) -> list[int]:
    """Those on the way to a better hypothesis first, then the more probable."""
    steps = [index for index, step in enumerate(beam) if step.parent == parent]
    return sorted(steps, key=lambda index: (ranks.get(index, math.inf), -beam[index].log_probability))


def _line(beam: Sequence[Step], ranks: dict[int, int], first: int) -> list[int]:
    """A step and what goes straight on from it."""
    line = [first]
    while children := _children(beam, ranks, line[-1]):
        line.append(children[0])
    return line
