"""What is computed for requests, by models that are loaded once: methods of `Model`, for lines of several clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from typing import Any, NamedTuple

from seq2seq_attn.analysis.neighbours import StateIndex, find_neighbours
from seq2seq_attn.analysis.step_interventions import Intervention, normalisers_for
from seq2seq_attn.analysis.stepwise import (
    DecodedStep,
    continuations,
    decode_steps,
    decoded,
)
from seq2seq_attn.api.model import Model
from seq2seq_attn.evaluation.attention_weights import AlignmentRow
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import sample_pairs
from seq2seq_attn.runs.model import with_lexicon
from seq2seq_attn.search.options import SearchOptions


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A run under its name, with its languages, prepared once for every precision that is asked for."""

    name: str
    model: Model
    source: str  # language codes
    target: str
    examples: Sequence[dict[str, Any]] = ()  # pairs of the test set
    _prepared: dict[str, Model] = field(default_factory=dict)
    _indices: list[Future[StateIndex]] = field(default_factory=list)  # none, or one
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def load(cls, name: str, model: Model, languages: tuple[str, str], say: Say) -> ServedModel:
        """The model with its lexicon, if its configuration has a shortlist; both are ready for the first request."""
        trained = with_lexicon(model.trained, model.folder, say=say)
        served = cls(name, replace(model, trained=trained), *languages, sample_pairs(model.config.data.test))
        served.prepared(model.config.search)
        return served

    def prepared(self, options: SearchOptions) -> Model:
        """The model for searches with these options. Its weights are reordered and cast once."""
        with self._lock:
            if options.precision not in self._prepared:
                trained = self.model.trained.for_inference(options)
                self._prepared[options.precision] = replace(self.model, trained=trained)
            return self._prepared[options.precision]

    def state_index(self) -> StateIndex | None:
        """What the search of neighbours needs, or None while it is prepared; the first call begins to prepare it.

        That may take minutes, so a thread of its own does it. UserError: it cannot be prepared.
        """
        with self._lock:
            if not self._indices:
                self._indices.append(Future())
                Thread(target=self._prepare_index, args=self._indices, daemon=True).start()
        return self._indices[0].result() if self._indices[0].done() else None

    def _prepare_index(self, found: Future[StateIndex]) -> None:
        try:
            found.set_result(StateIndex.of_run(self.model.trained, self.model.folder))
        except BaseException as error:
            found.set_exception(error)

    def source_tokens(self, lines: Sequence[str | Sequence[str]]) -> list[int]:
        """The number of tokens of each line, text or tokens, without `</s>`."""
        return [len(self.model.trained.source.pieces(line) if isinstance(line, str) else line) for line in lines]

    def target_tokens(self, lines: Sequence[str]) -> list[int]:
        """The same for translations."""
        return [len(self.model.trained.target.pieces(line)) for line in lines]

    def text(self, tokens: Sequence[str]) -> str:
        """The text of these tokens of a translation."""
        target = self.model.trained.target
        return target.decode(target.vocabulary.lookup_indices(tokens))

    def about(self) -> dict[str, Any]:
        """What a client needs to know of the model."""
        languages = {"source": self.source, "target": self.target}
        trained = self.model.trained
        choices = {"normalisers": normalisers_for(trained)}  # by which its own can be replaced
        return {"name": self.name, **languages, **trained.about(), **choices, "examples": self.examples}


@dataclass(frozen=True)
class TranslateTask:
    """Lines to their translations."""

    served: ServedModel
    options: SearchOptions
    weights: bool = False  # with tokens and attention weights

    def __call__(self, items: Sequence[str]) -> list[dict[str, Any]]:
        model = self.served.prepared(self.options)
        # A shortlist depends on the lines that are searched together; alone, every line has its own.
        chunk = 1 if self.options.shortlist is not None else len(items)
        found = model.stream(items, self.options, weights=self.weights, chunk=chunk, say=lambda _: None)
        return [self._record(each) for each in found]

    def _record(self, found: Any) -> dict[str, Any]:
        translations = [candidate._asdict() for candidate in found.candidates]
        attends = self.served.model.trained.translator.attends
        if not self.weights:
            return {"source": found.source, "translations": translations}
        for translation, tokens in zip(translations, found.token_attention.translations, strict=True):
            translation["tokens"] = tokens.tokens
            translation["weights"] = tokens.weights.tolist() if attends else None
        return {"source": found.source, "tokens": found.token_attention.source, "translations": translations}


