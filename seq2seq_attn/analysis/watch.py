"""A translator that keeps what passes: every hypothesis that a search went on with, and where it looked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention import Attention, KeyValueAttention, Scorer, Source
from seq2seq_attn.models.translator import Decoded, Sentences, Step, Translator
from seq2seq_attn.text.vocabulary import BOS, EOS, PAD


class Visit(NamedTuple):
    """One hypothesis after one token: what it expects next, and what it read of the source to expect it."""

    parent: int  # the visit before; -1: there is none, as the token is `<s>`
    token: int
    log_probabilities: Tensor  # (V,) of the next token
    weights: Tensor  # (S,) a_j
    scores: Tensor | None  # (S,) e_j; None where the weights are not made of one score a position


class Edge(NamedTuple):
    """A token after the hypothesis of a visit."""

    visit: int
    token: int


class WatchedState(NamedTuple):
    """A state, and at which visit each of its hypotheses is."""

    inner: Any
    visits: Tensor  # (N,) int64, on the CPU

    def select(self, rows: Tensor) -> WatchedState:
        return WatchedState(self.inner.select(rows), self.visits.index_select(0, rows.cpu()))


class Watched(Translator):
    """The same model of p(target | source), for one sentence at a time; `visits` grows with every step.

    A search reorders its hypotheses by `state.select` and by nothing else, so a state that carries its visit tells the
    tree of any search, which need not know of it.
    """

    def __init__(self, inner: Translator) -> None:
        super().__init__()
        self.inner = inner
        self.start_token = inner.start_token
        self.scorer = _scorer(inner)
        self.visits: list[Visit] = []
        self.norms: Tensor | None = None  # (S,) |v_j| of what is summed under the weights

    def tree(self) -> Iterator[Edge]:
        """Every token that a hypothesis went on with, each after the one before it."""
        known = {0}
        for number, visit in enumerate(self.visits):
            # Where the vocabulary is smaller than the beam, its places are filled with what may not be said.
            if visit.parent in known and visit.token not in (PAD, BOS, EOS):
                known.add(number)
                yield Edge(visit.parent, visit.token)

    def path(self, tokens: Iterable[int]) -> list[Edge]:
        """The edges of a translation; but for the last token, the model must have read all of it."""
        after = {(visit.parent, visit.token): number for number, visit in enumerate(self.visits)}
        edges, at = [], 0
        for token in tokens:
            edges.append(Edge(at, token))
            at = after.get(edges[-1], -1)
        return edges

    def before(self, edge: Edge) -> Edge:
        """The edge that leads to it; one that leads nowhere before the first."""
        visit = self.visits[edge.visit]
        return Edge(visit.parent, visit.token)

    def encode(self, source: Sentences) -> Any:
        memory = self.inner.encode(source)
        if self.scorer is not None:
            (read,) = self.inner.sources_read(memory)
            if isinstance(read, Source):
                self.norms = torch.linalg.vector_norm(read.values[0].float(), dim=-1).cpu()
        return memory

    def start(self, memory: Any) -> WatchedState:
        return WatchedState(self.inner.start(memory), torch.tensor([-1]))

    def step(self, tokens: Tensor, state: WatchedState, memory: Any) -> Step:
        with _overheard(self.scorer) as heard:
            taken = self.inner.step(tokens, state.inner, memory)
        # A scorer may say -inf of what it never reads, which JSON cannot.
        has_scores = bool(heard) and bool(heard[0].isfinite().all())
        scores = heard[0].flatten(0, 1).float().cpu() if has_scores else [None] * len(tokens)
        first = len(self.visits)
        rows = zip(
            state.visits.tolist(),
            tokens.tolist(),
            torch.log_softmax(taken.logits.float(), dim=-1).cpu(),
            taken.weights.float().cpu(),
            scores,
            strict=True,
        )
        self.visits += [Visit(*row) for row in rows]
        return taken._replace(state=WatchedState(taken.state, torch.arange(first, len(self.visits))))

    def decode(self, inputs: Tensor, memory: Any) -> Decoded:
        return self.inner.decode(inputs, memory)

    def project(self, features: Tensor) -> Tensor:
        return self.inner.project(features)


def _scorer(translator: Translator) -> Scorer | None:
    """The scorer of attention whose context is the weighted sum alone; heads and chunks have more than one."""
    contexts = translator.contexts_that_read()
    context = contexts[0] if len(contexts) == 1 else None
    if isinstance(context, KeyValueAttention):
        context = context.attention
    return context.scorer if isinstance(context, Attention) else None


@contextmanager
def _overheard(scorer: Scorer | None) -> Iterator[list[Tensor]]:
    """What the scorer says inside, a tensor a call: a step hands out the weights alone."""
    heard: list[Tensor] = []
    if scorer is None:
        yield heard
        return
    handle = scorer.register_forward_hook(lambda _scorer, _inputs, scores: heard.append(scores))
    try:
        yield heard
    finally:
        handle.remove()
