"""A column of the comparison table: one cell an arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len


class Cell(NamedTuple):
    """A cell as it is read, and the unrounded numbers that it shows."""

    value: str
    detail: str = ""  # the second line in the terminal
    numbers: tuple[float, ...] = ()

    @property
    def line(self) -> str:
        """The cell where it has one line."""
        return f"{self.value} {self.detail}".rstrip()


NOTHING = Cell("–")


class Column(NamedTuple):
    """One cell an arm, under a header."""

    header: str
    cells: Sequence[Cell]
    meaning: str = ""  # a line below the table
    optional: bool = False  # left out of the terminal where there is no room; files have them all
    parts: tuple[str, ...] = ("",)  # what each number of a cell is, beside the header

    @property
    def width(self) -> int:
        texts = [self.header, *(text for cell in self.cells for text in (cell.value, cell.detail))]
        return max(cell_len(text) for text in texts)
