"""Word alignments of sentence pairs: from the attention weights of a model, or by a statistical aligner.

Weights come from forced decoding: the model predicts a given target. The statistical aligner is the baseline that
attention is compared with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from torch import Tensor

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS, TokenAttention, forced_attention
from seq2seq_attn.corpora.codec import Codec, load_codecs
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, Links, agreement, read_gold
from seq2seq_attn.evaluation.attention_weights import (
    CrossAttention,
    HeadMeasures,
    Words,
    links_of,
    measure_heads,
)
from seq2seq_attn.options import AlignmentRow
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import read_pairs
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import Progress

CHUNK = 512  # pairs whose weights are in memory at once; enough for batches of similar lengths
HEADS_CHUNK = 64  # the same, where those of every layer and head are


def token_attention(model: TrainedModel, source: str, target: str, layers: Iterable[Tensor]) -> CrossAttention:
    """The weights (H, T, S) of layers between the tokens of a pair and, by its `words`, between its words.

    Words are separated by white space. Some may have no token: sentencepiece drops characters.
    """
    arrays: Any = tuple(layer.numpy() for layer in layers)
    targets, states = arrays[0].shape[1:]
    of_source, of_target = model.source_words(source, states), model.target.given(source).word_indices(target)
    return CrossAttention(
        model.source_labels(source, states, is_cut=False),
        tuple(model.target.given(source).labels(target)),
        arrays,
        Words(tuple(model.source.words(source)), (*of_source, *[None] * (states - len(of_source)))),
        Words(tuple(target.split()), (*of_target, *[None] * (targets - len(of_target)))),
    )


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
    """The links of each pair, by `links_of`; none for a pair with a blank side.

    The weights are the mean over layers and heads, or those of `layer` and `head` alone. `write` is
    called with the attention between the tokens of each pair, in the order of the pairs.
    """
    found: list[Links] = []
    for sources, targets in _chunks(pairs, CHUNK if layer is None else HEADS_CHUNK):
        all_forced = model.force(sources, targets, progress)
        layers: list[tuple[Tensor, ...] | None]
        if layer is None:
            layers = [forced and (forced.weights[None],) for forced in all_forced]
        else:
            layers = [heads and heads.cross for heads in model.head_weights(sources, targets)]
        for source, target, forced, each in zip(sources, targets, all_forced, layers, strict=True):
            attention = None if each is None else token_attention(model, source, target, each)
            if attention is not None and layer is not None:
                attention = attention.head(layer, head)
            if write is not None:
                write(forced_attention(attention, forced))
            found.append(frozenset() if attention is None else links_of(attention.words(row).weights, threshold))
    return found


def _chunks(pairs: ParallelCorpus, size: int) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for first in range(0, len(pairs), size):
        yield pairs.source[first : first + size], pairs.target[first : first + size]


def agreement_by_head(
    model: TrainedModel,
    pairs: ParallelCorpus,
    gold: GoldCorpus,
    *,
    threshold: float | None = None,
    row: AlignmentRow = "predicted",
    progress: Progress | None = None,
) -> list[HeadMeasures]:
    """Measures every layer and head by the links that `align_by_attention` gives for its weights.

    UserError: as for `agreement`, the model has no attention weights, or every pair has a blank side.
    """
    agreement([frozenset()] * len(pairs), *gold)  # raises the errors before the model is run
    if not model.fused.attends:
        raise UserError(NO_WEIGHTS)

    def between_words() -> Iterator[CrossAttention | None]:
        for chunk in _chunks(pairs, HEADS_CHUNK):
            for source, target, heads in zip(*chunk, model.head_weights(*chunk, progress), strict=True):
                yield heads and token_attention(model, source, target, heads.cross).words(row)

    return measure_heads(between_words(), gold, threshold=threshold)


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

    UserError: eflomal is not installed or fails, the source of the run is not plain text, or the training pairs are not
    where its configuration names them.
    """
    program = eflomal_program()
    if program is None:
        raise UserError("there is no program eflomal-align; install it: pip install 'seq2seq_attn[align]'")
    config = read_config(run)
    if config.source is not None:
        raise UserError(f"{run}: eflomal aligns words of plain text, not a source of the kind {config.source.kind}")
    training = read_pairs(config.data.train)
    source, target = load_codecs(run)
    say(f"eflomal learns from {len(training):,} training pairs and the {len(pairs):,} to align; this may take minutes")
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = [program]
        sources, targets = [*pairs.source, *training.source], [*pairs.target, *training.target]
        given = map(target.given, sources)
        for option, codecs, lines in (("--source", repeat(source), sources), ("--target", given, targets)):
            text = folder / option
            pieces = (f"{_piece_line(codec, line)}\n" for codec, line in zip(codecs, lines, strict=False))
            text.write_text("".join(pieces), encoding="utf-8", newline="\n")
            command += [option, str(text)]
        links = folder / "forward", folder / "backward"
        command += ["--forward-links", str(links[0]), "--reverse-links", str(links[1])]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise UserError(f"{program} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        found = (read_gold(file, len(pairs) + len(training)).sure for file in links)
        return BidirectionalLinks(*(_word_links(each[: len(pairs)], pairs, source, target) for each in found))


def _piece_line(codec: Codec, line: str) -> str:
    """The pieces of a line, separated by blanks; eflomal splits at any other white space, so it is replaced."""
    return " ".join(re.sub(r"\s", "▁", piece) for piece in codec.pieces(line))


def _word_links(links: list[Links], pairs: ParallelCorpus, source: Codec, target: Codec) -> list[Links]:
    """Links between words from links between pieces."""
    found: list[Links] = []
    for piece_links, left, right in zip(links, pairs.source, pairs.target, strict=True):
        sources, targets = source.word_indices(left), target.given(left).word_indices(right)
        found.append(frozenset((sources[i], targets[j]) for i, j in piece_links))
    return found
