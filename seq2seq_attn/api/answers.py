"""The results of a model as records: translations, scores, alignments and attention weights.

Each collection is a sequence of records in the order of the inputs.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS, TokenAttention
from seq2seq_attn.analysis.neighbors import Neighbor
from seq2seq_attn.analysis.stepwise import DecodedSteps
from seq2seq_attn.api.tables import CELL, TABLE, Answers
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Agreement, GoldCorpus, Links, agreement, format_links, read_gold_of
from seq2seq_attn.evaluation.attention_weights import argmax_links
from seq2seq_attn.files.plain import plain
from seq2seq_attn.runs.requests import Constraint

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Candidate(NamedTuple):
    """One translation of a sentence."""

    text: str
    score: float  # log p divided by the length penalty, or with `mbr` the mean utility; translations are ranked by it
    log_probability: float  # ln p(text | source), including `</s>`
    constraints: tuple[Constraint, ...] = ()  # what was asked of it, and the steps, or rows of weights, that met it


class Translation(NamedTuple):
    """A sentence with its translations."""

    source: str
    candidates: tuple[Candidate, ...]  # best first; none for a blank sentence
    token_attention: TokenAttention | None = None  # of all candidates; None unless weights were requested
    tokens: tuple[str, ...] = ()  # that the model read, `</s>` last; none for a blank sentence
    unknown: tuple[str, ...] = ()  # the words that are unknown to the model, which reads `<unk>` for them

    @property
    def text(self) -> str:
        """The best translation; "" for a blank sentence."""
        return self.candidates[0].text if self.candidates else ""

    @property
    def score(self) -> float | None:
        """The score of the best translation; None for a blank sentence."""
        return self.candidates[0].score if self.candidates else None

    @property
    def record(self) -> dict[str, Any]:
        """As JSON of commands and requests: each translation with its tokens and weights, if they were requested."""
        translations = [each._asdict() for each in self.candidates]
        for each in translations:
            if constraints := each.pop("constraints"):
                each["constraints"] = [constraint._asdict() for constraint in constraints]
        if self.token_attention is not None:
            for each, read in zip(translations, self.token_attention.translations, strict=True):
                each |= {"tokens": read.tokens, "weights": read.weights.tolist() if read.weights.any() else None}
        return {"source": self.source, "tokens": self.tokens, "unknown": self.unknown, "translations": translations}

    @property
    def attention(self) -> AttentionMatrix:
        """The weights with which the best translation was predicted.

        Raises:
            UserError: The sentence was translated without `weights=True`, or the model has no weights.
        """
        if self.token_attention is None:
            raise UserError("these translations have no attention weights; translate with weights=True")
        return AttentionMatrix.of(self.token_attention)


class Translations(Answers[Translation]):
    """The result of `Model.translate`, one record per sentence."""

    @property
    def sentences(self) -> list[str]:
        """The best translation of each sentence; "" for a blank one."""
        return [each.text for each in self]

    @property
    def scores(self) -> list[float | None]:
        """The score of the best translation of each sentence; None for a blank one."""
        return [each.score for each in self]

    @property
    def n_best(self) -> list[list[str]]:
        """The `n_best` translations of each sentence, best first."""
        return [[candidate.text for candidate in each.candidates] for each in self]

    @property
    def unknown(self) -> list[tuple[str, ...]]:
        """The words of each sentence that are unknown to the model."""
        return [each.unknown for each in self]

    @property
    def weights(self) -> list[NDArray[np.float32] | None]:
        """The attention weights (T, S) of the best translation of each sentence; None for a blank one."""
        return [each.attention.weights if each.candidates else None for each in self]

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per candidate; for a blank sentence, one without a score."""
        return [
            {
                "sentence": number,
                "rank": rank,
                "source": each.source,
                "translation": candidate.text if candidate else "",
                "score": candidate and candidate.score,
                "log_probability": candidate and candidate.log_probability,
                "unknown": list(each.unknown),
            }
            for number, each in enumerate(self)
            for rank, candidate in enumerate(each.candidates or (None,), start=1)
        ]


class PairScore(NamedTuple):
    """The probability of a given translation; all numbers are None for a pair with a blank side."""

    source: str
    target: str
    log_probability: float | None  # ln p(target | source): the sum over the tokens
    tokens: list[str] | None  # `</s>` last
    log_probabilities: list[float] | None  # of each token, given those before it


