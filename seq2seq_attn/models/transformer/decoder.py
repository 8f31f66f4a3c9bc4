"""The decoder of a Transformer."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from seq2seq_attn.attention import Context, PreparedSource
from seq2seq_attn.models.transformer.layers import DecoderLayer, LayerState
from seq2seq_attn.models.transformer.stack import LayerStack


class TransformerState(NamedTuple):
    """The input of the next step, for N hypotheses."""

    layers: tuple[LayerState, ...]
    steps: int  # taken so far

    def select(self, rows: Tensor) -> TransformerState:
        return self._replace(layers=tuple(layer.select(rows) for layer in self.layers))


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

    def _layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.layers]
