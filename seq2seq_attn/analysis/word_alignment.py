"""Word alignments of sentence pairs: from the attention weights of a model, or by a statistical aligner.

Weights come from forced decoding: the model predicts a given translation. The statistical aligner is the baseline that
attention is compared with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS, TokenAttention, forced_attention
from seq2seq_attn.corpora.codec import Codec, load_codecs
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Agreement, GoldCorpus, Links, agreement, count_links, read_gold
from seq2seq_attn.evaluation.attention_weights import (
    argmax_links,
    merge_pieces,
    threshold_links,
    word_rows,
)
from seq2seq_attn.models.seq2seq import HeadWeights
from seq2seq_attn.options import AlignmentRow
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import read_pairs
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import Progress
from seq2seq_attn.search.forced import Forced

CHUNK = 512  # pairs whose weights are in memory at once; enough for batches of similar lengths
HEADS_CHUNK = 64  # the same, where those of every layer and head are


class WordAttention(NamedTuple):
    """The attention weights between the words of a sentence pair, while the model predicted the given target."""

    source: list[str]  # words of the line
    target: list[str]
    weights: NDArray[np.float64]  # (target words, source words), without `</s>` on either side

    @property
    def links(self) -> Links:
        """Each target word with the source word of the highest weight; no link where all weights are 0."""
        return argmax_links(self.weights)


def merge_words(
    model: TrainedModel, source: str, target: str, forced: Forced, row: AlignmentRow = "predicted"
) -> WordAttention:
    """The weights between the words of one pair, from those between its tokens; `row` as in `word_rows`.

    The weights of the pieces of a word are summed over the source and averaged over the target (`merge_pieces`).
    """
    return WordAttention(
        model.source.words(source), target.split(), _merged(model, source, target, forced.weights, row)
    )


def _merged(model: TrainedModel, source: str, target: str, tokens: Tensor, row: AlignmentRow) -> NDArray[np.float64]:
    weights: Any = tokens.numpy()
    # Some words may have no pieces: sentencepiece drops characters.
    words = len(target.split()), len(model.source.words(source))
    sources, targets = model.source_words(source, weights.shape[1]), model.target.word_indices(target)
    return merge_pieces(word_rows(weights, row, len(sources)), sources, targets, words)


def align_by_attention(
    model: TrainedModel,
    pairs: ParallelCorpus,
    *,
    threshold: float | None = None,
    row: AlignmentRow = "predicted",
    layer: int | None = None,
    head: int | None = None,
    write: Callable[[TokenAttention], object] | None = None,
    progress: Progress | None = None,
) -> list[Links]:
    """The links of each pair, by argmax or by `threshold_links`; none for a pair with a blank side.

    The weights are the mean over layers and heads, or those of `layer` and `head` alone (`weights_of_head`). `write` is
    called with the attention between the tokens of each pair, in the order of the pairs.
    """
    found: list[Links] = []
    for sources, targets in _chunks(pairs, CHUNK if layer is None else HEADS_CHUNK):
        all_forced = model.force(sources, targets, progress)
        if layer is not None:
            heads = model.head_weights(sources, targets)
            all_forced = [
                forced and each and forced._replace(weights=weights_of_head(each, layer, head))
                for forced, each in zip(all_forced, heads, strict=True)
            ]
        for source, target, forced in zip(sources, targets, all_forced, strict=True):
            if write is not None:
                write(forced_attention(model, source, target, forced))
            if forced is None:
                found.append(frozenset())
                continue
            found.append(_links(merge_words(model, source, target, forced, row).weights, threshold))
    return found


def _chunks(pairs: ParallelCorpus, size: int) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for first in range(0, len(pairs), size):
        yield pairs.source[first : first + size], pairs.target[first : first + size]


def _links(words: NDArray[np.float64], threshold: float | None) -> Links:
    return argmax_links(words) if threshold is None else threshold_links(words, threshold)


def weights_of_head(found: HeadWeights, layer: int, head: int | None = None) -> Tensor:
    """The weights (T, S) of a pair by one head of one layer, both counted from 0, or the mean over the layer's heads.

    UserError: the model has no such layer or head.
    """
    layers = len(found.cross)
    if not 0 <= layer < layers:
        raise UserError(
            f"layer {layer}: this model reads the source in {layers} layers, numbered from 0 to {layers - 1}"
        )
    weights = found.cross[layer]
    if head is None:
        return weights.mean(dim=0)
    if not 0 <= head < len(weights):
        raise UserError(f"head {head}: layer {layer} has {len(weights)} heads, numbered from 0 to {len(weights) - 1}")
    return weights[head]


class HeadAgreement(NamedTuple):
    """How well the links of one head agree with gold links, or those of a mean of heads."""

    layer: int | None  # counted from 0; None: the mean over the layers
    head: int | None  # counted from 0; None: the mean over the heads
    agreement: Agreement


def agreement_by_head(
    model: TrainedModel,
    pairs: ParallelCorpus,
    gold: GoldCorpus,
    *,
    threshold: float | None = None,
    row: AlignmentRow = "predicted",
    progress: Progress | None = None,
) -> list[HeadAgreement]:
    """The agreement of every layer and head: for each layer its heads, then their mean; last, the mean over layers.

    The links are those that `align_by_attention` gives for the weights of a single head, or for the mean. UserError:
    as for `agreement`, the model has no attention weights, or every pair has a blank side.
    """
    agreement([frozenset()] * len(pairs), *gold)  # raises the errors before the model is run
    if not model.fused.attends:
        raise UserError(NO_WEIGHTS)
    counts: dict[tuple[int | None, int | None], NDArray[np.int64]] = {}
    without_links = np.zeros(4, dtype=np.int64)  # counts of the pairs that have no weights
    links_of = zip(gold.sure, gold.possible, strict=True)
    for sources, targets in _chunks(pairs, HEADS_CHUNK):
        for source, target, heads in zip(sources, targets, model.head_weights(sources, targets, progress), strict=True):
            known = next(links_of)
            if heads is None:
                without_links += np.array(count_links(frozenset(), *known))
                continue
            merged = [[_merged(model, source, target, each, row) for each in layer] for layer in heads.cross]
            for key, words in _with_means(merged):
                found = np.array(count_links(_links(words, threshold), *known))
                counts[key] = counts.get(key, 0) + found
    if not counts:
        raise UserError("every pair has a blank side; heads are compared on pairs with text on both sides")
    return [HeadAgreement(*key, Agreement(*(total + without_links).tolist())) for key, total in counts.items()]


def _with_means(
    layers: Sequence[Sequence[NDArray[np.float64]]],
) -> Iterator[tuple[tuple[int | None, int | None], NDArray[np.float64]]]:
    """The matrices by layer and head, with the means, in the order of `agreement_by_head`."""
    means = [np.mean(heads, axis=0) for heads in layers]
    for layer, heads in enumerate(layers):
        for head, weights in enumerate(heads):
            yield (layer, head), weights
        yield (layer, None), means[layer]
    yield (None, None), np.mean(means, axis=0)


class BidirectionalLinks(NamedTuple):
    """The links (source word, target word) of each pair in both directions; none for a pair with a blank side."""

    forward: list[Links]  # at most one link per target word
    backward: list[Links]  # at most one link per source word


def eflomal_program() -> str | None:
    """The path of the program `eflomal-align`: of this environment, or on the PATH; None if it is not installed."""
    scripts = sysconfig.get_path("scripts")  # not on the PATH if the environment is not activated
    return shutil.which("eflomal-align", path=os.pathsep.join((scripts, os.environ.get("PATH", os.defpath))))


def align_by_eflomal(run: Path, pairs: ParallelCorpus, say: Say = lambda _: None) -> BidirectionalLinks:
    """Links between the whitespace-separated words of each pair; two words are linked if any of their pieces are.

    eflomal (Östling & Tiedemann 2016) samples an HMM with fertilities in both directions. It learns from the same text
    as the model of the run: the run's training pairs, cut by the run's tokenizers, and the pairs to align, as an
    unsupervised aligner needs no held-out text. The sampling takes no seed: links vary slightly between calls.

    eflomal is run as a program, not imported: it has another license (GPL-3.0) than this package.

    UserError: eflomal is not installed or fails, or the training pairs are not where the configuration of the run names
    them.
    """
    program = eflomal_program()
    if program is None:
        raise UserError("there is no program eflomal-align; install it: pip install 'seq2seq_attn[align]'")
    training = read_pairs(read_config(run).data.train)
    source, target = load_codecs(run)
    say(f"eflomal learns from {len(training):,} training pairs and the {len(pairs):,} to align; this may take minutes")
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = [program]
        for option, codec, lines in (
            ("--source", source, [*pairs.source, *training.source]),
            ("--target", target, [*pairs.target, *training.target]),
        ):
            text = folder / option
            text.write_text("".join(f"{line}\n" for line in _piece_lines(codec, lines)), encoding="utf-8", newline="\n")
            command += [option, str(text)]
        links = folder / "forward", folder / "backward"
        command += ["--forward-links", str(links[0]), "--reverse-links", str(links[1])]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise UserError(f"{program} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        found = (read_gold(file, len(pairs) + len(training)).sure for file in links)
        return BidirectionalLinks(*(_word_links(each[: len(pairs)], pairs, source, target) for each in found))


def _piece_lines(codec: Codec, lines: Iterable[str]) -> list[str]:
    """The pieces of each line, separated by blanks; eflomal splits at any other white space, so it is replaced."""
    return [" ".join(re.sub(r"\s", "▁", piece) for piece in codec.pieces(line)) for line in lines]


def _word_links(links: list[Links], pairs: ParallelCorpus, source: Codec, target: Codec) -> list[Links]:
    """Links between words from links between pieces."""
    found: list[Links] = []
    for piece_links, left, right in zip(links, pairs.source, pairs.target, strict=True):
        sources, targets = source.word_indices(left), target.word_indices(right)
        found.append(frozenset((sources[i], targets[j]) for i, j in piece_links))
    return found
