"""Where each step looked: the sentences whose attention is shown, from examples.json or from attention.json alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from seq2seq_attn.report.html.tree import Node, layout
from seq2seq_attn.results.examples import ArmReading, Example, Step
from seq2seq_attn.results.observations import AttentionMap

REFERENCE = "the reference"
Row = Sequence[float]


class Look(NamedTuple):
    """A token, and what was read to predict it."""

    token: str
    log_probability: float | None
    weights: Row | None
    scores: Row | None = None
    shares: Row | None = None  # of the context: what each position contributes to it


class Path(NamedTuple):
    """A translation, by its places among the looks."""

    name: str
    looks: Sequence[int]
    score: float | None = None


class Reading(NamedTuple):
    """One arm's view of a sentence; the first path is the reference, whose looks stand before those of the beam."""

    arm: str
    source: Sequence[str]
    looks: Sequence[Look]
    paths: Sequence[Path]
    gold: Sequence[tuple[int, int]]  # (source token, token of the reference)
    tree: Sequence[Node]

    @property
    def has_weights(self) -> bool:
        return any(look.weights for look in self.looks)

    def of(self, path: Path) -> list[Look]:
        return [self.looks[index] for index in path.looks]


class Shown(NamedTuple):
    """A sentence pair under the arms that have something to show."""

    title: str
    source: str
    reference: str
    readings: Sequence[Reading]


def from_examples(examples: Sequence[Example]) -> list[Shown]:
    """All arms, token by token."""
    return [
        Shown(
            f"Test sentence {example.line}, {len(example.source.split())} words",
            example.source,
            example.reference,
            [_reading(each, example.gold or ()) for each in example.readings],
        )
        for example in examples
    ]


def from_maps(maps: Sequence[AttentionMap]) -> list[Shown]:
    """The arms that have weights, word by word on the reference: what older results know."""
    sentences: dict[tuple[str, ...], list[AttentionMap]] = {}
    for shown in maps:
        sentences.setdefault(shown.source, []).append(shown)
    return [
        Shown(
            f"A test sentence of {len(source)} words", " ".join(source), " ".join(arms[0].target), [*map(_of_map, arms)]
        )
        for source, arms in sentences.items()
    ]


def as_data(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """What script.js reads."""
    return [
        {
            "title": sentence.title,
            "readings": [
                {
                    "arm": reading.arm,
                    "source": reading.source,
                    "looks": reading.looks,  # each a list, its fields in their order
                    "paths": [path._asdict() | {"looks": list(path.looks)} for path in reading.paths],
                    "gold": reading.gold,
                }
                for reading in sentence.readings
            ],
        }
        for sentence in shown
    ]


def _reading(reading: ArmReading, gold: Sequence[tuple[int, int]]) -> Reading:
    before = len(reading.reference)
    hypotheses = [
        Path(f"hypothesis {rank}", [before + at for at in reading.path(found)], found.score)
        for rank, found in enumerate(reading.hypotheses, start=1)
    ]
    return Reading(
        reading.arm,
        reading.source,
        [_look(step, reading.norms) for step in (*reading.reference, *reading.beam)],
        [Path(REFERENCE, range(before)), *hypotheses],
        _of_tokens(gold, reading.source_words, reading.target_words),
        layout(reading),
    )


def _look(step: Step, norms: Row | None) -> Look:
    shares = None if step.weights is None or norms is None else _shares(step.weights, norms)
    return Look(step.token, step.log_probability, step.weights, step.scores, shares)


def _shares(weights: Row, norms: Row) -> list[float]:
    """a_j |v_j| / Σ_k a_k |v_k| (after Kobayashi et al., 2020: a long vector counts for more than a short one)."""
    lengths = [weight * norm for weight, norm in zip(weights, norms, strict=True)]
    return [round(length / (sum(lengths) or 1), 4) for length in lengths]


def _of_tokens(
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


def _of_map(shown: AttentionMap) -> Reading:
    looks = [Look(word, None, row) for word, row in zip(shown.target, shown.weights, strict=True)]
    return Reading(shown.arm, shown.source, looks, [Path(REFERENCE, range(len(looks)))], shown.gold or (), tree=())
