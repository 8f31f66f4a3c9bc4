"""The nearest training sentences of a sentence, and the nearest training steps of a step of decoding.

Every training pair is read once by the trained model, under teacher forcing. Its source is the vector

    x = 1/S sum_j h_j,    the mean of the encoder's states h_1 .. h_S,

and its target token i the features t_i from which the model predicts it, which depend on the source and on
y_1 .. y_{i-1} (the keys of Khandelwal et al. 2021, "Nearest neighbor machine translation", sec. 2; a tool for looking
at a model since Strobelt et al. 2018, "Seq2Seq-Vis"). Near is what has a small Euclidean distance.

The vectors are float32 in files of the user's cache folder, written batch by batch and memory-mapped, so that neither
writing nor searching holds them in memory. The search is exact: usearch compares the query with every vector, with the
instructions of this processor and with all threads.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq_attn.analysis.stepwise import continuations, prefix_ids, source_item
from seq2seq_attn.corpora.encoded import EncodedLines, Ids, length_buckets
from seq2seq_attn.corpora.source import Tokens, pad
from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS
from seq2seq_attn.errors import UserError, needing
from seq2seq_attn.files.reading import sha256
from seq2seq_attn.files.writing import created_cache_folder, explained, unfinished_in
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs import MODEL, Say
from seq2seq_attn.runs.cache import Cache, files_key
from seq2seq_attn.runs.corpora import read_pairs
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.provenance import code_digest

MOST = 1_000_000  # vectors of a kind; the training pairs after the first that have as many target tokens are left out
BATCH_TOKENS = 4096

_Vectors = NDArray[np.float32]


class Neighbor(NamedTuple):
    """A training pair that is near, or one of the steps in which the model predicts its target."""

    distance: float  # Euclidean
    line: int  # of the training text, from 1
    source: str  # of this line
    target: str  # of this line
    step: int | None = None  # counted from 0; None: the source was compared
    token: str | None = None  # the target token that follows at this step
    tokens: tuple[str, ...] | None = None  # all of the target, `</s>` last


@torch.inference_mode()
def source_vectors(translator: Seq2Seq, sources: Tokens) -> _Vectors:
    """x of each sentence (B, E): the mean of the encoder's states over its tokens."""
    states, is_state = translator.encoder_states(sources)
    means = (states.float() * is_state[:, :, None]).sum(dim=1) / is_state.sum(dim=1, keepdim=True)
    vectors: _Vectors = means.cpu().numpy()
    return vectors


