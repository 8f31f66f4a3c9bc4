"""What is computed from the data of a run, kept for all runs on the same data: front ends, and encoded lines."""

from __future__ import annotations

import functools
import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from importlib.metadata import version
from os.path import isfile
from pathlib import Path
from typing import TypeVar

import torch

from seq2seq_attn import corpora, files
from seq2seq_attn.attention import user_code
from seq2seq_attn.config import Config, DataConfig, PairFiles
from seq2seq_attn.corpora import blocks
from seq2seq_attn.corpora.blocks import (
    Block,
    EncodedBlock,
    EncodedBlocks,
    FrontEnds,
    TextLines,
    blocks_of,
    encode_blocks,
)
from seq2seq_attn.corpora.codec import save_front_ends
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.encoded import joined_lines
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import SUMS, has_sums, is_whole, record
from seq2seq_attn.files.lock import LOCK, file_locked
from seq2seq_attn.files.reading import digest
from seq2seq_attn.files.writing import PART, remove_abandoned
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import EncodedCorpus, iterate_pairs, learn_front_ends, load_front_ends, spaced_pairs
from seq2seq_attn.runs.provenance import dataset_digest, packages, sha256_if_there

CACHE_FOLDER = ".tokenized"  # beside the run folders that share it

Digest = Callable[[str], str]  # `digest`, or one that remembers what it has read

_Value = TypeVar("_Value")


class Cache:
    """Results that are slow to compute and depend only on files, kept in a folder for later runs.

    The name of an entry is the digest of everything that its content depends on. An entry is therefore never stale. A
    process that needs an entry which another one is computing waits for it. The checksums are written last; an entry
    that does not match them is recomputed. The folder can be deleted while nothing is being trained. `say` gets a
    warning if an entry cannot be written.
    """

    def __init__(self, folder: Path, say: Say = lambda _: None) -> None:
        self.folder = folder
        self.say = say

    def entry(self, key: str) -> Path:
        """The folder of an entry."""
        return self.folder / hashlib.sha256(key.encode()).hexdigest()

    def get(
        self,
        key: str,
        compute: Callable[[], _Value],
        save: Callable[[_Value, Path], object],
        load: Callable[[Path], _Value],
    ) -> _Value:
        """The entry of `key`, which names everything the value depends on; computed and saved if missing or damaged.

        `save` and `load` get the folder of the entry.
        """
        entry = self.entry(key)
        cached = _load_entry(entry, load)
        if cached is not None:
            return cached
        with self._turn(entry):
            cached = _load_entry(entry, load)  # by the process that had the turn before
            return self._computed(entry, compute, save, load) if cached is None else cached

    @contextmanager
    def _turn(self, entry: Path) -> Iterator[None]:
        """The lock of an entry; a folder that cannot be written needs none."""
        with ExitStack() as turn:
            with suppress(UserError, OSError):
                turn.enter_context(file_locked(entry.with_suffix(LOCK), wait=True))
            yield

    def _computed(
        self,
        entry: Path,
        compute: Callable[[], _Value],
        save: Callable[[_Value, Path], object],
        load: Callable[[Path], _Value],
    ) -> _Value:
        value = compute()
        try:
            (entry / SUMS).unlink(missing_ok=True)  # of a damaged entry
            save(value, entry)
            record(entry, (path.name for path in entry.iterdir() if not fnmatch(path.name, PART)))
        except (UserError, OSError) as error:
            self.say(
                f"warning: {self.folder}: what was computed is not kept, so it is computed again the next time: {error}"
            )
            return value
        cached = _load_entry(entry, load)  # memory-mapped from the files, as in every later run
        return value if cached is None else cached


def _load_entry(entry: Path, load: Callable[[Path], _Value]) -> _Value | None:
    """None if the entry is missing, damaged or not complete, which its manifest is the last to be."""
    remove_abandoned(entry)  # nobody writes to a complete entry again
    try:
        return load(entry) if is_whole(entry) else None
    except (UserError, OSError, ValueError):
        return None


