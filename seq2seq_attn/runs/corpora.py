"""The data of a run: pairs of lines, the front ends learned from them, and what the lines are to a model.

Runs on the same data share one cache of front ends and encoded lines, which this file also defines.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from importlib.metadata import version
from itertools import tee
from os.path import isfile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq_attn import corpora, files
from seq2seq_attn.attention import user_code
from seq2seq_attn.config import Config, PairFiles, TestFiles
from seq2seq_attn.corpora import blocks
from seq2seq_attn.corpora.blocks import (
    SIDES,
    Block,
    EncodedBlock,
    EncodedBlocks,
    Pair,
    TextLines,
    blocks_of,
    encode_blocks,
)
from seq2seq_attn.corpora.blocks import FrontEnds as FrontEnds
from seq2seq_attn.corpora.codec import Codec, load_codecs, save_front_ends
from seq2seq_attn.corpora.corpus import ParallelCorpus, iterate_parallel, iterate_tsv, joined
from seq2seq_attn.corpora.encoded import EncodedLines, joined_lines, save_joined
from seq2seq_attn.corpora.front_end import FrontEnd, FrontEndConfig, Words, numbered
from seq2seq_attn.corpora.learning import train_codec, train_codecs
from seq2seq_attn.corpora.tables import iterate_dataset, iterate_table
from seq2seq_attn.corpora.text_config import SamplingConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, iterate_gold_of, read_gold_of
from seq2seq_attn.files.checksums import SUMS, damaged, has_sums, record
from seq2seq_attn.files.lock import LOCK, file_locked
from seq2seq_attn.files.reading import digest, read_lines
from seq2seq_attn.files.writing import PART, explained, remove_abandoned, writing
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.provenance import dataset_digest, packages
from seq2seq_attn.training.guided_alignment import CorpusLinks

CACHE_FOLDER = ".tokenized"  # beside the run folders that share it

Digest = Callable[[str], str]  # `digest`, or one that remembers what it has read

_Value = TypeVar("_Value")

SAMPLE_LENGTHS = (5, 7, 10, 14, 18, 24, 32, 50)  # source words


def files_in(folder: Path, data: Any) -> Any:
    """The section `data` of a configuration with all its files in this folder."""
    if isinstance(data, dict):
        return {key: files_in(folder, each) for key, each in data.items()}
    if isinstance(data, list):
        return [files_in(folder, each) for each in data]
    return str(folder / Path(data).name) if isinstance(data, str) else data  # all text in it is paths


def read_pairs(files: PairFiles) -> ParallelCorpus:
    """The sentence pairs in the files of a configuration, with their tags; several corpora one after the other."""
    return joined([ParallelCorpus.of(iterate_pairs(each), each.name) for each in files.each])


def iterate_pairs(files: PairFiles) -> Iterator[Pair]:
    """The same pairs, one after the other, none of which stays in memory."""
    for one in files.each:
        if one.tag is None:
            yield from _untagged(one)
        else:
            yield from (
                (f"{one.tag} {source}" if source.strip() else source, target) for source, target in _untagged(one)
            )


def _untagged(files: PairFiles) -> Iterator[Pair]:
    columns: Any = files.columns  # of the kind that the record requires
    if files.tsv is not None:
        return iterate_tsv(files.tsv, columns)
    if files.table is not None:
        return iterate_table(files.tables, columns)
    if files.dataset is not None:
        return iterate_dataset(files.dataset, files.subset, files.split, columns)
    if files.source is not None and files.target is not None:
        return iterate_parallel(files.sources, files.target)
    raise UserError("a corpus needs either source and target, tsv, table or dataset")


def spaced_pairs(files: PairFiles, most: int) -> tuple[ParallelCorpus, int]:
    """At most this many of the pairs, evenly spaced, and how many there are.

    It is every k-th pair, for the smallest power of two k that leaves no more than `most`.
    """
    kept: list[Pair] = []
    count, step = 0, 1
    for count, pair in enumerate(iterate_pairs(files), start=1):
        if (count - 1) % step == 0 and len(kept) == most:
            kept, step = kept[::2], 2 * step
        if (count - 1) % step == 0:
            kept.append(pair)
    return ParallelCorpus.of(kept, files.name), count


class EncodedCorpus(NamedTuple):
    """The items of all pairs of one corpus or several, blank and long ones included."""

    source: EncodedLines
    target: EncodedLines
    sizes: tuple[int, ...]  # the pairs of each corpus


class TestSet(NamedTuple):
    """Test pairs, with further annotation if the configuration names it."""

    pairs: ParallelCorpus
    source_lengths: list[int]  # words of each source
    lc_tok: list[str] | None  # the references, lowercased, normalized and tokenized
    gold: GoldCorpus | None  # word alignments
    further: Sequence[Sequence[str]] = ()  # further references, blank where one is missing

    @property
    def references(self) -> list[Sequence[str]]:
        """All references, those of the pairs first."""
        return [self.pairs.target, *self.further]


def source_words(config: Config) -> Words:
    """What the words of a source are: what white space separates in text, else what its front end says."""
    return str.split if config.source is None else config.source.words(read_pairs(config.data.train).source)


def read_test(files: TestFiles, words: Words = str.split) -> TestSet:
    """The test set in the files of a configuration; `words` are those of a source, as in `source_words`.

    UserError: the files differ in length, no pair has text, or the gold alignments have no link.
    """
    pairs = read_pairs(files)
    if not pairs.filled:
        raise UserError(f"{pairs.name}: no pair with text on both sides, so nothing to test on; check the files")
    lc_tok = None if files.lc_tok is None else read_lines(files.lc_tok)
    if lc_tok is not None and len(lc_tok) != len(pairs):
        raise UserError(f"{files.lc_tok}: {len(lc_tok)} lines for the {len(pairs)} pairs of {pairs.name}")
    gold = None if files.alignments is None else read_gold_of(files.alignments, pairs.source, pairs.target, words)
    if gold is not None and not any(gold.possible):
        raise UserError(f"{files.alignments}: no link, so nothing to measure an alignment by; check the file")
    further = [read_lines(path) for path in files.references]
    for path, lines in zip(files.references, further, strict=True):
        if len(lines) != len(pairs):
            raise UserError(f"{path}: {len(lines)} lines for the {len(pairs)} pairs of {pairs.name}")
    lengths = numbered((len(words(line)) if line.strip() else 0 for line in pairs.source), f"{pairs.name}, ")
    return TestSet(pairs, list(lengths), lc_tok, gold, further)


def nearest_lines(test_set: TestSet, lengths: Iterable[int]) -> list[int]:
    """The indices of the pairs whose sources have the numbers of words nearest to these, the first of equals.

    Pairs with a blank side do not count: there is nothing to show.
    """
    filled, words = test_set.pairs.filled, test_set.source_lengths
    return sorted({min(filled, key=lambda index: abs(words[index] - wanted)) for wanted in lengths})


def sample_pairs(files: TestFiles | None, say: Say = lambda _: None) -> list[dict[str, Any]]:
    """Pairs of the test set, one near each of SAMPLE_LENGTHS, with their gold links; none where it cannot be read.

    `say` is then called with what is missing: the run was moved away from its data, or is read from another folder.
    """
    if files is None:
        return []
    try:
        test_set = read_test(files)
    except UserError as error:
        say(f"no examples of the test set: {error}")
        return []
    return [
        {
            "source": test_set.pairs.source[i],
            "target": test_set.pairs.target[i],
            "links": None if test_set.gold is None else sorted(test_set.gold.sure[i]),
        }
        for i in sorted(nearest_lines(test_set, SAMPLE_LENGTHS), key=test_set.source_lengths.__getitem__)
    ]


def learn_front_ends(config: Config, corpus: ParallelCorpus, pairs: int | None = None) -> FrontEnds:
    """The front ends of both sides, learned from the training pairs, or from a sample of this many of them."""
    if config.source is None:
        return train_codecs(corpus, config.text, pairs)
    try:
        source = config.source.build(corpus.source)
    except UserError as error:
        raise UserError(f"{corpus.name}, {error}") from None
    return source, train_codec(corpus.target, pairs or len(corpus), config.text, config.text.target_language)


def load_front_ends(folder: Path, config: Config) -> FrontEnds:
    """The front ends of a run. UserError: a file is missing, invalid or damaged."""
    if config.source is not None:
        return config.source.load(folder, "source"), Codec.load(folder, "target")
    return load_codecs(folder)


def encode_pairs(files: PairFiles, front_ends: FrontEnds) -> EncodedCorpus:
    """The items of all pairs of these files, in memory."""
    lines = _lines_of_block(front_ends[0])
    return _Parts.of(EncodedBlocks.of(_blocks(files, lines), lambda block: block.encode(front_ends))).joined()


def _lines_of_block(source: FrontEnd) -> int:
    return blocks.NAMED if source.names_files else blocks.LINES


def _blocks(files: PairFiles, lines: int) -> Iterator[Block]:
    for number, one in enumerate(files.each):
        yield from blocks_of(number, one.name, iterate_pairs(one), lines)


class _Parts(NamedTuple):
    """The blocks of a corpus, or, once they are joined in files, all of it as one part."""

    source: Sequence[EncodedLines]
    target: Sequence[EncodedLines]
    sizes: NDArray[np.int64]  # the pairs of each corpus

    @classmethod
    def of(cls, found: EncodedBlocks) -> _Parts:
        lengths = [len(lines) for lines in found.source]
        return cls(found.source, found.target, np.bincount(found.corpora, lengths).astype(np.int64))

    def joined(self) -> EncodedCorpus:
        return EncodedCorpus(joined_lines(self.source), joined_lines(self.target), tuple(map(int, self.sizes)))

    def save(self, entry: Path) -> None:
        save_joined(self.source, entry, "source")
        save_joined(self.target, entry, "target")
        with writing(entry / "sizes.npy") as file, explained(entry):
            np.save(file, self.sizes)

    @classmethod
    def load(cls, entry: Path) -> _Parts:
        source, target = (EncodedLines.load(entry, side) for side in SIDES)
        return cls([source], [target], np.load(entry / "sizes.npy"))


def linked_tokens(links: Path, files: PairFiles, codecs: FrontEnds) -> CorpusLinks:
    """The sure links in a file between the words of these pairs, as links between tokens; no text stays in memory.

    UserError: as for `iterate_gold_of`.
    """
    source, target = codecs
    pairs, same = tee(iterate_pairs(files))
    words = ((source.word_indices(line), target.given(line).word_indices(other)) for line, other in same)
    return CorpusLinks.between((gold.sure for gold in iterate_gold_of(links, pairs, source.words)), words)


def sampled_pairs(
    pairs: ParallelCorpus,
    encoded: EncodedCorpus,
    front_ends: FrontEnds,
    sampling: SamplingConfig,
    seed: int,
    longest: int,
) -> Callable[[int, int, NDArray[np.int64]], tuple[EncodedLines, EncodedLines]]:
    """A function from an epoch, a window and its lines to the token ids of these pairs.

    They are in a segmentation drawn for this seed, epoch and window. `encoded` are the items in the usual segmentation,
    for a side of which no other is drawn, and for sentences of which one with more than `longest` tokens is drawn.
    """

    def sample(side: int, epoch: int, window: int, rows: NDArray[np.int64]) -> EncodedLines:
        codec, usual = front_ends[side], (encoded.source, encoded.target)[side].select(rows)
        if not isinstance(codec, Codec) or (side == 1 and sampling.sides == "source"):
            return usual
        random = np.random.default_rng((seed, epoch, 1 + side, window))
        chosen = pairs.select(rows.tolist())
        lines, sources = ((chosen.source, None), (chosen.target, chosen.source))[side]
        drawn = codec.sample(lines, sampling.alpha, random, sources)
        return EncodedLines.of(ids if len(ids) - 1 <= longest else usual[row] for row, ids in enumerate(drawn))

    return lambda epoch, window, lines: (sample(0, epoch, window, lines), sample(1, epoch, window, lines))


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
        return load(entry) if has_sums(entry) and not damaged(entry) else None
    except (UserError, OSError, ValueError):
        return None


def cached_front_ends(config: Config, cache: Cache, digest_of: Digest = digest) -> FrontEnds:
    """`learn_front_ends` on the training pairs of a configuration, or a sample of them, from the cache if possible."""
    files, source, most = config.data.train, config.source, config.data.learned_from
    learned_from = config.text.model_copy(update={"sampling": None})
    key = f"codecs {_code_version()} {learned_from!r} {most} {files_key(files)}"

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
    return _cached_blocks(
        f"pairs {rules} {named}", files, lambda block: block.encode(front_ends), cache, _lines_of_block(source)
    )


def cached_text(files: PairFiles, cache: Cache) -> ParallelCorpus:
    """The text of all pairs of these files, memory-mapped from the cache."""
    encoded = _cached_blocks("text", files, Block.as_text, cache, blocks.LINES)
    return ParallelCorpus(TextLines(encoded.source), TextLines(encoded.target), files.name)


def _cached_blocks(
    key: str, files: PairFiles, encode: Callable[[Block], EncodedBlock], cache: Cache, lines: int
) -> EncodedCorpus:
    """The blocks of these files, encoded and joined, in the cache under this key and what is in the files."""
    key = f"{_code_version()} {key} {files_key(files)}"
    entry = cache.entry(key)
    folder = entry.with_suffix(".blocks")

    def encoded() -> _Parts:
        processes = torch.get_num_threads()
        return _Parts.of(encode_blocks(_blocks(files, lines), encode, folder, processes, lines, cache.say))

    corpus = cache.get(key, encoded, _Parts.save, _Parts.load).joined()
    if has_sums(entry):
        shutil.rmtree(folder, ignore_errors=True)
    return corpus


def files_key(files: PairFiles) -> str:
    """What the text in these files is: columns, tags and checksums."""
    return " ".join(
        f"{one.columns} {one.tag} {[digest(path) for path in one.paths]} {dataset_digest(one) or ''}"
        for one in files.each
    )


def named_files(files: PairFiles, source: FrontEnd, digest_of: Digest = digest) -> str | None:
    """The checksum of all that the source lines of these files name; None for text. UserError: one is missing."""
    if not source.names_files:
        return None
    digests = (digest_of(line) for line, _ in iterate_pairs(files) if line.strip())
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _code_of(part: FrontEnd | FrontEndConfig) -> dict[str, bytes]:
    """A user's file that defines a front end, and what it imports from its folder."""
    path = user_code.file_of(type(part))
    return {} if path is None else user_code.file_sources(path)


@functools.cache
def _code_version() -> str:
    """The version of the code that turns text into ids: `corpora`, and the files that it reads."""
    code = [digest(path) for room in (corpora, files) for path in sorted(Path(str(room.__file__)).parent.glob("*.py"))]
    return f"{sys.version} {version('sentencepiece')} {version('sacremoses')} {code}"
