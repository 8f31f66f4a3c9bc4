"""What lines are to a model: one flat array, in memory or memory-mapped, and its batches of similar length."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import explained, writing

Ids = Sequence[int]
Item = Ids | NDArray[Any]  # of one line: token ids, or an array with one row for each position
UNITS = ("tokens", "sentences")

_Lengths = Sequence[int] | NDArray[np.int64]

# Ratio of the longest to the shortest target of a band. A narrow band has little padding in the target, a wide one in
# the source, because it has more sentences to sort. In batches of 4,096 tokens of Multi30k, 5 % of the source and 3 %
# of the target are padding; with one band per target length it is 7 % and 1 %.
_BAND = 9 / 8


@dataclass(frozen=True, eq=False)
class EncodedLines:
    """Line i is `values[offsets[i] : offsets[i + 1]]`: token ids (N,), or anything with one row for each position."""

    values: NDArray[Any]  # (positions of all lines, ...)
    offsets: NDArray[np.int64]  # (lines + 1,)

    @classmethod
    def of(cls, items: Iterable[Item]) -> EncodedLines:
        """Puts items into one array; lists of token ids become int32.

        Args:
            items: Those of all lines.

        Raises:
            UserError: An item has another shape, beside its length, or another type than the first.
        """
        values, offsets = bytearray(), array("q", [0])
        first: NDArray[Any] = np.empty(0, dtype=np.int32)
        for item in items:
            rows = item if isinstance(item, np.ndarray) else np.array(item, dtype=np.int32)
            if not len(first):
                first = rows
            elif len(rows):
                _require_same_kind(rows, first, f"line {len(offsets)}")
            values += rows.tobytes()
            offsets.append(offsets[-1] + len(rows))
        return cls(np.frombuffer(values, first.dtype).reshape(-1, *first.shape[1:]), np.asarray(offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> NDArray[Any]:
        """The item of a line, which is not copied."""
        return self.values[self.offsets[line] : self.offsets[line + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return map(self.__getitem__, range(len(self)))

    def select(self, lines: NDArray[np.int64]) -> EncodedLines:
        """The lines with these indices, in this order."""
        starts = self.offsets[lines]
        lengths = self.offsets[lines + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        moved = np.repeat(starts - offsets[:-1], lengths)
        return EncodedLines(self.values[np.arange(offsets[-1]) + moved], offsets)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(lines,): positions of each, with the `</s>` of text."""
        return np.diff(self.offsets)

    def lengths_of(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """(N,): positions of each of these lines."""
        return self.offsets[lines + 1] - self.offsets[lines]

    def save(self, folder: Path, side: str) -> None:
        """Writes `SIDE.values.npy` and `SIDE.offsets.npy`."""
        save_joined([self], folder, side)

    @classmethod
    def load(cls, folder: Path, side: str) -> EncodedLines:
        """Memory-maps what `save` wrote, so that processes share it and only the rows in use occupy memory.

        Raises:
            OSError, ValueError: A file is missing or truncated.
        """
        names = "values", "offsets"
        return cls(*(np.asarray(np.load(folder / f"{side}.{name}.npy", mmap_mode="r")) for name in names))


Items = Sequence[Item] | EncodedLines


def _require_same_kind(values: NDArray[Any], first: NDArray[Any], place: str) -> None:
    """UserError: arrays differ in more than their length."""
    if (values.dtype, values.shape[1:]) != (first.dtype, first.shape[1:]):
        found, before = (f"{each.dtype} {each.shape}" for each in (values, first))
        raise UserError(
            f"{place} is an array of {found}, and one before it of {before}; "
            f"all need the same type, and the same shape apart from their length"
        )


def save_joined(parts: Sequence[EncodedLines], folder: Path, side: str) -> None:
    """Writes the lines of these parts, one part after the other, as `EncodedLines.save` would write them together.

    The parts are taken one at a time, and what is memory-mapped is not read into memory as a whole. UserError: they
    have arrays of different kinds.
    """
    like, lines, positions = _joined_kind(parts)
    for name, dtype, shape in (("values", like.dtype, (positions, *like.shape[1:])), ("offsets", "<i8", (lines + 1,))):
        path = folder / f"{side}.{name}.npy"
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        with writing(path) as file, explained(path):
            np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
            for piece in _values(parts) if name == "values" else _offsets(parts):
                file.write(np.ascontiguousarray(piece, dtype).data)


def _joined_kind(parts: Sequence[EncodedLines]) -> tuple[NDArray[Any], int, int]:
    """An empty array of the kind that all parts have, and how many lines and positions they have together."""
    like, lines, positions = np.empty((0, *parts[0].values.shape[1:]), parts[0].values.dtype), 0, 0
    for part in parts:
        if len(part.values) and positions:
            _require_same_kind(part.values, like, "what a line names")
        elif len(part.values):
            like = np.empty((0, *part.values.shape[1:]), part.values.dtype)
        lines, positions = lines + len(part), positions + len(part.values)
    return like, lines, positions


def _values(parts: Sequence[EncodedLines]) -> Iterator[NDArray[Any]]:
    return (part.values for part in parts if len(part.values))


def _offsets(parts: Sequence[EncodedLines]) -> Iterator[NDArray[np.int64]]:
    yield np.zeros(1, np.int64)
    end = 0
    for part in parts:
        yield part.offsets[1:] + end
        end += len(part.values)


def joined_lines(parts: Sequence[EncodedLines]) -> EncodedLines:
    """The lines of these parts, in memory unless there is only one; UserError as for `save_joined`."""
    if len(parts) == 1:
        return parts[0]
    like, _, _ = _joined_kind(parts)
    return EncodedLines(np.concatenate([like, *_values(parts)]), np.concatenate(list(_offsets(parts))))


def padded(items: Items, filler: float = 0) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Pads the items of a batch to the longest of them.

    Args:
        items: B items, of the same type and shape apart from their lengths.
        filler: what the padding is.

    Returns:
        The batch (B, L, ...), and the lengths (B,).

    Raises:
        UserError: An item has no position, so a softmax over it would be NaN.
    """
    lines = items if isinstance(items, EncodedLines) else EncodedLines.of(items)
    lengths = lines.lengths
    if not lengths.all():
        raise UserError(f"sentence {int(lengths.argmin())} is empty; end every sentence with `</s>`")
    is_filled = np.arange(lengths.max(initial=0)) < lengths[:, None]
    batch = np.full((*is_filled.shape, *lines.values.shape[1:]), filler, dtype=lines.values.dtype)
    batch[is_filled] = lines.values
    return batch, lengths


def length_buckets(
    source_lengths: _Lengths,
    target_lengths: _Lengths,
    *,
    size: int,
    unit: str = "tokens",
    seed: int,
    epoch: int = 0,
    window: int = 0,
) -> EncodedLines:
    """The batches of one epoch, or of one window of it, in random order: lines of sentence indices, each in one batch.

    Sentences of similar length share a batch, so there is little padding. With `unit="tokens"`, a batch of N sentences
    has N * longest <= size on both sides, padding included; a sentence longer than that is a batch of its own. With
    `unit="sentences"`, every batch but one has `size` of them. Lengths are those that the model sees, `</s>` included.
    The same seed, epoch and window give the same batches. Raises UserError for a size below 1 or an unknown unit.
    """
    source, target = _checked_lengths(source_lengths, target_lengths, size, unit)
    width = target.max(initial=0) + 1
    kinds, kind = np.unique(source * width + target, return_inverse=True)
    place = np.empty(len(kinds), np.min_scalar_type(len(kinds)))
    place[_order_of_kinds(kinds, width)] = np.arange(len(kinds))
    random = np.random.default_rng((seed, epoch, window))
    # Pairs of equal lengths are shuffled, so batches differ by epoch.
    order = np.lexsort((random.random(len(source)), place[kind]))
    starts = _starts(np.maximum(source, target)[order], size, unit)
    batches = EncodedLines(order, np.append(starts, len(order)))
    return batches.select(random.permutation(len(starts)))


def count_buckets(source_lengths: _Lengths, target_lengths: _Lengths, *, size: int, unit: str = "tokens") -> int:
    """The number of batches that `length_buckets` makes, which lengths alone decide."""
    source, target = _checked_lengths(source_lengths, target_lengths, size, unit)
    width = target.max(initial=0) + 1
    kinds, counts = np.unique(source * width + target, return_counts=True)
    order = _order_of_kinds(kinds, width)
    return len(_starts(np.repeat(np.maximum(*np.divmod(kinds, width))[order], counts[order]), size, unit))


def _checked_lengths(
    source_lengths: _Lengths, target_lengths: _Lengths, size: int, unit: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if size < 1 or unit not in UNITS:
        raise UserError(f"batches of {size} {unit}: the size must be at least 1, the unit one of {', '.join(UNITS)}")
    return np.asarray(source_lengths, dtype=np.int64), np.asarray(target_lengths, dtype=np.int64)


def _order_of_kinds(kinds: NDArray[np.int64], width: int) -> NDArray[np.intp]:
    """The pairs of lengths, source * width + target, in the order of batches. There are far fewer than sentences.

    By bands of target length, within a band by source length, alternately ascending and descending, so that source
    lengths agree where two bands meet.
    """
    source, target = np.divmod(kinds, width)
    _, band = np.unique(np.floor(np.log(target) / np.log(_BAND)), return_inverse=True)
    snake = np.where(band % 2 == 0, source, -source)
    order: NDArray[np.intp] = np.lexsort((target, snake, band))
    return order


def _starts(lengths: NDArray[np.int64], size: int, unit: str) -> NDArray[np.int64]:
    """Where the batches of sentences in this order begin."""
    return np.arange(0, len(lengths), size) if unit == "sentences" else _full_batches(lengths, size)


def _full_batches(lengths: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Where batches of sentences in this order begin, of which each has as many as fit."""
    starts, start = [], 0
    while start < len(lengths):
        starts.append(start)
        most = size // max(1, int(lengths[start])) + 1  # one more than fit, if the others are no longer
        longest = np.maximum.accumulate(lengths[start : start + most])
        start += max(1, int(np.searchsorted(longest * np.arange(1, len(longest) + 1), size, side="right")))
    return np.array(starts, dtype=np.int64)