def cached_front_ends(config: Config, cache: Cache, digest_of: Digest = digest) -> FrontEnds:
    """`learn_front_ends` on the training pairs of a configuration, or a sample of them, from the cache if possible."""
    files, source, most = config.data.train, config.source, config.data.learned_from
    learned_from = config.text.model_copy(update={"sampling": None})
    key = f"codecs {_code_version()} {learned_from!r} {most} {files_key(files, digest_of)}"

    def learn() -> FrontEnds:
        sample, pairs = spaced_pairs(files, most)
        if len(sample) < pairs:
            cache.say(
                f"the vocabularies are learned from {len(sample):,} of {pairs:,} pairs (data.learned_from={most})"
            )
        return learn_front_ends(config, sample, pairs)

    if source is not None:
        code = _code_of(source)
        if not code and not type(source).__module__.startswith("seq2seq_attn."):
            return learn()  # code that no key could name
        key += f" {source.model_dump()} {code} {packages()}"
        if not source.is_text:
            key += str([digest_of(line) if isfile(line) else None for line, _ in iterate_pairs(files)])
    return cache.get(
        key,
        compute=learn,
        save=lambda front_ends, entry: save_front_ends(*front_ends, entry),
        load=lambda entry: load_front_ends(entry, config),
    )


def cached_pairs(files: PairFiles, front_ends: FrontEnds, cache: Cache, digest_of: Digest = digest) -> EncodedCorpus:
    """The items of all pairs of these files, from the cache if possible: memory-mapped, blank and long ones included.

    A preparation that was interrupted goes on where it was (`encode_blocks`), with as many processes as torch may use
    threads.
    """
    source, target = front_ends
    named = f"{named_files(files, source, digest_of)} {packages()}" if source.names_files else None
    rules = f"{_code_of(source)} {source.rules()} {target.rules()}"
    key, lines = f"pairs {rules} {named}", _lines_of_block(source)
    return _cached_blocks(key, files, lambda block: block.encode(front_ends), cache, lines, digest_of)


def cached_text(files: PairFiles, cache: Cache, digest_of: Digest = digest) -> ParallelCorpus:
    """The text of all pairs of these files, memory-mapped from the cache."""
    encoded = _cached_blocks("text", files, Block.as_text, cache, blocks.LINES, digest_of)
    return ParallelCorpus(TextLines(encoded.source), TextLines(encoded.target), files.name)


def _cached_blocks(
    key: str,
    files: PairFiles,
    encode: Callable[[Block], EncodedBlock],
    cache: Cache,
    lines: int,
    digest_of: Digest,
) -> EncodedCorpus:
    """The blocks of these files, encoded and joined, in the cache under this key and what is in the files."""
    key = f"{_code_version()} {key} {files_key(files, digest_of)}"
    entry = cache.entry(key)
    folder = entry.with_suffix(".blocks")

    def encoded() -> EncodedBlocks:
        return encode_blocks(_blocks(files, lines), encode, folder, torch.get_num_threads(), lines, cache.say)

    found = cache.get(key, encoded, EncodedBlocks.save, EncodedBlocks.load)
    corpus = EncodedCorpus(joined_lines(found.source), joined_lines(found.target), tuple(map(int, found.sizes)))
    if has_sums(entry):
        shutil.rmtree(folder, ignore_errors=True)
    return corpus


def _lines_of_block(source: FrontEnd) -> int:
    return blocks.NAMED if source.names_files else blocks.LINES


def _blocks(files: PairFiles, lines: int) -> Iterator[Block]:
    for number, one in enumerate(files.each):
        yield from blocks_of(number, one.name, iterate_pairs(one), lines)


def files_key(files: PairFiles, digest_of: Digest = digest) -> str:
    """What the text in these files is: columns, tags and checksums."""
    return " ".join(
        f"{one.columns} {one.tag} {[digest_of(str(path)) for path in one.paths]} {dataset_digest(one) or ''}"
        for one in files.each
    )


def named_files(files: PairFiles, source: FrontEnd, digest_of: Digest = digest) -> str | None:
    """The checksum of all that the source lines of these files name; None for text. UserError: one is missing."""
    if not source.names_files:
        return None
    digests = (digest_of(line) for line, _ in iterate_pairs(files) if line.strip())
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def named_in(data: DataConfig, source: FrontEnd, digest_of: Digest = digest) -> dict[str, str]:
    """`named_files` of each part of the data, by its name, as train; nothing of text."""
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    checksums = {name: named_files(part, source, digest_of) for name, part in parts.items() if part is not None}
    return {name: checksum for name, checksum in checksums.items() if checksum is not None}


def _code_of(part: FrontEnd | FrontEndConfig) -> dict[str, bytes]:
    """A user's file that defines a front end, and what it imports from its folder."""
    path = user_code.file_of(type(part))
    return {} if path is None else user_code.file_sources(path)


@functools.cache
def _code_version() -> str:
    """The version of the code that turns text into ids: `corpora`, and the files that it reads."""
    paths = [path for room in (corpora, files) for path in sorted(Path(str(room.__file__)).parent.glob("*.py"))]
    code = [found for path in paths if (found := sha256_if_there(path))]
    return f"{sys.version} {version('sentencepiece')} {version('sacremoses')} {code}"