class PairScores(Answers[PairScore]):
    """The result of `Model.score`, one record per pair."""

    @property
    def log_probabilities(self) -> list[float | None]:
        """ln p(target | source) of each pair."""
        return [each.log_probability for each in self]

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per pair, without its tokens."""
        return [
            {
                "source": each.source,
                "target": each.target,
                "log_probability": each.log_probability,
                "tokens": each.tokens and len(each.tokens),
            }
            for each in self
        ]


class PairLinks(NamedTuple):
    """A sentence pair with the links between its words."""

    source: str
    target: str
    links: Links  # (source word, target word), counted from 0
    source_words: tuple[str, ...]  # of a source that is not text: what its positions are called

    @property
    def words(self) -> list[tuple[str, str]]:
        """The linked words, in the order of the target."""
        targets = self.target.split()
        return [(self.source_words[i], targets[j]) for i, j in sorted(self.links, key=lambda link: link[::-1])]

    def __str__(self) -> str:
        """Pharaoh format: `0-0 2-1`."""
        return format_links(self.links)


class Alignments(Answers[PairLinks]):
    """The result of `Model.align`, one record per pair."""

    @property
    def links(self) -> list[Links]:
        """The links of each pair."""
        return [each.links for each in self]

    def agreement(self, gold: Path | str | GoldCorpus) -> Agreement:
        """Precision, recall, F1 and the alignment error rate.

        Args:
            gold: Gold links, or a file of them.

        Raises:
            UserError: The file has the wrong number of lines, or a link points outside its sentence.
        """
        sources = [each.source for each in self]
        if not isinstance(gold, GoldCorpus):
            words = {each.source: each.source_words for each in self}
            gold = read_gold_of(Path(gold), sources, [each.target for each in self], words.__getitem__)
        return agreement(self.links, *gold, sources=sources)

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per pair, with its links in Pharaoh format."""
        return [{"source": each.source, "target": each.target, "links": str(each)} for each in self]


class Neighbors(Answers[Neighbor]):
    """The result of `Model.neighbors`: training pairs, or steps of their targets, the nearest first."""

    @property
    def distances(self) -> list[float]:
        """Euclidean."""
        return [each.distance for each in self]


class Steps(DecodedSteps):
    """The result of `Model.steps`; in a notebook, a matrix whose rows are stepped through by mouse or arrow keys."""

    def _repr_html_(self) -> str:
        from seq2seq_attn.report.html_page import steps_html

        return steps_html(self.source, plain(self.steps))


@dataclass(frozen=True, eq=False)
class AttentionMatrix:
    """Attention weights between the tokens or words of a sentence and of its translation.

    >>> found = AttentionMatrix(("Tom", "runs"), ("汤姆", "跑"), np.array([[0.9, 0.1], [0.25, 0.75]]))
    >>> print(found)
          Tom  runs
    汤姆  .90   .10
      跑  .25   .75
    >>> sorted(found.links)
    [(0, 0), (1, 1)]
    """

    source: tuple[str, ...]  # `</s>` last, if these are tokens
    target: tuple[str, ...]
    weights: NDArray[Any] = field(repr=False)  # (target, source): row i was used to predict target token i
    name: str = "attention"

    @classmethod
    def of(cls, sentence: TokenAttention, rank: int = 0, name: str = "attention") -> AttentionMatrix:
        """The matrix of one translation of a sentence.

        Args:
            sentence: The weights of all of its translations.
            rank: Which translation, counted from 0.
            name: What the matrix is called in a picture.

        Raises:
            UserError: The sentence is blank, or the model has no weights.
        """
        if not sentence.translations:
            raise UserError("a blank sentence has no attention weights; give one with text on both sides")
        found = sentence.translations[rank]
        return cls(tuple(sentence.source), tuple(found.tokens), found.weights, name).checked()

    def checked(self) -> AttentionMatrix:
        """This matrix.

        Raises:
            UserError: All of its weights are 0.
        """
        if not self.weights.any():
            raise UserError(NO_WEIGHTS)
        return self

    @property
    def links(self) -> Links:
        """Each target linked to the source with the highest weight, as pairs (source, target)."""
        return argmax_links(self.weights)

    def plot(self) -> Figure:
        """A heat map as a `matplotlib.figure.Figure`, to show, modify, or save with `savefig`."""
        from seq2seq_attn.report.heat_maps import attention_figure
        from seq2seq_attn.results.attention import AttentionMap

        rows = tuple(tuple(map(float, row)) for row in self.weights)
        return attention_figure([AttentionMap(self.name, self.source, self.target, rows, None)])

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per weight."""
        return [
            {"target": target, "source": source, "weight": float(weight)}
            for target, row in zip(self.target, self.weights, strict=True)
            for source, weight in zip(self.source, row, strict=True)
        ]

    def __repr__(self) -> str:
        from rich.cells import cell_len

        def right(text: str, width: int) -> str:
            return " " * (width - cell_len(text)) + text

        first = max(map(cell_len, self.target))
        widths = [max(3, cell_len(word)) for word in self.source]
        lines = [right("", first), *(right(word, first) for word in self.target)]
        cells = [self.source, *([f"{weight:.2f}".removeprefix("0") for weight in row] for row in self.weights)]
        return "\n".join(
            f"{line}  {'  '.join(map(right, row, widths))}" for line, row in zip(lines, cells, strict=True)
        )

    def _repr_html_(self) -> str:
        """A table with cells in shades of blue by weight; the text keeps the color of the page."""
        head = "".join(f'<th style="{CELL};writing-mode:vertical-rl">{html.escape(word)}</th>' for word in self.source)
        rows = []
        for word, row in zip(self.target, self.weights, strict=True):
            cells = "".join(
                f'<td style="{CELL};min-width:1.6em;background:rgba(0,114,178,{min(1.0, float(weight)):.3f})" '
                f'title="{html.escape(word)} ← {html.escape(source)}: {weight:.3f}"></td>'
                for source, weight in zip(self.source, row, strict=True)
            )
            rows.append(f'<tr style="background:none"><th style="{CELL};text-align:right">{html.escape(word)}</th>')
            rows[-1] += f"{cells}</tr>"
        return f'<table style="{TABLE}"><tr style="background:none"><th></th>{head}</tr>{"".join(rows)}</table>'
