"""How long the lines may be that a model reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.encoded import Item
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.encoder import lowest
from seq2seq_attn.runs import Say


@dataclass(frozen=True)
class Limits:
    """How long sources and targets may be: a search cuts a source that is longer, all else refuses it."""

    config: Config
    source: FrontEnd
    target: Codec
    models: tuple[ModelConfig, ...]  # several: those of an ensemble

    @cached_property
    def max_positions(self) -> tuple[int | None, int | None]:
        """The longest source and target that the tables of positions allow, `</s>` included; None: any length."""
        sources, targets = zip(*[each.max_positions for each in self.models], strict=True)
        return lowest(*sources), lowest(*targets)

    @cached_property
    def longest_source(self) -> int:
        """The number of positions after which a source is cut, `</s>` not counted."""
        source, _ = self.max_positions
        limit = self.config.data.max_length
        return limit if source is None else min(limit, source - 1)

    def cut(self, item: Any) -> Any:
        """An item with its first `longest_source` positions, and `</s>`."""
        return self.source.cut(item, self.longest_source)

    def cut_all(self, sentences: list[Item], first_line: int, warn: Say) -> list[Item]:
        """The sentences with at most `longest_source` positions each; one warning for all that are cut."""
        limit = self.longest_source
        all_lengths = enumerate(map(self.source.length, sentences), first_line)
        lengths = {line: length for line, length in all_lengths if length > limit}
        if lengths:
            line, length = next(iter(lengths.items()))
            more = "" if len(lengths) == 1 else f"; so are {len(lengths) - 1:,} more of these {len(sentences):,} lines"
            named = self.config.source
            unit = "tokens" if named is None or named.is_text else named.unit
            reason = (
                f"data.max_length={limit}"
                if limit == self.config.data.max_length
                else f"{limit}, as another model must"
            )
            warn(f"line {line}: {length} {unit}, cut to {reason}{more}")
        return [self.cut(item) for item in sentences]

    def require_short(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """UserError if a side of a pair has more tokens than the longest sentence that this model translates or writes.

        Attention weights take memory, and a recurrent decoder time, for every pair of tokens.
        """
        limit = max(self.config.data.max_length, self.config.search.max_length)
        self.require_positions(sources, targets)
        reason = "the larger of data.max_length and search.max_length of its run"
        self._refuse_longer((limit, limit), reason, sources, targets)

    def require_positions(self, sources: Sequence[str], targets: Sequence[str], place: str = "") -> None:
        """UserError, which starts with `place`, if a side of a pair does not fit into a table of positions.

        Most models have no such table, and no limit.
        """
        limits = [None if limit is None else limit - 1 for limit in self.max_positions]
        self._refuse_longer(limits, "as many as it has positions for beside `</s>`", sources, targets, place)

    def require_steps(self, steps: int, what: str) -> None:
        """UserError, which starts with `what`, if the decoder's table has fewer positions than `steps`."""
        _, positions = self.max_positions
        if positions is not None and steps > positions:
            raise UserError(f"{what}: {steps:,} tokens, and this model has {positions:,} positions; give fewer")

    def _refuse_longer(
        self, limits: Sequence[int | None], reason: str, sources: Sequence[str], targets: Sequence[str], place: str = ""
    ) -> None:
        """UserError if a line has more tokens, without `</s>`, than the limit of its side."""
        sides = zip(limits, ("source", "target"), (self.source, self.target), (sources, targets), strict=True)
        for limit, side, front_end, lines in sides:
            if limit is None:
                continue
            for number, line in enumerate(lines, start=1):
                # A piece is a character at least, but for one in front of the line and the few characters that
                # sentencepiece expands: most lines of text need no tokenizer.
                may_exceed = line.strip() and (front_end.names_files or len(line) >= limit)
                codec = front_end if side == "source" else front_end.given(sources[number - 1])
                if may_exceed and (length := front_end.length(codec.encode(line))) > limit:
                    raise UserError(
                        f"{place}line {number} of the {side}: {length:,} tokens, and this model reads {limit:,} at "
                        f"most, {reason}; leave the pair out, or split it"
                    )
