"""The attention section of the HTML page: attention on any test sentence, step by step, and beams as trees.

Scores, shares and beams come from examples.json, the weights on other sentences from corpus_attention.json. Results
that are published without these, which are large, have the sentences of attention.json.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.corpora.embedded import glosses
from seq2seq_attn.evaluation.attention_weights import CrossAttention, Words, merge_pieces
from seq2seq_attn.results.attention import AttentionMap, CorpusAttention, CorpusPair, LinkPairs, Segmentation
from seq2seq_attn.results.examples import BeamHypothesis, DecodingStep, DecodingTrace, Example
from seq2seq_attn.results.records import pack
from seq2seq_attn.results.seen import SeenSource

REFERENCE, TARGET = "the reference", "the target"
MEAN = "mean of all heads"
FOG = 0.84  # opacity over a cell without weight
OPACITIES = 50  # levels above 0
Row = Sequence[float]


class BeamNode(NamedTuple):
    """A step of the beam on a grid counted from 1; `<s>`, the root, is at row 1 and column 1."""

    place: int  # index of the step in the beam
    step: DecodingStep
    row: int
    column: int
    parent_row: int
    rank: int | None  # of the best hypothesis through this step, from 1; None: pruned
    hypothesis: BeamHypothesis | None  # the one that ends here

    @property
    def probability(self) -> float:
        return math.exp(self.step.log_probability)


class StepView(NamedTuple):
    """A predicted token, with the attention at its step."""

    token: str
    log_probability: float | None
    weights: Row | None
    scores: Row | None = None
    shares: Row | None = None  # contribution of each source position to the context


class TranslationPath(NamedTuple):
    """A translation as indices into the steps of its view, with the word that each step belongs to."""

    name: str
    steps: Sequence[int]
    words: Sequence[int]
    score: float | None = None


class Shade(NamedTuple):
    """Cells of one opacity as the path of an SVG, in which a cell is one wide and one high."""

    opacity: float
    path: str


class ArmView(NamedTuple):
    """A sentence in one arm; the first path is the reference, and its steps precede those of the beam."""

    arm: str
    source: Sequence[str]  # tokens
    source_words: Sequence[int]  # of each token; `</s>` counts as a word
    steps: Sequence[StepView]
    paths: Sequence[TranslationPath]
    tree: Sequence[BeamNode]
    grid: int = 1  # rows of the cells of a source that is seen

    @property
    def has_weights(self) -> bool:
        return any(step.weights for step in self.steps)

    def along(self, path: TranslationPath) -> list[StepView]:
        """The steps of a translation."""
        return [self.steps[index] for index in path.steps]

    def between_words(self) -> tuple[list[str], list[str], list[list[float]]]:
        """The source words, the words of the reference, and the weights between them (target, source).

        Weights are summed over the pieces of a source word, and averaged over those of a target word.
        """
        path = self.paths[0]
        steps = self.along(path)
        nothing = [0.0] * len(self.source)  # as where monotonic attention has passed the end
        rows: Any = merge_pieces([step.weights or nothing for step in steps], self.source_words, path.words)
        target = _joined([step.token for step in steps], path.words)
        return _joined(self.source, self.source_words), target, rows.round(4).tolist()

    def seen_words(self) -> list[tuple[str, list[Shade]]]:
        """The words of the reference, and how the source is shaded as each is predicted.

        A grid lies in fog, which the largest weight of the step lifts; the cells of a sequence are the darker, the
        larger their weights are among all.
        """
        _, words, weights = self.between_words()
        most = max(map(max, weights)) or 1
        shaded = [
            [FOG * (1 - weight / (max(row) or 1)) for weight in row] if self.grid > 1 else [each / most for each in row]
            for row in weights
        ]
        return [(word, shades(values, self.grid)) for word, values in zip(words, shaded, strict=True)]


class SentenceView(NamedTuple):
    """A sentence pair in all arms that have something to show."""

    line: int | None  # in the test set, from 1; None: not known
    source: str
    reference: str
    gold: LinkPairs | None  # between words
    views: Sequence[ArmView]
    seen: SeenSource | None = None  # of a source that is not text

    @property
    def seen_style(self) -> str:
        """The shape of the picture, and the width of a small one, for the style sheet."""
        assert self.seen is not None
        height, width, *_ = self.seen.shape
        return f"--shape: {width}/{height}; --tile: {min(max(5 * math.sqrt(width / height), 4), 20):.1f}rem"


def views_of_examples(examples: Sequence[Example]) -> list[SentenceView]:
    """All arms, token by token."""
    return [
        SentenceView(
            each.line,
            each.source,
            each.reference,
            each.gold,
            [_view_of_trace(trace) for trace in each.readings],
            each.seen,
        )
        for each in examples
    ]


def views_of_maps(maps: Sequence[AttentionMap]) -> list[SentenceView]:
    """The arms with attention weights, word by word on the reference, for results without examples."""
    sentences: dict[tuple[str, ...], list[AttentionMap]] = {}
    for each in maps:
        sentences.setdefault(each.source, []).append(each)
    return [
        SentenceView(
            None,
            " ".join(source),
            " ".join(arms[0].target),
            next((each.gold for each in arms if each.gold), None),
            [_view_of_map(each) for each in arms],
        )
        for source, arms in sentences.items()
    ]


def view_of_attention(pair: CrossAttention, seen: SeenSource | None = None, grid: int = 1) -> SentenceView:
    """Every head as an arm, after the mean of all; those that are the only one are left out.

    Labels get sentencepiece's mark of words, by which the viewer joins them. The states of a source that is `seen`
    are the cells of a grid with `grid` rows.
    """
    if seen is not None:
        pair = replace(pair, source_words=None)
    sides = [_labels(pair.source, pair.source_words), _labels(pair.target, pair.target_words)]
    (source, source_words, column_of), (target, target_words, row_of) = sides
    path = TranslationPath(TARGET, range(len(target)), target_words)
    views = []
    for name, weights in _matrices(pair):
        steps = [StepView(token, None, row) for token, row in zip(target, weights.round(4).tolist(), strict=True)]
        views.append(ArmView(name, source, source_words, steps, [path], (), grid))
    links = [
        (column_of[i], row_of[j])
        for i, j in sorted(pair.gold.sure if pair.gold else ())
        if i in column_of and j in row_of
    ]
    texts = [
        " ".join(words.texts if words else labels)
        for words, labels in ((pair.source_words, pair.source), (pair.target_words, pair.target))
    ]
    if seen is not None:
        texts[0] = f"{len(source)} states"
    return SentenceView(None, texts[0], texts[1], tuple(links) or None, views, seen)


def _matrices(pair: CrossAttention) -> list[tuple[str, NDArray[Any]]]:
    heads = [len(layer) for layer in pair.layers]
    found = {MEAN: pair.weights}
    for (layer, head), weights in pair.matrices():
        if layer is None or heads == [1] or (head is None and (len(heads) == 1 or heads[layer] == 1)):
            continue
        found[f"layer {layer}, {'mean' if head is None else f'head {head}'}"] = weights
    return list(found.items())


def _labels(labels: Sequence[str], words: Words | None) -> tuple[list[str], list[int], dict[int, int]]:
    """The labels, the word of each with those of no word counted too, and the numbers of the words among these."""
    of = words.of if words else tuple(range(len(labels)))
    numbers: dict[int, int] = {}
    found: list[int] = []
    for word in of:
        following = max(found, default=-1) + 1
        found.append(following if word is None else numbers.setdefault(word, following))
    if len({*found}) == len(labels):
        return list(labels), found, numbers
    marked = []
    for place, (label, word) in enumerate(zip(labels, of, strict=True)):
        is_first = word is not None and (place == 0 or found[place - 1] != found[place])
        marked.append("▁" * is_first + label.lstrip("▁Ġ").removeprefix("##").removesuffix("@@"))
    return marked, found, numbers


def as_data(sentences: Sequence[SentenceView], corpus: CorpusAttention | None) -> dict[str, Any]:
    """The data of the viewer, but for the weights on the corpus; in columns, which compress well.

    serve/frontend/src/report/corpus.ts reads it, as `Packed`.
    A translation that is identical to the reference is written as 0.
    """
    views = {sentence.line or place: _data_of_views(sentence) for place, sentence in enumerate(sentences, start=1)}
    pairs: Sequence[SentenceView | CorpusPair] = sentences if corpus is None else corpus.pairs
    references = [pair.reference for pair in pairs]
    return {
        "lines": list(views) if corpus is None else [pair.line for pair in pairs],
        "sources": [pair.source for pair in pairs],
        "references": references,
        "gold": [pair.gold for pair in pairs],
        "examples": views,
        "seen": {
            key: {
                "positions": seen.positions,
                "shape": seen.shape,
                "seconds": seen.seconds,
                "style": sentence.seen_style,
            }
            for key, sentence in zip(views, sentences, strict=True)
            if (seen := sentence.seen)
        },
        "metric": "" if corpus is None else corpus.metric,
        "arms": {
            name: {
                "translations": [
                    0 if text == reference else text
                    for text, reference in zip(arm.translations, references, strict=True)
                ],
                "scores": arm.scores,
                "segmentation": arm.segmentation,
            }
            for name, arm in (corpus.arms if corpus else {}).items()
        },
        "segmentations": [_data_of_segmentation(each, corpus) for each in corpus.segmentations] if corpus else [],
    }


def packed(data: object) -> str:
    """JSON, by `pack`."""
    return pack(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())


def glosses_of(sentences: Sequence[SentenceView], corpus: CorpusAttention | None) -> dict[str, str]:
    """English glosses for the Chinese words of the embedded corpus, on either side; empty for other text."""
    pairs: Sequence[SentenceView | CorpusPair] = sentences if corpus is None else corpus.pairs
    sides = ([pair.source for pair in pairs], [pair.reference for pair in pairs])
    return next((found for side in sides if (found := glosses(word for line in side for word in line.split()))), {})


def _data_of_views(sentence: SentenceView) -> list[dict[str, Any]]:
    return [
        {
            "arm": view.arm,
            "source": view.source,
            "sourceWords": list(view.source_words),
            "steps": view.steps,  # each step is a list of its fields
            "paths": [path._asdict() | {"steps": list(path.steps), "words": list(path.words)} for path in view.paths],
            "tree": [
                [len(view.paths[0].steps) + node.place, node.row, node.column, node.parent_row, node.rank]
                for node in view.tree
            ],
            "grid": view.grid,
        }
        for view in sentence.views
    ]


def _data_of_segmentation(each: Segmentation, corpus: CorpusAttention) -> dict[str, Any] | None:
    """None if the tokens of every line are its words."""
    lines = {"source": [pair.source for pair in corpus.pairs], "target": [pair.reference for pair in corpus.pairs]}
    sides = {"source": each.source, "target": each.target}
    if all(
        tuple(line.split()) == tokens[:-1]
        for side in sides
        for line, tokens in zip(lines[side], sides[side], strict=True)
    ):
        return None
    words = {"sourceWords": each.source_words, "targetWords": each.target_words}
    return {**sides, **{name: [_with_end(own) for own in every] for name, every in words.items()}}


def _with_end(words: Sequence[int]) -> list[int]:
    """The word indices extended by `</s>`, which is a word of its own."""
    return [*words, max(words, default=-1) + 1]


def _words_of(tokens: Sequence[str]) -> list[int]:
    """The word of each token of a translation: sentencepiece marks the first piece of a word by `▁`."""
    if not any(token.startswith("▁") for token in tokens):
        return list(range(len(tokens)))
    starts = [place == 0 or token.startswith("▁") or token == "</s>" for place, token in enumerate(tokens)]
    return [int(word) - 1 for word in np.cumsum(starts)]


def _joined(tokens: Sequence[str], words: Sequence[int]) -> list[str]:
    """The words, joined from their tokens."""
    texts = [""] * (max(words, default=-1) + 1)
    for token, word in zip(tokens, words, strict=False):
        texts[word] += token.removeprefix("▁")
    return texts


def beam_layout(trace: DecodingTrace) -> list[BeamNode]:
    """Lays out the beam with one token per column and no crossing lines.

    The best hypothesis is in the first row; a branch continues in the first free row below its parent.
    """
    ranks: dict[int, int] = {}  # of the best hypothesis through each step
    for rank, hypothesis in enumerate(trace.hypotheses, start=1):
        for index in trace.path(hypothesis):
            ranks.setdefault(index, rank)
    last_steps = {each.last: each for each in reversed(trace.hypotheses)}
    children: dict[int | None, list[int]] = defaultdict(list)  # those of better hypotheses first, then by probability
    for index in sorted(
        range(len(trace.beam)), key=lambda index: (ranks.get(index, math.inf), -trace.beam[index].log_probability)
    ):
        children[trace.beam[index].parent].append(index)
    nodes: list[BeamNode] = []
    free: dict[int, int] = {}  # the first row of each column from which on all rows are empty

    def place(first: int, column: int, parent_row: int, is_branch: bool) -> None:
        line = [first]  # a step and the chain of first children below it
        while children[line[-1]]:
            line.append(children[line[-1]][0])
        columns = range(column, column + len(line))
        row = max(parent_row + is_branch, *(free.get(each, 1) for each in columns))
        free.update((each, row + 1) for each in columns)
        for offset, index in enumerate(line):
            above = row if offset else parent_row
            step = trace.beam[index]
            nodes.append(BeamNode(index, step, row, column + offset, above, ranks.get(index), last_steps.get(index)))
        # From right to left: a branch that goes down then only passes branches further right.
        for offset in reversed(range(len(line) - 1)):
            for sibling in children[line[offset]][1:]:
                place(sibling, column + offset + 1, row, is_branch=True)

    for number, first in enumerate(children[None]):
        place(first, 2, 1, is_branch=number > 0)
    return nodes


def _view_of_trace(trace: DecodingTrace) -> ArmView:
    before = len(trace.reference)
    paths = [TranslationPath(REFERENCE, range(before), _with_end(trace.target_words))]
    for rank, hypothesis in enumerate(trace.hypotheses, start=1):
        path = trace.path(hypothesis)
        words = _words_of([trace.beam[index].token for index in path])
        paths.append(TranslationPath(f"hypothesis {rank}", [before + index for index in path], words, hypothesis.score))
    steps = [
        StepView(
            step.token,
            step.log_probability,
            step.weights,
            step.scores,
            None if step.weights is None or trace.norms is None else _shares(step.weights, trace.norms),
        )
        for step in (*trace.reference, *trace.beam)
    ]
    positions: Sequence[int] = range(len(trace.source))
    source_words = positions if trace.source_words is None else _with_end(trace.source_words)
    return ArmView(trace.arm, trace.source, source_words, steps, paths, beam_layout(trace), trace.grid)


def shades(values: Sequence[float], grid: int) -> list[Shade]:
    """Opacities of the cells of a grid of this many rows, row by row: a path for each level, without those at 0.

    Neighbors of a row that have the same level are one rectangle. serve/frontend/src/report/source-picture.ts does the
    same.
    """
    levels = np.rint(np.array(values) * OPACITIES).astype(int).reshape(grid, -1)
    paths: dict[int, str] = {}
    for y, row in enumerate(levels):
        starts = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist()]
        for x, end in zip(starts, [*starts[1:], len(row)], strict=True):
            level = int(row[x])
            paths[level] = f"{paths.get(level, '')}M{x} {y}h{end - x}v1h{x - end}z"
    return [Shade(level / OPACITIES, path) for level, path in sorted(paths.items()) if level]


def _view_of_map(each: AttentionMap) -> ArmView:
    steps = [StepView(word, None, row) for word, row in zip(each.target, each.weights, strict=True)]
    path = TranslationPath(REFERENCE, range(len(steps)), range(len(steps)))
    return ArmView(each.arm, each.source, range(len(each.source)), steps, [path], tree=())


def _shares(weights: Row, norms: Row) -> list[float]:
    """a_j |v_j| / Σ_k a_k |v_k| (after Kobayashi et al., 2020: longer vectors contribute more)."""
    lengths = [weight * norm for weight, norm in zip(weights, norms, strict=True)]
    return [round(length / (sum(lengths) or 1), 4) for length in lengths]
