"""Traces of a beam search: the tree of all hypotheses that a search continued, with the weights of every step.

A `TracingModel` wraps a model and records its steps. A search reorders hypotheses by `state.select` alone, so a
state that carries the number of its step is enough to reconstruct the tree of any search, without changes to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.corpora.vocabulary import BOS, EOS, PAD, Vocabulary
from seq2seq_attn.models.intervened import IntervenedModel
from seq2seq_attn.models.seq2seq import Memory, Seq2Seq, Step, Wrapper
from seq2seq_attn.results.examples import BeamHypothesis, DecodingStep, DecodingTrace
from seq2seq_attn.runs.corpora import TestSet, nearest_lines
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import device_of, quantized_for, search
from seq2seq_attn.search.hypotheses import Hypothesis

TRACED_BEAM_SIZE = 4  # a wider tree does not fit a page; for a run that searches greedily, it shows the alternatives
EXAMPLE_LENGTHS = (8, 15, 24)  # source words of the examples
EXAMPLE_SHARES = (0.1, 0.5, 0.9)  # of the sources that are not text, how many are shorter than each example


def example_lines(test_set: TestSet, is_text: bool = True) -> list[int]:
    """The indices of the test pairs shown as examples: the first pair nearest to each of EXAMPLE_LENGTHS.

    Other sources than text are chosen by the shares of shorter ones.
    """
    if is_text:
        return nearest_lines(test_set, EXAMPLE_LENGTHS)
    by_length = sorted(test_set.pairs.filled, key=test_set.source_lengths.__getitem__)
    return sorted({by_length[int(share * len(by_length))] for share in EXAMPLE_SHARES})


def trace_pair(model: TrainedModel, arm: str, source: str, reference: str) -> DecodingTrace | None:
    """The beam search for a source sentence, and forced decoding of its reference, step by step.

    The search is that of the model's configuration with a beam of TRACED_BEAM_SIZE. None if a number of it is not
    finite, as after a run that has all but diverged.
    """
    front_end, is_text = model.source, not model.source.names_files
    ids, codec = model.limits.cut(front_end.encode(source)), model.target.given(source)
    target, vocabulary = codec.encode(reference), codec.vocabulary
    changes = {"beam_size": TRACED_BEAM_SIZE, "n_best": TRACED_BEAM_SIZE, "sampling": False, "mbr": None}
    options = model.config.search.model_copy(update=changes | {"beam_groups": 1, "diversity": None})
    searched = TracingModel(quantized_for(options, model.translator))
    forced = TracingModel(model.fused)
    hypotheses = search(searched, [ids], options, collate=front_end.collate, with_weights=True)[0]
    _force_stepwise(forced, front_end.collate([ids]), target)

    paths = [searched.path(_predicted_tokens(hypothesis)) for hypothesis in hypotheses]
    on_a_path = {edge for path in paths for edge in path}
    edges = list(dict.fromkeys([*searched.tree(), *(path[-1] for path in paths)]))
    place = {edge: index for index, edge in enumerate(edges)}
    if not (
        _is_finite(searched, edges)
        and _is_finite(forced, forced.path(target))
        and all(math.isfinite(each.log_probability) and math.isfinite(each.score) for each in hypotheses)
    ):
        return None
    return DecodingTrace(
        arm=arm,
        seed=model.config.seed,
        beam_size=TRACED_BEAM_SIZE,
        source=model.source_labels(source, None if is_text else int(forced.is_state.sum())),
        source_words=tuple(front_end.word_indices(source)[: len(ids) - 1]) if is_text else None,
        target_words=tuple(codec.word_indices(reference)),
        norms=None if searched.value_norms is None else _rounded(searched.value_norms, 3),
        beam=tuple(
            _record(vocabulary, searched, edge, place.get(searched.parent(edge)), edge in on_a_path) for edge in edges
        ),
        hypotheses=tuple(
            BeamHypothesis(place[path[-1]], hypothesis.log_probability, hypothesis.score)
            for path, hypothesis in zip(paths, hypotheses, strict=True)
        ),
        reference=tuple(_record(vocabulary, forced, edge) for edge in forced.path(target)),
        grid=model.rows(source),
    )


def _is_finite(translator: TracingModel, edges: Iterable[Edge]) -> bool:
    """Whether the recorded numbers of these steps, and the norms of the values, can be written as JSON."""
    steps = [(translator.nodes[edge.node], edge.token) for edge in edges]
    numbers = [each for node, token in steps for each in (node.log_probabilities[token], node.weights)]
    if translator.value_norms is not None:
        numbers.append(translator.value_norms)
    return all(bool(each.isfinite().all()) for each in numbers)


def _force_stepwise(translator: TracingModel, source: Source, target: Sequence[int]) -> None:
    """Decodes a given target step by step, as `decode` would not be recorded."""
    device = device_of(translator)
    with torch.inference_mode():
        memory = translator.encode(source.to(device))
        state = translator.start(memory)
        for token in (translator.start_token, *target[:-1]):
            state = translator.step(torch.tensor([token], device=device), state, memory).state


def _predicted_tokens(hypothesis: Hypothesis) -> list[int]:
    """The tokens of a hypothesis, with `</s>` unless it was cut at the maximum length."""
    is_closed = hypothesis.weights is not None and len(hypothesis.weights) > len(hypothesis.tokens)
    return [*hypothesis.tokens, *([EOS] if is_closed else [])]


def _record(
    vocabulary: Vocabulary,
    translator: TracingModel,
    edge: Edge,
    parent: int | None = None,
    with_weights: bool = True,
) -> DecodingStep:
    """The record of a step. Abandoned hypotheses are recorded without weights, to keep the report small."""
    node = translator.nodes[edge.node]
    has_weights = with_weights and bool(node.weights.any())
    (token,) = vocabulary.lookup_tokens([edge.token])
    return DecodingStep(
        token=token,
        log_probability=round(float(node.log_probabilities[edge.token]), 4),
        parent=parent,
        weights=_rounded(node.weights, 4) if has_weights else None,
        scores=_rounded(node.scores, 3) if has_weights and node.scores is not None else None,
    )


def _rounded(values: Tensor, digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values.tolist())


class Node(NamedTuple):
    """A hypothesis after its last token: its distribution over the next token, and the attention that led to it."""

    parent: int  # number of the node one token before; -1 for the root, after `<s>`
    token: int
    log_probabilities: Tensor  # (V,) of the next token
    weights: Tensor  # (S,) a_j
    scores: Tensor | None  # (S,) e_j; None unless there is exactly one finite score per source position


class Edge(NamedTuple):
    """A token that continues the hypothesis of a node."""

    node: int
    token: int


class TracedState(NamedTuple):
    """The state of the wrapped translator, and the node of each hypothesis."""

    inner: Any
    nodes: Tensor  # (N,) int64, on the CPU

    def select(self, rows: Tensor) -> TracedState:
        return TracedState(self.inner.select(rows), self.nodes.index_select(0, rows.cpu()))


class TracingModel(Wrapper):
    """The same model of p(target | source), for one sentence at a time; each step appends to `nodes`."""

    def __init__(self, inner: Seq2Seq) -> None:
        super().__init__(inner)
        self.nodes: list[Node] = []
        self.is_state = torch.ones(0, dtype=torch.bool)  # of the source
        self.value_norms: Tensor | None = None  # (S,) |v_j|; None where the context is not one weighted sum
        self._observed = IntervenedModel(inner)
        self._has_scores = (self._observed.heads, self._observed.has_scores) == ([1], [True])

    def tree(self) -> Iterator[Edge]:
        """Every token that continued a hypothesis, parents before children."""
        known = {0}
        for number, node in enumerate(self.nodes):
            # If the vocabulary is smaller than the beam, the search fills its beam with tokens that it excludes.
            if node.parent in known and node.token not in (PAD, BOS, EOS):
                known.add(number)
                yield Edge(node.parent, node.token)

    def path(self, tokens: Iterable[int]) -> list[Edge]:
        """The edges of a translation; all of its tokens but the last must have been inputs of a step."""
        numbers = {(node.parent, node.token): number for number, node in enumerate(self.nodes)}
        edges, at = [], 0
        for token in tokens:
            edges.append(Edge(at, token))
            at = numbers.get(edges[-1], -1)
        return edges

    def parent(self, edge: Edge) -> Edge:
        """The edge before this one; for the first token, one that is in no tree."""
        node = self.nodes[edge.node]
        return Edge(node.parent, node.token)

    def encode(self, source: Any) -> Memory:
        memory = self._observed.model.encode(source)
        self.is_state = memory.is_state[0].cpu()
        return memory

    def start(self, memory: Memory) -> TracedState:
        return TracedState(self._observed.model.start(memory), torch.tensor([-1]))

    def step(self, tokens: Tensor, state: TracedState, memory: Memory) -> Step:
        step, attended = self._observed.step(tokens, state.inner, memory)
        scores: Sequence[Tensor | None] = [None] * len(tokens)
        if attended is not None and self._has_scores:
            self.value_norms = attended.norms[0, 0].cpu()[self.is_state]
            # A scorer may give -inf to positions that it excludes, which JSON cannot represent.
            if bool(attended.scores.isfinite().all()):
                scores = list(attended.scores[0, 0].cpu()[:, self.is_state])
        first = len(self.nodes)
        rows = zip(
            state.nodes.tolist(),
            tokens.tolist(),
            torch.log_softmax(step.logits.float(), dim=-1).cpu(),
            step.weights.float().cpu()[:, self.is_state],
            scores,
            strict=True,
        )
        self.nodes += [Node(*row) for row in rows]
        return step._replace(state=TracedState(step.state, torch.arange(first, len(self.nodes))))
