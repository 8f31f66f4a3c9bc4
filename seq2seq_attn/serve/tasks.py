"""The models of a server, each loaded once, and what is computed with them for the lines of several clients."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, NamedTuple

from seq2seq_attn.analysis.neighbors import StateIndex
from seq2seq_attn.analysis.step_interventions import normalizers_for
from seq2seq_attn.analysis.stepwise import DecodedStep, decode_steps
from seq2seq_attn.api.answers import PairLinks
from seq2seq_attn.api.model import Model
from seq2seq_attn.options import AlignOptions, SearchOptions
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import sample_pairs
from seq2seq_attn.runs.lexicon import with_lexicon
from seq2seq_attn.runs.provenance import with_files_found
from seq2seq_attn.runs.requests import SourceLine
from seq2seq_attn.search.interruptible import AtStep
from seq2seq_attn.serve.batches import StoppingError
from seq2seq_attn.serve.sent_files import SentFiles, sample_files

LINES, HYPOTHESES = 64, 320  # that are decoded together at most: a step of them takes some hundredths of a second


@dataclass(eq=False)
class ServedModel:
    """A run under its name, with its languages. It is fused once for every precision that is asked for."""

    name: str
    model: Model
    source: str  # language codes
    target: str
    examples: Sequence[dict[str, Any]] = ()  # pairs of the test set
    index: Future[StateIndex] | None = None  # what the search of neighbors needs
    stopping: Event = field(default_factory=Event)

    @classmethod
    def load(cls, name: str, model: Model, languages: tuple[str, str], say: Say) -> ServedModel:
        """The model with its lexicon, if its configuration has a shortlist; both are ready for the first request."""
        trained = replace(model.trained, config=with_files_found(model.config, model.folder))
        test = trained.config.data.test
        samples: Callable[..., Sequence[dict[str, Any]]] = sample_pairs
        if trained.source.names_files:
            trained, samples = replace(trained, source=SentFiles(trained.source, trained.reads)), sample_files
        else:
            trained.text_source(f"{name}: serve")
        examples = samples(test, lambda text: say(f"{name}: {text}"))
        trained = with_lexicon(trained, model.folder, say=say)
        trained.for_inference()
        return cls(name, replace(model, trained=trained), *languages, examples)

    def asking(self, at_step: AtStep) -> Model:
        """The model, which calls this function before every step."""
        return replace(self.model, trained=replace(self.model.trained, at_step=at_step))

    def state_index(self) -> StateIndex | None:
        """What the search of neighbors needs, or None while it is prepared; the first call begins to prepare it.

        That may take minutes, so a thread of its own does it. UserError: it cannot be prepared.
        """
        if self.index is None:
            trained = self.asking(self._refuse_to_go_on).trained
            # Its thread is no daemon: one that is in torch when the interpreter ends aborts the process.
            self.index = ThreadPoolExecutor(1).submit(StateIndex.of_run, trained, self.model.folder)
        return self.index.result() if self.index.done() else None

    def _refuse_to_go_on(self) -> None:
        if self.stopping.is_set():
            raise StoppingError

    def text(self, source: str | Sequence[str], tokens: Sequence[str]) -> str:
        """The text of these tokens of a translation of a source."""
        target = self.model.trained.target.given(source)
        return target.decode(target.vocabulary.lookup_indices(tokens))

    def about(self) -> dict[str, Any]:
        """What a client needs to know of the model."""
        languages = {"source": self.source, "target": self.target}
        trained = self.model.trained
        choices = {"normalizers": normalizers_for(trained)}  # by which its own can be replaced
        shown = {"examples": self.examples, "glosses": trained.glosses()}
        return {"name": self.name, **languages, **trained.about(), **choices, **shown}


class Task(NamedTuple):
    """A function of a model for lines of several clients; the lines of equal tasks are computed together."""

    compute: Callable[..., Sequence[Any]]  # of the model, the lines and, if there are any, the options
    served: ServedModel
    options: Hashable = None
    batch_size: int = LINES  # lines that are computed together at most

    def __call__(self, items: Sequence[Any], at_step: AtStep) -> Sequence[Any]:
        """One result for each line, which does not depend on the others. UserError for a line that is refused."""
        options = () if self.options is None else (self.options,)
        return self.compute(self.served.asking(at_step), items, *options)


def search_work(options: SearchOptions, length: int, *, weights: bool = False) -> int:
    """Hypotheses x tokens of a search at most, if its source has `length` tokens without `</s>`.

    What is searched for at a time, and so memory and time, grow with this. Every weight of an answer counts as one.
    """
    width = options.hypotheses + (options.n_best * (length + 1) if weights else 0)
    return width * options.limit(length + 1)


def translations(served: ServedModel, options: SearchOptions, weights: bool) -> Task:
    """Lines to their translations, with tokens and attention weights if asked for."""
    return Task(_translations, served, (options, weights), min(LINES, max(1, HYPOTHESES // options.hypotheses)))


def _translations(model: Model, lines: Sequence[SourceLine], given: tuple[SearchOptions, bool]) -> list[dict[str, Any]]:
    options, weights = given
    # A shortlist depends on the lines that are searched together; alone, every line has its own.
    batches = [[line] for line in lines] if options.shortlist else [lines]
    return [each.record for each in model.stream(batches, options, weights=weights, say=lambda _: None)]


def align(model: Model, pairs: Sequence[tuple[str, str]], options: AlignOptions) -> Sequence[PairLinks]:
    """Pairs to the links between their words."""
    return model.align(pairs, **options.model_dump())


Answer = Callable[[Model], Any]  # to a request that is computed on its own


def answer(model: Model, functions: Sequence[Answer]) -> list[Any]:
    """Functions of the model to what they return."""
    return [function(model) for function in functions]


def next_step(served: ServedModel, arguments: dict[str, Any]) -> Answer:
    """A function that returns the next step of `decode_steps`, or None after the last.

    Every step is a task of its own, so that streams share the workers; it asks `at_step` of its own batch.
    """
    current = served.model
    steps = None

    def next_one(model: Model) -> DecodedStep | None:
        nonlocal current, steps
        current = model
        if steps is None:
            steps = decode_steps(served.asking(lambda: current.trained.at_step()).trained, **arguments)
        return next(steps, None)

    return next_one
