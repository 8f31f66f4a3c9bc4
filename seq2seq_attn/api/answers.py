"""The results of a model as records: outputs, scores, alignments and attention weights.

Each collection is a sequence of records in the order of the inputs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq_attn.analysis.attention_files import TokenAttention
from seq2seq_attn.analysis.neighbors import Neighbor
from seq2seq_attn.analysis.stepwise import DecodedSteps
from seq2seq_attn.api.tables import Answers
from seq2seq_attn.corpora.placeholders import Placed
from seq2seq_attn.corpora.unknown_words import stand_in
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Agreement, GoldCorpus, Links, agreement, format_links, read_gold_of
from seq2seq_attn.files.plain import plain
from seq2seq_attn.runs.requests import Constraint, Replacement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seq2seq_attn.api.attention_view import AttentionView


class Candidate(NamedTuple):
    """One output for a source."""

    text: str
    score: float  # log p divided by the length penalty, or with `mbr` the mean utility; outputs are ranked by it
    log_probability: float  # ln p(text | source), including `</s>`
    constraints: tuple[Constraint, ...] = ()  # what was asked of it, and the steps, or rows of weights, that met it
    replaced: tuple[Replacement, ...] = ()  # with `replace_unknown`: each `<unk>` that the model wrote
    placeholders: tuple[Placed, ...] = ()  # with `text.placeholders`: how often each is in the source and here


class Translation(NamedTuple):
    """A source with its outputs."""

    source: str
    candidates: tuple[Candidate, ...]  # best first; none for a blank source
    token_attention: TokenAttention | None = None  # of all candidates; None unless weights were requested
    tokens: tuple[str, ...] = ()  # that the model read, an unknown one as `WORD (<unk>)`, `</s>` last
    unknown: tuple[str, ...] = ()  # the words that are unknown to the model, which reads `<unk>` for them
    sentences: tuple[Translation, ...] = ()  # with `split_sentences`: those of the line, each a source of its own

    @property
    def text(self) -> str:
        """The best output; "" for a blank source."""
        return self.candidates[0].text if self.candidates else ""

    @property
    def score(self) -> float | None:
        """The score of the best output; None for a blank source."""
        return self.candidates[0].score if self.candidates else None

    @property
    def record(self) -> dict[str, Any]:
        """As JSON of commands and requests: each output with its tokens and weights, if they were requested."""
        translations = [each._asdict() for each in self.candidates]
        for each in translations:
            for key in ("constraints", "replaced", "placeholders"):
                if found := each.pop(key):
                    each[key] = [one._asdict() for one in found]
        if self.token_attention is not None:
            for each, read in zip(translations, self.token_attention.translations, strict=True):
                each |= {"tokens": read.tokens, "weights": read.weights.tolist() if read.weights.any() else None}
        found = {"source": self.source, "tokens": self.tokens, "unknown": self.unknown, "translations": translations}
        return found | ({"sentences": [each.record for each in self.sentences]} if self.sentences else {})

    @classmethod
    def of_sentences(cls, source: str, sentences: tuple[Translation, ...], text: str) -> Translation:
        """The record of a line from those of its sentences: scores and log-probabilities are summed."""
        best = [each.candidates[0] for each in sentences if each.candidates]
        scores = sum(each.score for each in best), sum(each.log_probability for each in best)
        candidates = (Candidate(text, *scores),) if best else ()
        tokens, unknown = (
            tuple(each for one in parts for each in one)
            for parts in ([one.tokens for one in sentences], [one.unknown for one in sentences])
        )
        return cls(source, candidates, None, tokens, unknown, sentences)

    @property
    def attention(self) -> AttentionView:
        """The weights with which the best output was predicted.

        A replaced word is shown as `WORD (<unk>)`, what was asked for as `TOKEN (constraint)`, `TOKEN (glossary)` or
        `TOKEN (prefix)`.

        Raises:
            UserError: The output was predicted without `weights=True`, or the model has no weights.
        """
        if self.token_attention is None:
            raise UserError("these outputs have no attention weights; predict them with weights=True")
        from seq2seq_attn.api.attention_view import view_of

        found = view_of(self.token_attention)
        target = list(found.target)
        for each in self.candidates[0].replaced:
            target[each.step] = stand_in(each.text)
        for asked in self.candidates[0].constraints:
            for step in range(*(asked.steps or (0, 0))):
                target[step] += f" ({asked.by})"
        return replace(found, target=tuple(target))


class Translations(Answers[Translation]):
    """The result of `Model.translate`, one record per source."""

    @property
    def sentences(self) -> list[str]:
        """The best output of each source; "" for a blank one."""
        return [each.text for each in self]

    @property
    def scores(self) -> list[float | None]:
        """The score of the best output of each source; None for a blank one."""
        return [each.score for each in self]

    @property
    def n_best(self) -> list[list[str]]:
        """The `n_best` outputs of each source, best first."""
        return [[candidate.text for candidate in each.candidates] for each in self]

    @property
    def unknown(self) -> list[tuple[str, ...]]:
        """The words of each source that are unknown to the model."""
        return [each.unknown for each in self]

    @property
    def weights(self) -> list[NDArray[np.float32] | None]:
        """The attention weights (T, S) of the best output of each source; None for a blank one."""
        return [each.attention.weights if each.candidates else None for each in self]

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per candidate; for a blank source, one without a score."""
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
    """The probability of a given target; all numbers are None for a pair with a blank side."""

    source: str  # as given
    target: str  # as given
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
    """A source and its target with the links between their words."""

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
