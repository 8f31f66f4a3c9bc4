"""Decoding step by step: everything that a model computes at a step, with interventions at some of them.

The translation is given, found by any search, or found while its steps are read, by greedy search. An intervention
(`step_interventions.py`) replaces what the decoder reads; the decoder goes on from the state that follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.analysis.step_interventions import (
    Intervention,
    changes_at,
    check_interventions,
    other_sources,
)
from seq2seq_attn.corpora.encoded import Item
from seq2seq_attn.corpora.unknown_words import ReadAs
from seq2seq_attn.corpora.vocabulary import EOS, PAD, SPECIALS, UNK, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.intervened import Attended, IntervenedModel
from seq2seq_attn.models.seq2seq import Memory, Step, Wrapper
from seq2seq_attn.ops.continuations import best_continuations
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import search

LIKELY = 10  # next tokens that a step lists
NOT_FINITE = "the predictions are no longer finite; give smaller weights"


class LayerReading(NamedTuple):
    """How one layer of the decoder read the S states of the source at a step, by each of its H heads."""

    weights: list[list[float]]  # (H, S)
    scores: list[list[float | None]] | None  # (H, S), before the normalizer; None: excluded, or not of an `Attention`
    contributions: list[list[float]]  # (H, S): |a_j v_j|, how far source token j moves C (Kobayashi et al. 2020)


class Likely(NamedTuple):
    """A token that may come next."""

    token: str  # of the vocabulary
    probability: float  # that it comes next


class DecodedStep(NamedTuple):
    """One step of decoding."""

    token: str  # chosen or given
    log_probability: float  # of this token
    weights: list[float] | None  # (S,) mean over layers and heads; None if none or if another sentence was read
    layers: list[LayerReading]  # one per layer that attends; empty where another sentence was read
    likely: list[Likely]  # the most probable tokens, the most probable first


@dataclass(frozen=True)
class DecodedSteps:
    """A translation with all of its steps."""

    source: tuple[str, ...]  # tokens, `WORD (<unk>)` for an unknown one, `</s>` last
    read_as: tuple[ReadAs, ...]  # the words of the source that are read otherwise than they are written
    text: str
    log_probability: float  # ln p(translation | source), tokens of the prefix included
    steps: tuple[DecodedStep, ...]

    @property
    def tokens(self) -> list[str]:
        """The tokens of the translation; `</s>` last, unless the search reached its maximum length."""
        return [step.token for step in self.steps]


def decode_steps(
    model: TrainedModel,
    source: str | Sequence[str],
    target: str | None = None,
    *,
    prefix: str | Sequence[str] = (),
    interventions: Sequence[Intervention] = (),
    options: SearchOptions | None = None,
) -> Iterator[DecodedStep]:
    """The steps that predict `target`, or the translation that a search finds after `prefix`, one after the other.

    `source` and `prefix` are text or lists of tokens. By default, the search is that of the configuration; with a beam
    of 1 every step is returned as soon as it is decoded. Steps are computed in single precision with the whole
    vocabulary. UserError: a side is blank, a token is unknown, both `target` and `prefix` are given, or an intervention
    does not fit the sentence or the model.
    """
    item = source_item(model, source)
    options = exact(options or model.config.search, n_best=1)
    if target is not None:
        if prefix:
            raise UserError("target and prefix: a given target is not searched for; give one of the two")
        tokens = model.target.given(source).encode(target)
        if len(tokens) == 1:
            raise UserError("a blank target has no steps; give one with text, or none to search for it")
        model.limits.require_steps(len(tokens), "this target")
        return _StepByStep(model, source, interventions).steps(tokens, len(tokens))
    first = prefix_ids(model, source, prefix)
    rest = _after(options, len(first))
    limit = len(first) + rest.limit(len(item))
    model.limits.require_steps(limit, "this prefix and what follows it")
    if options.beam_size == 1 and not options.draws:
        return _StepByStep(model, source, interventions).steps(first, limit, options.min_length)
    decoder = _StepByStep(model, source, interventions, first)
    (found,) = search(decoder, [item], rest, collate=model.source.collate)
    return decoder.steps([*first, *found[0].tokens, EOS], min(limit, len(first) + len(found[0].tokens) + 1))


class Continuation(NamedTuple):
    """A translation that a search found after a prefix."""

    text: str  # of all tokens
    tokens: list[str]  # with the prefix; `</s>` last, unless the search reached its maximum length
    log_probability: float  # of the tokens after the prefix
    score: float  # by which the search ranks: that of the tokens after the prefix


def continuations(
    model: TrainedModel,
    source: str | Sequence[str],
    *,
    prefix: str | Sequence[str] = (),
    interventions: Sequence[Intervention] = (),
    options: SearchOptions | None = None,
) -> list[Continuation]:
    """The n best translations that begin with `prefix`, best first, or n samples; the arguments of `decode_steps`.

    The first of them is the translation of `decode_steps`, if the search is a beam search. UserError as there.
    """
    item = source_item(model, source)
    first = prefix_ids(model, source, prefix)
    options = exact(options or model.config.search)
    rest = _after(options.for_candidates(), len(first))
    limit = rest.limit(len(item))
    model.limits.require_steps(len(first) + limit, "this prefix and what follows it")
    (found,) = search(_StepByStep(model, source, interventions, first), [item], rest, collate=model.source.collate)
    codec = model.target.given(source)
    best: list[Continuation] = []
    texts = set()
    for each in found:
        if not math.isfinite(each.log_probability):
            raise UserError(NOT_FINITE)
        predicted = [*first, *each.tokens, *([EOS] if len(each.tokens) < limit else [])]
        tokens = codec.vocabulary.lookup_tokens(predicted)
        text = codec.decode(predicted)
        if not (options.distinct and text in texts):
            best.append(Continuation(text, tokens, each.log_probability, each.score))
        texts.add(text)
    return best[: options.n_best]


def exact(options: SearchOptions, n_best: int | None = None) -> SearchOptions:
    """The options in single precision with the whole vocabulary, without minimum Bayes risk, and showing `<unk>`.

    Nothing is avoided, and coverage does not count (`options.without_rules`). For `n_best` hypotheses, by default as
    many as before.
    """
    changes = {"precision": "fp32", "shortlist": None, "mbr": None, "candidates": None, "replace_unknown": False}
    return options.without_rules().model_copy(update=changes | {"n_best": n_best or options.n_best})


def refuse_rules(options: SearchOptions) -> None:
    """UserError for options that were given for steps, which are decoded without them."""
    plain = options.without_rules()
    if given := [name for name, value in options if value != getattr(plain, name)]:
        raise UserError(f"{' and '.join(given)}: steps are decoded without; leave it out")


def decoded(model: TrainedModel, source: str | Sequence[str], steps: Iterator[DecodedStep]) -> DecodedSteps:
    """The record of a translation with these steps."""
    found, codec = tuple(steps), model.target.given(source)
    states = next((len(step.weights) for step in found if step.weights is not None), None)
    return DecodedSteps(
        source_tokens(model, source, states),
        read_as(model, source),
        codec.decode(codec.vocabulary.lookup_indices(step.token for step in found)),
        sum(step.log_probability for step in found),
        found,
    )


def source_tokens(model: TrainedModel, source: str | Sequence[str], states: int | None = None) -> tuple[str, ...]:
    """The tokens that the decoder reads, `</s>` last; of another source, what its states are called."""
    item = source_item(model, source)
    return model.source_labels(source, states) if isinstance(source, str) else (*source[: len(item) - 1], SPECIALS[EOS])


def read_as(model: TrainedModel, source: str | Sequence[str]) -> tuple[ReadAs, ...]:
    """The words of a source that are read otherwise than they are written; none if it is given as tokens."""
    return tuple(model.source.read_as(source)) if isinstance(source, str) else ()


def source_item(model: TrainedModel, source: str | Sequence[str]) -> Item:
    """The item of a line, or the ids of tokens, cut as in a search. UserError: it is blank, or a token is unknown."""
    if isinstance(source, str):
        (item,) = model.source.items([source])
    else:
        vocabulary = model.text_source("a list of tokens").given(source).vocabulary
        item = [*_known_ids(vocabulary, source, "source"), EOS]
    if model.source.length(item) <= 0:
        raise UserError("a blank sentence has no steps; give one with text")
    cut: Item = model.limits.cut(item)
    return cut


def prefix_ids(model: TrainedModel, source: str | Sequence[str], prefix: str | Sequence[str]) -> list[int]:
    """The ids of text, or tokens, with which the translation of a source begins. UserError: a token cannot be in it."""
    codec = model.target.given(source)
    tokens = codec.pieces(prefix) if isinstance(prefix, str) else prefix
    return _known_ids(codec.vocabulary, tokens, "prefix")


def _known_ids(vocabulary: Vocabulary, tokens: Sequence[str], name: str) -> list[int]:
    for token in tokens:
        if token not in vocabulary or token in SPECIALS[PAD:]:
            hint = f"give {SPECIALS[UNK]} for an unknown one"
            raise UserError(f"{name}: {token!r} is not in this model's vocabulary, or not allowed there; {hint}")
    return vocabulary.lookup_indices(tokens)


def _after(options: SearchOptions, count: int) -> SearchOptions:
    """The options for what follows the first `count` tokens of a translation."""
    shorter = {name: getattr(options, name) - count for name in ("max_length", "max_length_margin")}
    return options.model_copy(update=shorter | {"min_length": max(1, options.min_length - count)})


class _State(NamedTuple):
    """The state of the model after some steps: N hypotheses of the sentence, then N of each other sentence."""

    inner: Any
    steps: int
    hypotheses: int  # N
    copies: int

    def select(self, rows: Tensor) -> _State:
        everywhere = torch.cat([rows + copy * self.hypotheses for copy in range(self.copies)])
        return self._replace(inner=self.inner.select(everywhere), hypotheses=len(rows))


class _StepByStep(Wrapper):
    """The model of one sentence after a prefix; beside it, the other sentences whose contexts are read."""

    def __init__(
        self,
        model: TrainedModel,
        source: str | Sequence[str],
        interventions: Sequence[Intervention],
        prefix: Sequence[int] = (),
    ) -> None:
        super().__init__(model.fused)
        self.trained = model
        self.vocabulary = model.target.given(source).vocabulary
        self.opened = IntervenedModel(self.inner)
        self.interventions = interventions
        items = [source_item(model, each) for each in (source, *other_sources(interventions))]
        with torch.inference_mode():
            self.memory = self.opened.model.encode(model.source.collate(items).to(model.device))
        self.is_state = self.memory.is_state
        check_interventions(interventions, self.opened, int(self.is_state[0].sum()))
        self.prefix = [self.inner.start_token, *prefix]
        self.start_token = self.prefix[-1]

    def encode(self, source: Any) -> Memory:
        return self.memory

    def start(self, memory: Any) -> _State:
        state = self._first(memory)
        for token in self.prefix[:-1]:
            state = self.step(torch.tensor([token], device=self.is_state.device), state, memory).state
        return state

    def _first(self, memory: Any) -> _State:
        """The state before the prefix."""
        return _State(self.opened.model.start(memory), 0, 1, len(self.is_state))

    def step(self, tokens: Tensor, state: _State, memory: Any) -> Step:
        """One step of N hypotheses of the first sentence; every other sentence reads the same tokens."""
        return self.observed_step(tokens, state, memory)[0]

    def observed_step(self, tokens: Tensor, state: _State, memory: Any) -> tuple[Step, Attended | None]:
        """The same, and what all sentences read."""
        self.trained.at_step()
        changes = changes_at(self.interventions, state.steps, self.opened, self.is_state)
        step, attended = self.opened.step(tokens.repeat(state.copies), state.inner, memory, changes)
        after = state._replace(inner=step.state, steps=state.steps + 1)
        count = state.hypotheses
        return Step(step.logits[:count], after, step.weights[:count, self.is_state[0]]), attended

    def steps(self, given: Sequence[int], limit: int, min_length: int = 1) -> Iterator[DecodedStep]:
        """The steps of the given tokens, prefix included, then those of greedy search, until `</s>` or `limit`."""
        state, token = self._first(self.memory), self.inner.start_token
        for number in range(limit):
            forced = given[number] if number < len(given) else None
            record, state, token = self._record(token, state, forced, number + 1 >= min_length)
            yield record
            if token == EOS:
                return

    @torch.inference_mode()
    def _record(self, token: int, state: _State, forced: int | None, may_end: bool) -> tuple[DecodedStep, _State, int]:
        device = self.is_state.device
        output, attended = self.observed_step(torch.tensor([token], device=device), state, self.memory)
        logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
        start = torch.zeros(1, 1, dtype=torch.float32, device=device)
        best = best_continuations(start, logits, 1, may_end)
        chosen = int(best.tokens) if forced is None else forced
        log_probabilities = torch.log_softmax(logits[0], dim=0)
        if not log_probabilities.isfinite().all():
            raise UserError(NOT_FINITE)
        likely = log_probabilities.exp().topk(min(LIKELY, len(log_probabilities)))
        words = self.vocabulary.lookup_tokens([chosen, *likely.indices.tolist()])
        if any(each.other is not None and each.step in (None, state.steps) for each in self.interventions):
            attended = None  # in another sentence
        record = DecodedStep(
            token=words[0],
            log_probability=float(log_probabilities[chosen]),
            weights=None if attended is None else output.weights[0].tolist(),
            layers=[] if attended is None else self._layers(attended),
            likely=list(map(Likely, words[1:], likely.values.tolist())),
        )
        return record, output.state, chosen

    def _layers(self, attended: Attended) -> list[LayerReading]:
        """What the layers read of the first sentence, with one hypothesis for each sentence."""
        parts = attended.weights, attended.scores, attended.contributions
        weights, scores, contributions = (part[0, :, 0, self.is_state[0]] for part in parts)
        if not contributions.isfinite().all():
            raise UserError("the contributions of the weights are no longer finite; give smaller weights")
        known = [[None if abs(score) == math.inf else score for score in row] for row in scores.tolist()]
        found = []
        for layer, has_scores in enumerate(self.opened.has_scores):
            own = self.opened.heads_of(layer)
            rows = known[own] if has_scores else None
            found.append(LayerReading(weights[own].tolist(), rows, contributions[own].tolist()))
        return found
