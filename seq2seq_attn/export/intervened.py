"""Interventions in a graph of one step: weights that replace those of the model, and the context of another sentence.

They are the interventions of `analysis/step_interventions.py` for rows of a batch, given as inputs of the graph. Its
further outputs are what a step reads: the weights of every head, the scores before the normalizer, and the
contributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Attention, Context
from seq2seq_attn.attention.contexts.counterfactual import CounterfactualSource, RecomputedContext, uniform
from seq2seq_attn.attention.shapes import Contexts, Weights
from seq2seq_attn.models.replace import replace_modules
from seq2seq_attn.models.seq2seq import Seq2Seq

# The further inputs of a step, for B sentences, R heads of all layers together, and L layers.
INPUTS = {
    "given": ("float32", ("sentences", "heads", "positions")),  # weights
    "is_given": ("bool", ("sentences", "heads")),  # where the weights are those given
    "is_uniform": ("bool", ("sentences", "heads")),  # where every token gets the same weight instead
    "reads": ("int64", ("sentences", "layers")),  # the row whose context is read; its own number: no change
}
OUTPUTS = dict.fromkeys(("read", "scores", "contributions"), ("float32", ("sentences", "heads", "positions")))


class IntervenedModel:
    """A model with inputs for interventions; `translator` is the model that takes them from `given`."""

    def __init__(self, translator: Seq2Seq) -> None:
        self.given: Sequence[Tensor] = ()  # of the current step, in the order of INPUTS
        self.read: list[Sequence[Tensor]] = []  # by the layers of the current step, in the order of OUTPUTS
        self.scores: Tensor | None = None  # the last that a scorer computed
        contexts = translator.contexts_that_read()
        self.heads = [context.heads for context in contexts]
        readers: dict[nn.Module, nn.Module] = {}
        scorers = set()
        for layer, context in enumerate(contexts):
            reader = context.reader()
            readers[reader] = _Given(reader, layer, self)
            if isinstance(reader, Attention):
                scorers.add(reader.scorer)
        for scorer in scorers:
            scorer.register_forward_hook(self._remember)
        self.translator = replace_modules(translator, readers).eval()

    def sizes(self) -> dict[str, int]:
        """The sizes that the shapes of INPUTS and OUTPUTS name."""
        return {"heads": sum(self.heads), "layers": len(self.heads)}

    def begin(self, given: Sequence[Tensor]) -> None:
        """Apply these in the next step; they are in the order of INPUTS."""
        self.given, self.read = given, []

    def end(self) -> list[Tensor]:
        """What all layers read at this step, in the order of OUTPUTS."""
        found = [torch.cat(parts, dim=1) for parts in zip(*self.read, strict=True)]
        self.given, self.read = (), []
        return found

    def _remember(self, _scorer: nn.Module, _inputs: Any, scores: Tensor) -> None:
        self.scores = scores


class _Given(RecomputedContext):
    """The context of one layer, recomputed where the inputs of the step say so."""

    def __init__(self, context: Context, layer: int, interventions: IntervenedModel) -> None:
        super().__init__(context, interventions.heads[layer])
        self.layer = layer
        self.interventions = interventions

    def recomputed(
        self, contexts: Contexts, weights: Weights, source: CounterfactualSource
    ) -> tuple[Contexts, Weights]:
        contexts, weights = self.by_sentence(contexts), self.by_sentence(weights)
        if not self.interventions.given:  # an example of the state, not a step of the graph
            return self.by_head(contexts), self.by_head(weights)
        first = sum(self.interventions.heads[: self.layer])
        own = slice(first, first + self.heads)
        given, is_given, is_uniform, reads = self.interventions.given
        is_token = source.is_token[:: self.heads]
        weights = torch.where(is_uniform[:, own, None], uniform(weights, is_token), weights)
        weights = torch.where(is_given[:, own, None], given[:, own], weights)
        changed = self.by_sentence(torch.bmm(self.by_head(weights), source.values))
        is_changed = (is_given | is_uniform)[:, own].any(dim=1)
        contexts = torch.where(is_changed[:, None, None], changed, contexts)
        contexts, weights = (each.index_select(0, reads[:, self.layer]) for each in (contexts, weights))
        norms = self.by_sentence(torch.linalg.vector_norm(source.values.float(), dim=-1)[:, None])
        scores, self.interventions.scores = self.interventions.scores, None
        raw = torch.full_like(weights, torch.nan) if scores is None else self.by_sentence(scores.float())
        self.interventions.read.append((weights, raw, weights.abs() * norms))
        return self.by_head(contexts), self.by_head(weights)
