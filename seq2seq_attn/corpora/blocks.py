"""A corpus in blocks of lines: encoded by several processes, kept as they get ready, and joined in the end.

A block that was written is not encoded again, so a preparation that was killed continues with those that are missing.
No process has more than a few blocks in memory.
"""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.encoded import EncodedLines, save_joined
from seq2seq_attn.corpora.front_end import FrontEnd, numbered
from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.files.checksums import SUMS, has_sums, is_whole, record
from seq2seq_attn.files.parent import end_with_parent
from seq2seq_attn.files.writing import explained, writing

LINES = 100_000  # of a block
NAMED = 100  # of a block, where each line names a recording or an image

SIDES = "source", "target"

FrontEnds = tuple[FrontEnd, Codec]  # source and target; the same object twice if they share one vocabulary
Pair = tuple[str, str]


class Block(NamedTuple):
    """Neighboring pairs of a corpus."""

    corpus: int  # its number among several
    name: str  # of the corpus, for messages
    first: int  # the number of the first line, from 1
    source: list[str]
    target: list[str]

    def encode(self, front_ends: FrontEnds) -> EncodedBlock:
        """The items of these pairs. UserError, with the number of the line: what a line names cannot be read."""
        source, target = front_ends
        read = numbered(source.items(self.source), f"{self.name}, ", self.first)
        written = target.items(self.target, self.source)
        return EncodedBlock(EncodedLines.of(read), EncodedLines.of(written))

    def as_text(self) -> EncodedBlock:
        """The lines themselves, in UTF-8."""
        sides = (EncodedLines.of(np.frombuffer(line.encode(), np.uint8) for line in side) for side in self[3:])
        return EncodedBlock(*sides)


class TextLines(Sequence[str]):
    """Lines whose text is not in memory until it is read."""

    def __init__(self, lines: EncodedLines) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, line: int) -> str: ...

    @overload
    def __getitem__(self, line: slice) -> list[str]: ...

    def __getitem__(self, line: int | slice) -> str | list[str]:
        if isinstance(line, slice):
            return [self[each] for each in range(*line.indices(len(self)))]
        return self.lines[line].tobytes().decode()


class EncodedBlock(NamedTuple):
    """The items of a block."""

    source: EncodedLines
    target: EncodedLines

    def save(self, folder: Path) -> None:
        """Writes its files, and their checksums last."""
        for side, lines in zip(SIDES, self, strict=True):
            lines.save(folder, side)
        record(folder, [path.name for path in folder.glob("*.npy")])


class EncodedBlocks(NamedTuple):
    """The items of one corpus or several, block by block; as one block, once they are joined in files."""

    source: Sequence[EncodedLines]
    target: Sequence[EncodedLines]
    sizes: NDArray[np.int64]  # the pairs of each corpus

    @classmethod
    def of(
        cls, source: Sequence[EncodedLines], target: Sequence[EncodedLines], corpora: Sequence[int]
    ) -> EncodedBlocks:
        """From the blocks, each of which is of one of the `corpora`."""
        return cls(source, target, np.bincount(corpora, [len(lines) for lines in source]).astype(np.int64))

    @classmethod
    def in_memory(cls, blocks: Iterable[Block], encode: Callable[[Block], EncodedBlock]) -> EncodedBlocks:
        """The blocks encoded here and now."""
        return cls.of(*zip(*((*encode(block), block.corpus) for block in blocks), strict=True))

    def save(self, folder: Path) -> None:
        """Writes all blocks as one."""
        save_joined(self.source, folder, "source")
        save_joined(self.target, folder, "target")
        with writing(folder / "sizes.npy") as file, explained(folder):
            np.save(file, self.sizes)

    @classmethod
    def load(cls, folder: Path) -> EncodedBlocks:
        """The one block of a folder, memory-mapped."""
        source, target = (EncodedLines.load(folder, side) for side in SIDES)
        return cls([source], [target], np.load(folder / "sizes.npy"))


class _Stored(Sequence[EncodedLines]):
    """One side of the blocks in a folder. Each is memory-mapped while it is in use: a process may open few files."""

    def __init__(self, folder: Path, side: str, count: int) -> None:
        self.folder, self.side, self.blocks = folder, side, count

    def __len__(self) -> int:
        return self.blocks

    @overload
    def __getitem__(self, number: int) -> EncodedLines: ...

    @overload
    def __getitem__(self, number: slice) -> list[EncodedLines]: ...

    def __getitem__(self, number: int | slice) -> EncodedLines | list[EncodedLines]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(self.blocks))]
        if number >= self.blocks:
            raise IndexError(number)
        return EncodedLines.load(_place(self.folder, number), self.side)