@torch.inference_mode()
def step_vectors(translator: Seq2Seq, sources: Tokens, targets: Tokens) -> list[_Vectors]:
    """t_1 .. t_T of each target (T, R)."""
    decoded, _ = translator.teach(sources, targets, need_weights=False)
    features = decoded.features.float().cpu()
    return [rows[:length].numpy() for rows, length in zip(features, targets.lengths.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class StateIndex:
    """The vectors of the training pairs of a run, memory-mapped."""

    sources: _Vectors  # (N, E)
    steps: _Vectors  # (M, R): those of the first target, then those of the second, ...
    lines: NDArray[np.int64]  # (N,): from 0
    starts: NDArray[np.int64]  # (N + 1,): the first step of each target
    text: tuple[EncodedLines, EncodedLines]  # sources and targets as bytes of UTF-8

    @classmethod
    def of_run(cls, model: TrainedModel, folder: Path, say: Say = lambda _: None) -> StateIndex:
        """The index of the model in a run folder, computed on first use: about as long as an epoch of training takes.

        UserError: usearch is not installed, the training text is not where the configuration says, or the cache folder
        cannot be written.
        """
        _usearch()
        made_from = [sha256(folder / MODEL), files_key(model.config.data.train), code_digest(), str(MOST)]
        place = created_cache_folder()
        with unfinished_in(place, is_folder=True) as unfinished:
            index = Cache(place / "neighbors", say).get(
                f"neighbors {json.dumps(made_from)}",
                compute=lambda: _compute(model, unfinished, say),
                save=lambda _, entry: _move(unfinished, entry),
                load=cls.load,
            )
            return cls.load(unfinished) if index is None else index  # it could not be moved

    @classmethod
    def load(cls, folder: Path) -> StateIndex:
        """The files in a folder. OSError, ValueError: one is missing or truncated."""
        sources, steps, lines, starts = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("sources", "steps", "lines", "starts")
        )
        text = EncodedLines.load(folder, "source"), EncodedLines.load(folder, "target")
        return cls(sources, steps, lines, starts, text)

    def nearest_sources(self, vector: _Vectors, most: int) -> list[Neighbor]:
        """The pairs whose sources are nearest to a vector (E,), the nearest first."""
        return [self._pair(row, distance) for row, distance in _nearest(self.sources, vector, most)]

    def nearest_steps(self, model: TrainedModel, vector: _Vectors, most: int) -> list[Neighbor]:
        """The steps that are nearest to a vector (R,), the nearest first; `model` is that of the index."""
        found = []
        for row, distance in _nearest(self.steps, vector, most):
            number = int(np.searchsorted(self.starts, row, side="right")) - 1
            pair, step = self._pair(number, distance), row - int(self.starts[number])
            tokens = (*model.target.given(pair.source).pieces(pair.target), SPECIALS[EOS])
            found.append(pair._replace(step=step, token=tokens[step], tokens=tokens))
        return found

    def _pair(self, number: int, distance: float) -> Neighbor:
        source, target = (each[number].tobytes().decode() for each in self.text)
        return Neighbor(distance, int(self.lines[number]) + 1, source, target)


def find_neighbors(
    model: TrainedModel,
    index: StateIndex,
    source: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    step: int | None = None,
    most: int = 10,
    options: SearchOptions | None = None,
) -> list[Neighbor]:
    """The training sources nearest to a source or, with `step`, the steps nearest to that step of its translation.

    `source` is text or a list of tokens. The translation is `target`, which may be either as well, or the one that a
    search with these options finds, in single precision with the whole vocabulary. UserError if the source is blank, a
    token is unknown, the translation has no such step, or `target` is given without a step.
    """
    if most < 1 or (step is not None and step < 0):
        raise UserError(f"most = {most}, step = {step}: give at least 1, and a step of at least 0")
    if step is None and target is not None:
        raise UserError("target: sources are compared without their targets; leave it out, or give a step of it")
    sources = pad([source_item(model, source)], model.device)
    if step is None:
        return index.nearest_sources(source_vectors(model.fused, sources)[0], most)
    if target is None:
        best = continuations(model, source, options=options)[0].tokens
        tokens = model.target.given(source).vocabulary.lookup_indices(token for token in best if token != SPECIALS[EOS])
    else:
        tokens = prefix_ids(model, source, target)
    if step > len(tokens):
        raise UserError(f"step {step}: this target has steps 0 to {len(tokens)}, and the last predicts </s>")
    model.limits.require_steps(step + 1, f"step {step}")
    (rows,) = step_vectors(model.fused, sources, pad([[*tokens[:step], EOS]], model.device))
    return index.nearest_steps(model, rows[step], most)


def _nearest(vectors: _Vectors, query: _Vectors, most: int) -> Iterator[tuple[int, float]]:
    """Rows and distances of the nearest vectors, the nearest first."""
    library, most = _usearch(), min(most, len(vectors))
    found = library.search(vectors, query, most, library.MetricKind.L2sq, exact=True, threads=torch.get_num_threads())
    return zip(found.keys.tolist(), np.sqrt(found.distances).tolist(), strict=True)


def _usearch() -> Any:
    with needing("the search for neighbors"):
        import usearch.index
    return usearch.index


def _compute(model: TrainedModel, folder: Path, say: Say) -> StateIndex | None:
    """Writes the files of an index. Returns None: Windows moves no file that is memory-mapped."""
    pairs, limit = read_pairs(model.config.data.train), model.config.data.max_length + 1
    sources = map(model.text_source("neighbors").encode, pairs.source)
    targets = (model.target.given(line).encode(other) for line, other in zip(pairs.source, pairs.target, strict=True))
    kept: list[tuple[int, Ids, Ids]] = []
    total = 0
    for line, (source, target) in enumerate(zip(sources, targets, strict=True)):
        model.at_step()
        if 1 < len(source) <= limit and 1 < len(target) <= limit:
            total += len(target)
            if total > MOST:
                break
            kept.append((line, source, target))
    if not kept:
        raise UserError(f"{pairs.name}: no training pair to search among")
    say(f"reading {len(kept):,} of {len(pairs):,} training pairs for the search of neighbors, once")
    lines = [line for line, _, _ in kept]
    encoded = EncodedLines.of(each for _, each, _ in kept), EncodedLines.of(each for _, _, each in kept)
    _write_vectors(model, encoded, folder)
    for name, values in (("lines", np.array(lines)), ("starts", encoded[1].offsets)):
        with explained(folder):
            np.save(folder / f"{name}.npy", values)
    for side, text in (("source", pairs.source), ("target", pairs.target)):
        EncodedLines.of(np.frombuffer(text[line].encode(), np.uint8) for line in lines).save(folder, side)
    return None


def _write_vectors(model: TrainedModel, pairs: tuple[EncodedLines, EncodedLines], folder: Path) -> None:
    sources, targets = pairs
    batches = length_buckets(sources.lengths, targets.lengths, size=BATCH_TOKENS, seed=0)
    with explained(folder), (folder / "sources.npy").open("wb") as first, (folder / "steps.npy").open("wb") as second:
        source_rows, step_rows = _Rows(first, len(sources)), _Rows(second, int(targets.offsets[-1]))
        for batch in batches:
            model.at_step()
            read, written = (pad(each.select(batch), model.device) for each in pairs)
            for number, vector in zip(batch.tolist(), source_vectors(model.fused, read), strict=True):
                source_rows.write(number, vector[None])
            for number, vectors in zip(batch.tolist(), step_vectors(model.fused, read, written), strict=True):
                step_rows.write(int(targets.offsets[number]), vectors)


class _Rows:
    """A matrix in a file of NumPy's format, whose rows come in any order.

    Written to as a file: where a disk is full, writing to a memory map kills the process.
    """

    def __init__(self, file: BinaryIO, count: int) -> None:
        self.file, self.count, self.start = file, count, 0

    def write(self, row: int, values: _Vectors) -> None:
        width = values.shape[1]
        if not self.start:
            header = {"descr": "<f4", "fortran_order": False, "shape": (self.count, width)}
            np.lib.format.write_array_header_2_0(self.file, header)  # type: ignore[no-untyped-call]
            self.start = self.file.tell()
        self.file.seek(self.start + 4 * row * width)
        self.file.write(values.astype("<f4").tobytes())


def _move(folder: Path, entry: Path) -> None:
    with explained(entry):
        if entry.exists():  # a damaged one
            shutil.rmtree(entry)
        entry.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(entry)
