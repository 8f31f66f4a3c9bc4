"""The decoder of a Transformer."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.models.transformer.layers import DecoderLayer, LayerState
from seq2seq_attn.models.transformer.stack import LayerStack
from seq2seq_attn.ops.dispatch import fusible
from seq2seq_attn.ops.transformer import (
    StepSource,
    StepState,
    packed_layers,
    project_source,
    source_projection,
    transformer_step,
    why_not,
)


class TransformerState(NamedTuple):
    """The input of the next step, for N hypotheses."""

    layers: tuple[LayerState, ...]
    steps: int  # taken so far

    def select(self, rows: Tensor) -> TransformerState:
        return self._replace(layers=tuple(layer.select(rows) for layer in self.layers))


@fusible
class TransformerDecoder(LayerStack):
    """States H_1..H_T of a target: layers that each read the source through a context (Vaswani et al. 2017, sec. 3.1).

    The weights are the mean over the layers; those of a context are the mean over its heads.
    """

    def contexts(self) -> list[Context]:
        """The context of each layer."""
        return [layer.context for layer in self._layers()]

    def prepare(self, states: Tensor, is_token: Tensor) -> tuple[PreparedSource, ...]:
        """The source as each layer reads it."""
        return tuple(layer.context.prepare(states, is_token=is_token) for layer in self._layers())

    def start(self, sources: tuple[PreparedSource, ...]) -> Any:
        """The state (Rows) before the first step, one hypothesis per sentence."""
        pairs = zip(self._layers(), sources, strict=True)
        return TransformerState(tuple(layer.start(source) for layer, source in pairs), 0)

    def forward(
        self, embedded: Tensor, sources: tuple[PreparedSource, ...], need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """All steps of known targets (B, T, size): states (B, T, size), and weights (B, T, S) or None."""
        x = self.below(embedded)
        read = []
        for layer in self.kept():
            x, weights = self.layers[layer](x, sources[layer], need_weights)
            read.append(weights)
        return self.final_norm(x), torch.stack(read).mean(dim=0) if need_weights else None

    def step(self, embedded: Tensor, state: Any, sources: tuple[PreparedSource, ...]) -> tuple[Tensor, Any, Tensor]:
        """One step of N hypotheses (N, size): states (N, size), the next state, and weights (N, S)."""
        x = self.below(embedded[:, None], state.steps)
        after, read = [], []
        for layer, own, source in zip(self._layers(), state.layers, sources, strict=True):
            x, own, weights = layer.step(x, own, source)
            after.append(own)
            read.append(weights)
        hidden = self.final_norm(x).squeeze(1)
        return hidden, TransformerState(tuple(after), state.steps + 1), torch.stack(read).mean(dim=0)

    def for_inference(self) -> InferenceDecoder | None:
        """The decoder with its current weights and faster steps; None if there are none for its layers."""
        layers = self._layers()
        # Where contexts are projected to the width of the layers, they are not those of multi-head attention.
        has_kernel = all(type(layer.project) is nn.Identity for layer in layers) and why_not(self, layers) is None
        return InferenceDecoder(self) if has_kernel else None

    def _layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.layers]


class InferenceDecoder(TransformerDecoder):
    """A decoder with constant weights, whose steps are computed by `ops.transformer`."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(decoder.__dict__)
        self.packed = packed_layers(self._layers())
        self.source_projection = source_projection(self._layers())

    def prepare(self, states: Tensor, is_token: Tensor) -> tuple[PreparedSource, ...]:
        """The source as all layers read it."""
        return (project_source(states, is_token.sum(dim=1), self.source_projection),)

    def start(self, sources: tuple[PreparedSource, ...]) -> StepState:
        return StepState((), torch.empty(sources[0].sentences, 0, dtype=torch.int64))

    def forward(
        self, embedded: Tensor, sources: tuple[PreparedSource, ...], need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        state, steps = self.start(sources), []
        for inputs in embedded.unbind(1):
            hidden, state, weights = self.step(inputs, state, sources)
            steps.append((hidden, weights))
        states, read = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        return states, read if need_weights else None

    def step(
        self, embedded: Tensor, state: Any, sources: tuple[PreparedSource, ...]
    ) -> tuple[Tensor, StepState, Tensor]:
        inputs = self.below(embedded[:, None], len(state.caches)).squeeze(1)
        states, state, weights = transformer_step(inputs, state, cast(StepSource, sources[0]), self.packed)
        return self.final_norm(states), state, weights