def blocks_of(corpus: int, name: str, pairs: Iterable[Pair], lines: int) -> Iterator[Block]:
    """The pairs of a corpus in blocks of this many lines."""
    pairs, first = iter(pairs), 1
    while some := list(islice(pairs, lines)):
        yield Block(corpus, name, first, [source for source, _ in some], [target for _, target in some])
        first += len(some)


def encode_blocks(
    blocks: Iterable[Block],
    encode: Callable[[Block], EncodedBlock],
    folder: Path,
    processes: int,
    in_memory: int,
    say: Callable[[str], object] = lambda _: None,
) -> EncodedBlocks:
    """The items of all blocks, in their order.

    If they have no more than `in_memory` lines together, they are encoded here, and stay in memory. Else each is
    written to a folder of its own in `folder`, by one of `processes`; what is there from an earlier call on the same
    blocks is used. If there cannot be a `folder`, they stay in memory, too.

    Raises:
        UserError: A line cannot be read or encoded; then nothing is left in `folder`.
        FailedError: A process was killed, or the disk is full; what is whole is kept.
    """
    head: list[Block] = []
    waiting = iter(blocks)
    while sum(len(block.source) for block in head) <= in_memory:
        if (block := next(waiting, None)) is None:
            return EncodedBlocks.in_memory(head, encode)
        head.append(block)
    waiting = chain(head, waiting)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return EncodedBlocks.in_memory(waiting, encode)
    kept = sum(has_sums(each) for each in folder.iterdir())
    say(
        f"encoding a corpus in blocks, once, with {processes} process{'es' if processes > 1 else ''}"
        + (f"; {kept:,} blocks are there already" if kept else "")
    )
    try:
        corpora = list(_written(waiting, encode, folder, processes))
    except UserError as error:
        if not isinstance(error, FailedError):
            shutil.rmtree(folder, ignore_errors=True)  # other text is another corpus
        raise
    for number in range(len(corpora)):
        if not is_whole(_place(folder, number)):
            raise FailedError(f"{_place(folder, number)}: damaged while others were written; run it again")
    source, target = (_Stored(folder, side, len(corpora)) for side in SIDES)
    return EncodedBlocks.of(source, target, corpora)


def _written(
    blocks: Iterable[Block], encode: Callable[[Block], EncodedBlock], folder: Path, processes: int
) -> Iterator[int]:
    """Yields the corpus of each block; when it ends, all of them are in the folder."""
    running: deque[Future[None]] = deque()
    with _pool(encode, processes) as pool:
        for number, block in enumerate(blocks):
            place = _place(folder, number)
            if not is_whole(place):
                (place / SUMS).unlink(missing_ok=True)
                if pool is None:
                    _write(encode(block), place)
                else:
                    running.append(pool.submit(_encode_to, place, block))
            while len(running) > 2 * processes:  # the text of the others is not read yet
                running.popleft().result()
            yield block.corpus
        while running:
            running.popleft().result()


def _write(block: EncodedBlock, place: Path) -> None:
    try:
        block.save(place)
    except (UserError, OSError) as error:
        raise FailedError(f"{error}; run it again, which continues with the blocks that are missing") from None


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number:06}"


_given: list[Callable[[Block], EncodedBlock]] = []  # in a process of a pool


def _encode_to(folder: Path, block: Block) -> None:
    _write(_given[0](block), folder)


@contextmanager
def _pool(encode: Callable[[Block], EncodedBlock], processes: int) -> Iterator[Executor | None]:
    """Processes that have what encodes; None where one is enough, or where processes cannot be copies of this one.

    Copies need no import, and neither that front ends can be pickled, nor that a user's script guards its main part.
    """
    if processes < 2 or not sys.platform.startswith("linux"):
        yield None
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _begin, (encode,))
    try:
        yield pool
    except BrokenProcessPool:
        raise FailedError(
            "a process that encoded the corpus was killed, as the system does when memory runs out; run it again, "
            "which continues with the blocks that are missing, or with fewer threads (OMP_NUM_THREADS=1)"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(encode: Callable[[Block], EncodedBlock]) -> None:
    """In a new process, which ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which has it too, ends its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    _given.append(encode)
