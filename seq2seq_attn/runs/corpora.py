"""The data of a run: pairs of lines, the front ends learned from them, and what the lines are to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.config import Config, PairFiles, TestFiles
from seq2seq_attn.corpora.blocks import FrontEnds as FrontEnds
from seq2seq_attn.corpora.blocks import (
    Pair,
)
from seq2seq_attn.corpora.codec import Codec, load_codecs
from seq2seq_attn.corpora.corpus import ParallelCorpus, iterate_parallel, iterate_tsv, joined
from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.front_end import Words, numbered
from seq2seq_attn.corpora.learning import train_codec, train_codecs
from seq2seq_attn.corpora.tables import iterate_dataset, iterate_table
from seq2seq_attn.corpora.text_config import SamplingConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, iterate_gold_of, read_gold_of
from seq2seq_attn.files.nested import mapped
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.runs import Say
from seq2seq_attn.training.guided_alignment import CorpusLinks

SAMPLE_LENGTHS = (5, 7, 10, 14, 18, 24, 32, 50)  # source words


def files_in(folder: Path, data: Any) -> Any:
    """The section `data` of a configuration with all its files in this folder."""
    # All text in it is paths.
    return mapped(data, lambda _, value: str(folder / Path(value).name) if isinstance(value, str) else value)


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
    if config.source is None:
        return str.split
    return config.source.words(line for line, _ in iterate_pairs(config.data.train))


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
    """The front ends of both sides, learned from the training pairs, or from a sample of this many of them.

    UserError: no training would fill the copy slots, or the source cannot be read.
    """
    if config.source is None:
        codec, other = train_codecs(corpus, config.text, pairs)
        known, slots, is_whole = codec.vocabulary, config.text.copy_slots, pairs in (None, len(corpus))
        if slots and is_whole and all(token in known for line in corpus.source for token in codec.pieces(line)):
            raise UserError(
                f"{corpus.name}: text.copy_slots={slots} would never be trained, as the vocabulary has every token of "
                f"these sources; set text.minimum_frequency=2, or a smaller text.vocabulary_size"
            )
        return codec, other
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
