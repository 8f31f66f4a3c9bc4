"""Where a run looked while it was given the references of its test set: two text files in its folder, a line a pair."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.pharaoh import Links, format_links, read_gold
from seq2seq_attn.text.files import read_lines, write_bytes

LINKS, ENTROPIES = "test.links.txt", "test.entropies.txt"


class Reading(NamedTuple):
    """One entry a test pair."""

    links: list[Links]  # each target word with the source word read most; none where nothing was read
    entropies: list[float | None]  # bits, mean over the target tokens; None where nothing was read

    def save(self, folder: Path) -> None:
        """Write both files; links in the Pharaoh format, a blank line where there is nothing."""
        entropies = ("" if entropy is None else f"{entropy:.4f}" for entropy in self.entropies)
        write_bytes(folder / LINKS, "".join(f"{format_links(links)}\n" for links in self.links).encode())
        write_bytes(folder / ENTROPIES, "".join(f"{entropy}\n" for entropy in entropies).encode())

    @classmethod
    def load(cls, folder: Path, pairs: int) -> Reading | None:
        """None for a run that read no single state, or that was tested before there were such files."""
        if not (folder / LINKS).exists() or not (folder / ENTROPIES).exists():
            return None
        links = read_gold(folder / LINKS, pairs).sure
        try:
            entropies = [float(line) if line else None for line in read_lines(folder / ENTROPIES)]
        except ValueError as error:
            raise UserError(f"{folder / ENTROPIES}: {error}; evaluate the run again") from None
        if len(entropies) != pairs:
            raise UserError(f"{folder / ENTROPIES}: {len(entropies)} lines for {pairs} pairs; evaluate the run again")
        return cls(links, entropies) if any(links) else None
