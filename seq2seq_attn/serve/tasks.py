"""What is computed for requests, by models that are loaded once: methods of `Model`, for lines of several clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from typing import Any, ClassVar, NamedTuple, Protocol

from seq2seq_attn.analysis.neighbors import StateIndex, find_neighbors
from seq2seq_attn.analysis.step_interventions import Intervention, normalizers_for
from seq2seq_attn.analysis.stepwise import (
    DecodedStep,
    continuations,
    decode_steps,
    decoded,
)
from seq2seq_attn.api.model import Model
from seq2seq_attn.options import AlignOptions, SearchOptions
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import sample_pairs
from seq2seq_attn.runs.model import with_lexicon
from seq2seq_attn.search.interruptible import AtStep, never
from seq2seq_attn.serve.batches import BatchTask, StoppingError
from seq2seq_attn.serve.requests import AttentionBody, NeighborsBody

LINES, HYPOTHESES = 64, 320  # that are decoded together at most: a step of them takes some hundredths of a second


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
    _stopping: Event = field(default_factory=Event)
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
        """What the search of neighbors needs, or None while it is prepared; the first call begins to prepare it.

        That may take minutes, so a thread of its own does it. UserError: it cannot be prepared.
        """
        with self._lock:
            if not self._indices:
                self._indices.append(Future())
                # No daemon: a thread that is in torch when the interpreter ends aborts the process.
                Thread(target=self._prepare_index, args=self._indices).start()
        return self._indices[0].result() if self._indices[0].done() else None

    def _prepare_index(self, found: Future[StateIndex]) -> None:
        def at_step() -> None:
            if self._stopping.is_set():
                raise StoppingError

        try:
            found.set_result(StateIndex.of_run(_asking(self.model, at_step).trained, self.model.folder))
        except BaseException as error:
            found.set_exception(error)

    def stop(self) -> None:
        """Ends the preparation of the index at its next batch."""
        self._stopping.set()

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
        choices = {"normalizers": normalizers_for(trained)}  # by which its own can be replaced
        return {"name": self.name, **languages, **trained.about(), **choices, "examples": self.examples}


class ModelTask(BatchTask, Protocol):
    """What an endpoint computes."""

    def work(self, item: Any, length: int) -> int:
        """Hypotheses x tokens of an item at most, if its source has `length` tokens without `</s>`.

        What is searched for at a time, and so memory and time, grow with this. Every weight of an answer counts as one.
        """
        ...


@dataclass(frozen=True)
class TranslateTask:
    """Lines to their translations."""

    served: ServedModel
    options: SearchOptions
    weights: bool = False  # with tokens and attention weights

    @property
    def batch_size(self) -> int:
        return min(LINES, max(1, HYPOTHESES // self.options.hypotheses))

    def work(self, _item: str, length: int) -> int:
        weights = self.options.n_best * (length + 1) if self.weights else 0
        return (self.options.hypotheses + weights) * self.options.limit(length + 1)

    def __call__(self, items: Sequence[str], at_step: AtStep) -> list[dict[str, Any]]:
        model = _asking(self.served.prepared(self.options), at_step)
        # A shortlist depends on the lines that are searched together; alone, every line has its own.
        batches = [[item] for item in items] if self.options.shortlist else [items]
        found = model.stream(batches, self.options, weights=self.weights, say=lambda _: None)
        return [self._record(each) for each in found]

    def _record(self, found: Any) -> dict[str, Any]:
        translations = [candidate._asdict() for candidate in found.candidates]
        record = {"source": found.source, "tokens": found.tokens, "unknown": found.unknown}
        attends = self.served.model.trained.translator.attends
        if not self.weights:
            return record | {"translations": translations}
        for translation, tokens in zip(translations, found.token_attention.translations, strict=True):
            translation["tokens"] = tokens.tokens
            translation["weights"] = tokens.weights.tolist() if attends else None
        return record | {"translations": translations}


@dataclass(frozen=True)
class ScoreTask:
    """Pairs to the log-probabilities of their targets."""

    served: ServedModel
    batch_size: ClassVar[int] = LINES

    def work(self, _item: tuple[str, str], length: int) -> int:
        return length

    def __call__(self, items: Sequence[tuple[str, str]], at_step: AtStep) -> list[dict[str, Any]]:
        return [each._asdict() for each in _asking(self.served.model, at_step).score(items)]


@dataclass(frozen=True)
class AlignTask:
    """Pairs to the links between their words."""

    served: ServedModel
    options: AlignOptions
    batch_size: ClassVar[int] = LINES

    def work(self, _item: tuple[str, str], length: int) -> int:
        return length

    def __call__(self, items: Sequence[tuple[str, str]], at_step: AtStep) -> list[dict[str, Any]]:
        found = _asking(self.served.model, at_step).align(items, **self.options.model_dump())
        return [{"source": each.source, "target": each.target, "links": sorted(each.links)} for each in found]


@dataclass(frozen=True)
class _OneByOne:
    """A task whose items are computed one at a time."""

    served: ServedModel
    batch_size: ClassVar[int] = 1

    def work(self, item: Any, length: int) -> int:
        return int(item.work(length))

    def __call__(self, items: Sequence[Any], at_step: AtStep) -> list[Any]:
        return [self.answer(each, at_step) for each in items]

    @abstractmethod
    def answer(self, item: Any, at_step: AtStep) -> Any:
        """What is computed for an item."""


class AttentionTask(_OneByOne):
    """Sentences to the attention weights between them and their translations, by default the best ones of a search."""

    def work(self, item: AttentionBody, length: int) -> int:
        options = self.served.model.config.search
        return (options.hypotheses if item.target is None else 1) * options.limit(length + 1)

    def answer(self, item: AttentionBody, at_step: AtStep) -> dict[str, Any]:
        model, target = _asking(self.served.model, at_step), item.target
        if target is None:
            prepared = _asking(self.served.prepared(model.config.search), at_step)
            target = prepared.translate([item.source]).sentences[0]
        found = model.attention(item.source, target, words=item.words)
        record = {"source": found.source, "target": found.target, "weights": found.weights.tolist()}
        if item.heads:
            maps = model.attention_maps(item.source, target)
            parts = {"cross": maps.cross, "encoder": maps.encoder, "decoder": maps.decoder}
            record |= {name: [layer.tolist() for layer in layers] for name, layers in parts.items()}
            record |= {"source_tokens": maps.source, "target_tokens": maps.target}
        return record


@dataclass(frozen=True)
class NeighborsTask(_OneByOne):
    """Sentences, or steps of their translations, to those of the training text that are nearest."""

    index: StateIndex

    def work(self, item: NeighborsBody, length: int) -> int:
        options = self.served.model.config.search
        return options.hypotheses * options.limit(length + 1)

    def answer(self, item: NeighborsBody, at_step: AtStep) -> dict[str, Any]:
        trained = _asking(self.served.model, at_step).trained
        found = find_neighbors(trained, self.index, item.source, item.target, item.step, item.most)
        return {"neighbors": [near._asdict() for near in found]}


class StepsItem(NamedTuple):
    """A sentence to decode step by step; the arguments of `decode_steps`."""

    source: str | tuple[str, ...]
    target: str | None
    prefix: str | tuple[str, ...]
    interventions: tuple[Intervention, ...]
    options: SearchOptions

    def work(self, length: int) -> int:
        """Hypotheses x tokens, for a source of this length and every other sentence that is read beside it."""
        sentences = 1 + len({each.other for each in self.interventions} - {None})
        return sentences * self.options.hypotheses * self.options.limit(length + 1)

    def steps(self, served: ServedModel, at_step: AtStep) -> Iterator[DecodedStep]:
        """The steps, each computed when it is asked for; so is the search, if one is needed."""
        yield from decode_steps(
            _asking(served.model, at_step).trained,
            self.source,
            self.target,
            prefix=self.prefix,
            interventions=self.interventions,
            options=self.options,
        )


class StepsTask(_OneByOne):
    """Sentences to all steps of their decoding."""

    def answer(self, item: StepsItem, at_step: AtStep) -> dict[str, Any]:
        found = decoded(self.served.model.trained, item.source, item.steps(self.served, at_step))
        return {
            "source": found.source,
            "text": found.text,
            "log_probability": found.log_probability,
            "steps": [step_record(step) for step in found.steps],
        }


class HypothesesTask(_OneByOne):
    """Sentences to the n best translations after their prefixes."""

    def answer(self, item: StepsItem, at_step: AtStep) -> dict[str, Any]:
        trained = _asking(self.served.model, at_step).trained
        found = continuations(
            trained, item.source, prefix=item.prefix, interventions=item.interventions, options=item.options
        )
        return {"hypotheses": [each._asdict() for each in found]}


def step_record(step: DecodedStep) -> dict[str, Any]:
    """A step as JSON: its fields by name."""
    likely = [{"token": token, "probability": probability} for token, probability in step.likely]
    return step._asdict() | {"layers": [layer._asdict() for layer in step.layers], "likely": likely}


class NextStepTask:
    """The next step of a stream, or None after the last; a task of its own, so that streams share the workers."""

    batch_size: ClassVar[int] = 1

    def __init__(self, served: ServedModel, item: StepsItem) -> None:
        self._at_step: AtStep = never
        # Every step is a batch of its own, which is asked when the step is computed.
        self._steps = item.steps(served, lambda: self._at_step())

    def work(self, item: StepsItem, length: int) -> int:
        return item.work(length)

    def __call__(self, items: Sequence[StepsItem], at_step: AtStep) -> list[DecodedStep | None]:
        self._at_step = at_step
        return [next(self._steps, None) for _ in items]


def _asking(model: Model, at_step: AtStep) -> Model:
    """The same model, which calls this function before every step."""
    return replace(model, trained=replace(model.trained, at_step=at_step))