@dataclass(frozen=True)
class ScoreTask:
    """Pairs to the log-probabilities of their targets."""

    served: ServedModel

    def __call__(self, items: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        return [each._asdict() for each in self.served.model.score(items)]


@dataclass(frozen=True)
class AlignTask:
    """Pairs to the links between their words."""

    served: ServedModel
    threshold: float | None = None
    row: AlignmentRow = "predicted"
    layer: int | None = None
    head: int | None = None

    def __call__(self, items: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        options: dict[str, Any] = {"threshold": self.threshold, "row": self.row, "layer": self.layer, "head": self.head}
        found = self.served.model.align(items, **options)
        return [{"source": each.source, "target": each.target, "links": sorted(each.links)} for each in found]


class AttentionItem(NamedTuple):
    """A sentence and its translation, None for the best one of a search."""

    source: str
    target: str | None


@dataclass(frozen=True)
class AttentionTask:
    """Sentences to the attention weights between them and their translations."""

    served: ServedModel
    words: bool
    heads: bool

    def __call__(self, items: Sequence[AttentionItem]) -> list[dict[str, Any]]:
        return [self._record(each) for each in items]

    def _record(self, item: AttentionItem) -> dict[str, Any]:
        model, target = self.served.model, item.target
        if target is None:
            target = self.served.prepared(model.config.search).translate([item.source]).sentences[0]
        found = model.attention(item.source, target, words=self.words)
        record = {"source": found.source, "target": found.target, "weights": found.weights.tolist()}
        if self.heads:
            maps = model.attention_maps(item.source, target)
            parts = {"cross": maps.cross, "encoder": maps.encoder, "decoder": maps.decoder}
            record |= {name: [layer.tolist() for layer in layers] for name, layers in parts.items()}
            record |= {"source_tokens": maps.source, "target_tokens": maps.target}
        return record


class NeighboursItem(NamedTuple):
    """The arguments of `find_neighbours`."""

    source: str | tuple[str, ...]
    target: str | tuple[str, ...] | None
    step: int | None
    most: int


@dataclass(frozen=True)
class NeighboursTask:
    """Sentences, or steps of their translations, to those of the training text that are nearest."""

    served: ServedModel
    index: StateIndex

    def __call__(self, items: Sequence[NeighboursItem]) -> list[dict[str, Any]]:
        return [
            {"neighbours": [near._asdict() for near in find_neighbours(self.served.model.trained, self.index, *each)]}
            for each in items
        ]


class StepsItem(NamedTuple):
    """A sentence to decode step by step; the arguments of `decode_steps`."""

    source: str | tuple[str, ...]
    target: str | None
    prefix: str | tuple[str, ...]
    interventions: tuple[Intervention, ...]
    options: SearchOptions

    def steps(self, served: ServedModel) -> Iterator[DecodedStep]:
        """The steps, each computed when it is asked for; so is the search, if one is needed."""
        yield from decode_steps(
            served.model.trained,
            self.source,
            self.target,
            prefix=self.prefix,
            interventions=self.interventions,
            options=self.options,
        )


@dataclass(frozen=True)
class StepsTask:
    """Sentences to all steps of their decoding."""

    served: ServedModel

    def __call__(self, items: Sequence[StepsItem]) -> list[dict[str, Any]]:
        trained = self.served.model.trained
        found = (decoded(trained, each.source, each.steps(self.served)) for each in items)
        return [
            {
                "source": each.source,
                "text": each.text,
                "log_probability": each.log_probability,
                "steps": [step_record(step) for step in each.steps],
            }
            for each in found
        ]


@dataclass(frozen=True)
class HypothesesTask:
    """Sentences to the n best translations after their prefixes."""

    served: ServedModel

    def __call__(self, items: Sequence[StepsItem]) -> list[dict[str, Any]]:
        trained = self.served.model.trained
        found = (
            continuations(
                trained, each.source, prefix=each.prefix, interventions=each.interventions, options=each.options
            )
            for each in items
        )
        return [{"hypotheses": [each._asdict() for each in hypotheses]} for hypotheses in found]


def step_record(step: DecodedStep) -> dict[str, Any]:
    """A step as JSON: its fields by name."""
    likely = [{"token": token, "probability": probability} for token, probability in step.likely]
    return step._asdict() | {"layers": [layer._asdict() for layer in step.layers], "likely": likely}


@dataclass(frozen=True, eq=False)
class NextStepTask:
    """The next step of a stream, or None after the last; a task of its own, so that streams share the workers."""

    steps: Iterator[DecodedStep]

    def __call__(self, items: Sequence[None]) -> list[DecodedStep | None]:
        return [next(self.steps, None) for _ in items]
