"""A model that is told at every step what its decoder reads of the source, and that records what each layer read.

An analysis changes the steps of one sentence with it (`analysis/step_interventions.py`), a trace of a search only
records them (`analysis/beam_trace.py`), and an exported graph takes the changes as its inputs (`export/graphs.py`).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, Context, Normalizer
from seq2seq_attn.attention.contexts.counterfactual import CounterfactualSource, RecomputedContext, uniform
from seq2seq_attn.attention.shapes import Contexts, Weights
from seq2seq_attn.models.replace import replace_modules
from seq2seq_attn.models.seq2seq import Seq2Seq, Step


class Changes(NamedTuple):
    """What is read instead at one step, for B sentences, the R heads of all L layers together, and S positions.

    C_i = Σ_j a'_ij v_j, where a' are the weights `given`, equal ones, or normalize'(e_i / t) for the model's own scores
    e_i; a context that is read from another row is that row's.
    """

    given: Tensor  # (B, R, S) weights
    is_given: Tensor  # (B, R) bool: where the weights are those given
    is_uniform: Tensor  # (B, R) bool: where every token gets the same weight instead; the sum of the weights stays
    reads: Tensor  # (B, L) int64: the row whose context is read; its own number: no change
    temperatures: Tensor | None = None  # (R,) t, of the first sentence alone
    normalizers: Mapping[int, Normalizer] = {}  # by head of all R, of the first sentence alone


class Attended(NamedTuple):
    """What a step with K hypotheses per sentence read, by the R heads of all layers together."""

    weights: Tensor  # (B, R, K, S)
    scores: Tensor  # (B, R, K, S) e, before temperature and normalizer; NaN where the context is no `Attention`
    values: tuple[Tensor, ...]  # v_j of each layer (B, its heads, S, D)

    @property
    def norms(self) -> Tensor:
        """|v_j| (B, R, S)."""
        return torch.cat([torch.linalg.vector_norm(values.float(), dim=-1) for values in self.values], dim=1)

    @property
    def contributions(self) -> Tensor:
        """|a_j v_j| (B, R, K, S), how far position j moves C (Kobayashi et al. 2020)."""
        return self.weights.abs() * self.norms[:, :, None]


class IntervenedModel:
    """`model` shares all parameters with the translator, whose modules are left as they are; for one thread."""

    def __init__(self, translator: Seq2Seq) -> None:
        contexts = translator.contexts_that_read()
        readers = [context.reader() for context in contexts]
        self.heads = [context.heads for context in contexts]  # of each layer that reads the source
        self.has_scores = [isinstance(reader, Attention) for reader in readers]
        self.changes: Changes | None = None
        self.scores: dict[int, Tensor] = {}  # of the current step, by layer
        self.attended: dict[int, tuple[Tensor, Tensor, Tensor]] = {}  # likewise
        replacements: dict[nn.Module, nn.Module] = {
            reader: _Intervened(self._hooked(reader, layer), layer, self) for layer, reader in enumerate(readers)
        }
        self.model = replace_modules(translator, replacements).eval()

    def step(
        self, tokens: Tensor, state: Any, memory: Any, changes: Changes | None = None
    ) -> tuple[Step, Attended | None]:
        """The step of `model` under these changes, and what it read; None if the model reads no single positions."""
        self.changes = changes
        step = self.model.step(tokens, state, memory)
        layers = [self.attended[layer] for layer in range(len(self.heads))]
        self.changes, self.scores, self.attended = None, {}, {}
        if not layers:
            return step, None
        weights, scores, values = zip(*layers, strict=True)
        return step, Attended(torch.cat(weights, dim=1), torch.cat(scores, dim=1), values)

    def heads_of(self, layer: int) -> slice:
        """The heads of a layer among those of all layers."""
        first = sum(self.heads[:layer])
        return slice(first, first + self.heads[layer])

    def _hooked(self, reader: Context, layer: int) -> Context:
        """The reader with copies of its scorer and normalizer; the originals may be in use by other threads."""
        if not isinstance(reader, Attention):
            return reader
        return replace_modules(
            reader,
            {
                reader.scorer: _with_hook(reader.scorer, partial(self._after_scorer, layer)),
                reader.normalizer: _with_hook(reader.normalizer, partial(self._after_normalizer, layer)),
            },
        )

    def _after_scorer(self, layer: int, _scorer: nn.Module, _inputs: Any, scores: Tensor) -> Tensor | None:
        self.scores[layer] = scores
        if self.changes is None or self.changes.temperatures is None:
            return None
        divisors = scores.new_ones(len(scores), 1, 1)  # (B * heads, 1, 1)
        divisors[: self.heads[layer], 0, 0] = self.changes.temperatures[self.heads_of(layer)]
        return scores / divisors

    def _after_normalizer(self, layer: int, _own: nn.Module, inputs: Any, weights: Tensor) -> Tensor | None:
        if self.changes is None or not self.changes.normalizers:
            return None
        scores, is_token, *_ = inputs
        weights = weights.clone()
        for row, head in enumerate(range(sum(self.heads))[self.heads_of(layer)]):
            if (normalizer := self.changes.normalizers.get(head)) is not None:
                mask = None if is_token is None else is_token.expand_as(scores)[row]
                weights[row] = normalizer(scores[row], mask)
        return weights


class _Intervened(RecomputedContext):
    """The context of one layer, under the changes of the current step."""

    def __init__(self, context: Context, layer: int, model: IntervenedModel) -> None:
        super().__init__(context, model.heads[layer])
        self.layer = layer
        self.model = model

    def recomputed(
        self, contexts: Contexts, weights: Weights, source: CounterfactualSource
    ) -> tuple[Contexts, Weights]:
        if (changes := self.model.changes) is not None:
            own = self.model.heads_of(self.layer)
            given, is_given, is_uniform = (each[:, own].flatten(0, 1)[:, None] for each in changes[:3])
            weights = torch.where(is_uniform[..., None], uniform(weights, source.is_token), weights)
            weights = torch.where(is_given[..., None], given.to(weights.dtype), weights)
            is_changed = (is_given | is_uniform)[..., None]
            contexts = torch.where(is_changed, torch.bmm(weights, source.values), contexts)
            reads = changes.reads[:, self.layer]
            contexts, weights = (
                self._by_head(each).index_select(0, reads).flatten(0, 1) for each in (contexts, weights)
            )
        scores = self.model.scores.get(self.layer)
        self.model.attended[self.layer] = (
            self._by_head(weights),
            self._by_head(torch.full_like(weights, torch.nan) if scores is None else scores.float()),
            self._by_head(source.values),
        )
        return contexts, weights

    def _by_head(self, rows: Tensor) -> Tensor:
        """(B, heads, ...) of the rows (B * heads, ...)."""
        return torch.unflatten(rows, 0, (-1, self.heads))


def _with_hook(part: nn.Module, hook: Callable[..., Tensor | None]) -> nn.Module:
    """A copy of the part with this hook and those that it has."""
    copied = copy.copy(part)
    copied.__dict__["_forward_hooks"] = OrderedDict(part._forward_hooks)
    copied.register_forward_hook(hook)
    return copied
