"""The attention section of the HTML page: attention weights step by step, and the beam of each sentence as a tree.

The sentences are those of examples.json, or for older results those of attention.json.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seq2seq_attn.results.observations import AttentionMap, BeamHypothesis, DecodingStep, DecodingTrace, Example

REFERENCE = "the reference"
Row = Sequence[float]


class BeamNode(NamedTuple):
    """A step of the beam on a grid counted from 1; `<s>`, the root, is at row 1 and column 1."""

    place: int  # index of the step in the beam
    step: DecodingStep
    row: int
    column: int
    parent_row: int
    rank: int | None  # of the best hypothesis through this step, from 1; None: abandoned
    hypothesis: BeamHypothesis | None  # that ends here

    @property
    def probability(self) -> float:
        return math.exp(self.step.log_probability)


class StepView(NamedTuple):
    """A predicted token, with the attention that predicted it."""

    token: str
    log_probability: float | None
    weights: Row | None
    scores: Row | None = None
    shares: Row | None = None  # what each source position contributes to the context


class TranslationPath(NamedTuple):
    """A translation as indices into the steps of its view."""

    name: str
    steps: Sequence[int]
    score: float | None = None


class ArmView(NamedTuple):
    """A sentence in one arm; the first path is the reference, whose steps precede those of the beam."""

    arm: str
    source: Sequence[str]
    steps: Sequence[StepView]
    paths: Sequence[TranslationPath]
    gold: Sequence[tuple[int, int]]  # (source token, token of the reference)
    tree: Sequence[BeamNode]

    @property
    def has_weights(self) -> bool:
        return any(step.weights for step in self.steps)

    def along(self, path: TranslationPath) -> list[StepView]:
        """The steps of a translation."""
        return [self.steps[index] for index in path.steps]


class SentenceView(NamedTuple):
    """A sentence pair in all arms that have something to show."""

    title: str
    source: str
    reference: str
    views: Sequence[ArmView]


def views_of_examples(examples: Sequence[Example]) -> list[SentenceView]:
    """All arms, token by token."""
    return [
        SentenceView(
            f"Test sentence {example.line}, {len(example.source.split())} words",
            example.source,
            example.reference,
            [_view_of_trace(each, example.gold or ()) for each in example.readings],
        )
        for example in examples
    ]


def views_of_maps(maps: Sequence[AttentionMap]) -> list[SentenceView]:
    """The arms with attention weights, word by word on the reference: all that older results have."""
    sentences: dict[tuple[str, ...], list[AttentionMap]] = {}
    for each in maps:
        sentences.setdefault(each.source, []).append(each)
    return [
        SentenceView(
            f"A test sentence of {len(source)} words",
            " ".join(source),
            " ".join(arms[0].target),
            [_view_of_map(each) for each in arms],
        )
        for source, arms in sentences.items()
    ]


def as_data(sentences: Sequence[SentenceView]) -> list[dict[str, Any]]:
    """The data that script.js reads."""
    return [
        {
            "title": sentence.title,
            "views": [
                {
                    "arm": view.arm,
                    "source": view.source,
                    "steps": view.steps,  # each a list of its fields in their order
                    "paths": [path._asdict() | {"steps": list(path.steps)} for path in view.paths],
                    "gold": view.gold,
                }
                for view in sentence.views
            ],
        }
        for sentence in sentences
    ]


def beam_layout(trace: DecodingTrace) -> list[BeamNode]:
    """The beam with one token per column and no crossing lines.

    The best hypothesis is the first row; a branch continues in the first free row below.
    """
    ranks = _ranks(trace)
    last_steps = {each.last: each for each in reversed(trace.hypotheses)}
    nodes: list[BeamNode] = []
    free: dict[int, int] = {}  # the first row of each column with nothing in it or below

    def place(first: int, column: int, parent_row: int, is_branch: bool) -> None:
        line = _line(trace.beam, ranks, first)
        columns = range(column, column + len(line))
        row = max(free.get(each, 1) for each in columns)
        row = max(row, parent_row + is_branch)
        free.update((each, row + 1) for each in columns)
        for offset, index in enumerate(line):
            above = row if offset else parent_row
            step = trace.beam[index]
            nodes.append(BeamNode(index, step, row, column + offset, above, ranks.get(index), last_steps.get(index)))
        # From the right, so that a branch going down passes only branches that left their line to the right of it.
        for offset in reversed(range(len(line) - 1)):
            for sibling in _children(trace.beam, ranks, line[offset])[1:]:
                place(sibling, column + offset + 1, row, is_branch=True)

    for number, first in enumerate(_children(trace.beam, ranks, None)):
        place(first, 2, 1, is_branch=number > 0)
    return nodes


def _ranks(trace: DecodingTrace) -> dict[int, int]:
    """The rank of the best hypothesis through each step."""
    ranks: dict[int, int] = {}
    for rank, hypothesis in enumerate(trace.hypotheses, start=1):
        for index in trace.path(hypothesis):
            ranks.setdefault(index, rank)
    return ranks


def _children(beam: Sequence[DecodingStep], ranks: dict[int, int], parent: int | None) -> list[int]:
    """Those of better hypotheses first, then the more probable."""
    steps = [index for index, step in enumerate(beam) if step.parent == parent]
    return sorted(steps, key=lambda index: (ranks.get(index, math.inf), -beam[index].log_probability))


def _line(beam: Sequence[DecodingStep], ranks: dict[int, int], first: int) -> list[int]:
    """A step, its first child, the first child of that, and so on."""
    line = [first]
    while children := _children(beam, ranks, line[-1]):
        line.append(children[0])
    return line


def _view_of_trace(trace: DecodingTrace, gold: Sequence[tuple[int, int]]) -> ArmView:
    before = len(trace.reference)
    hypotheses = [
        TranslationPath(f"hypothesis {rank}", [before + index for index in trace.path(each)], each.score)
        for rank, each in enumerate(trace.hypotheses, start=1)
    ]
    return ArmView(
        trace.arm,
        trace.source,
        [_step_view(step, trace.norms) for step in (*trace.reference, *trace.beam)],
        [TranslationPath(REFERENCE, range(before)), *hypotheses],
        _token_links(gold, trace.source_words, trace.target_words),
        beam_layout(trace),
    )


def _view_of_map(each: AttentionMap) -> ArmView:
    steps = [StepView(word, None, row) for word, row in zip(each.target, each.weights, strict=True)]
    path = TranslationPath(REFERENCE, range(len(steps)))
    return ArmView(each.arm, each.source, steps, [path], each.gold or (), tree=())


def _step_view(step: DecodingStep, norms: Row | None) -> StepView:
    shares = None if step.weights is None or norms is None else _shares(step.weights, norms)
    return StepView(step.token, step.log_probability, step.weights, step.scores, shares)


def _shares(weights: Row, norms: Row) -> list[float]:
    """a_j |v_j| / Σ_k a_k |v_k| (after Kobayashi et al., 2020: longer vectors contribute more)."""
    lengths = [weight * norm for weight, norm in zip(weights, norms, strict=True)]
    return [round(length / (sum(lengths) or 1), 4) for length in lengths]


def _token_links(
    gold: Sequence[tuple[int, int]], source_words: Sequence[int], target_words: Sequence[int]
) -> list[tuple[int, int]]:
    """Links between words as links between all of their tokens."""
    links = set(gold)
    return [
        (source, target)
        for target, target_word in enumerate(target_words)
        for source, source_word in enumerate(source_words)
        if (source_word, target_word) in links
    ]
