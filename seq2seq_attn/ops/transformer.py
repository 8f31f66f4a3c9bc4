"""The layers of a Transformer in one kernel, for inference on a CPU: an encoder, and a step of a decoder.

In models/transformer/layers.py, a step of one layer is some forty operations on small tensors; every step copies the
keys and values of all earlier ones to append its own, and so does every selection of hypotheses. Here, the keys and
values of a step stay where they were written, and a hypothesis has the number of its row in each of them. The encoder
computes no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention import Context, MultiHead, PreparedSource
from seq2seq_attn.models.transformer.decoder import TransformerDecoder
from seq2seq_attn.models.transformer.encoder import TransformerEncoder
from seq2seq_attn.ops import native
from seq2seq_attn.ops.attention import why_not_scaled_dot_heads
from seq2seq_attn.ops.form import Form, changed
from seq2seq_attn.ops.layers import panels, stacked

ACTIVATIONS = ("relu", "gelu", "swiglu")  # in the order of the kernel's enumeration


class PackedLayers(NamedTuple):
    """The parameters of L layers, as the kernels take them."""

    packed: Tensor  # (L, P) float32, in the order in which they are read
    size: int
    arguments: dict[str, Tensor | float]

    @classmethod
    def of(cls, layers: Sequence[Any]) -> PackedLayers:
        """The current parameters of the layers of an encoder or a decoder, where `_why_not` is None."""
        packed, first = torch.stack([_packed(layer) for layer in layers]), layers[0]
        attention, network = first.self_attention.attention, first.feed_forward
        arguments = {
            "count": packed.shape[0], "size": attention.query_size, "heads": attention.heads,
            "hidden_size": network.hidden_layer.out_features, "norm_first": int(first.around_self_attention.is_pre),
            "activation": ACTIVATIONS.index(network.activation), "epsilon": first.around_feed_forward.norm.eps,
            "parameters": packed, "per_layer": packed.shape[1],
        }  # fmt: skip
        return cls(packed, attention.query_size, arguments)


class StepSource(NamedTuple):
    """B sources as all layers of a decoder read them."""

    projected: Tensor  # (B, S, L, 2, size) float32: keys and values of each layer
    lengths: Tensor  # (B,) int64: the first positions of a sentence are tokens, the rest is padding
    places: Tensor | None  # (B, S) int64: where these positions are in the source; None: in this order

    @property
    def sentences(self) -> int:
        """B."""
        return len(self.lengths)

    def select(self, rows: Tensor) -> StepSource:
        """The record with these sentences only, in this order."""
        places = None if self.places is None else self.places.index_select(0, rows)
        return StepSource(self.projected.index_select(0, rows), self.lengths.index_select(0, rows), places)

    def in_order(self, weights: Tensor) -> Tensor:
        """The weights (N, S) of all hypotheses, in the order of the source."""
        if self.places is None:
            return weights
        places = self.places.repeat_interleave(len(weights) // self.sentences, dim=0)
        return torch.empty_like(weights).scatter_(1, places, weights)


class StepState(NamedTuple):
    """The steps of N hypotheses so far."""

    caches: tuple[Tensor, ...]  # of every step: keys and values (L, rows of that step, 2, size)
    slots: Tensor  # (N, steps) int64: the row of each hypothesis in each cache

    def select(self, rows: Tensor) -> StepState:
        """The record with these hypotheses only, in this order."""
        return self._replace(slots=self.slots.index_select(0, rows))


def _why_not(stack: Any) -> str | None:
    """Why the kernels cannot replace the layers of an encoder or a decoder; None if they can."""
    parameters = list(stack.parameters())
    if (reason := changed(stack)) is not None:
        return reason
    if any(parameter.dtype != torch.float32 for parameter in parameters):
        return "the parameters are not in float32"
    if not native.has_kernels(parameters[0]):
        return "there are no kernels"
    return next((reason for layer in stack.layers if (reason := _why_not_layer(layer)) is not None), None)


def _why_not_layer(layer: Any) -> str | None:
    contexts: list[Context] = [layer.self_attention.attention, *([layer.context] if hasattr(layer, "context") else [])]
    for context in contexts:
        if type(context) is not MultiHead:
            return f"the context is {type(context).__name__}, not MultiHead"
        if (reason := why_not_scaled_dot_heads(context)) is not None:
            return reason
    if len({context.heads for context in contexts}) > 1:
        return "self-attention and the context differ in their number of heads"
    if not all(type(part) is nn.Linear for part in layer.modules() if isinstance(part, nn.Linear)):
        return "linear layers were prepared for other products"
    return None


def _packed(layer: Any) -> Tensor:
    """The parameters of a layer, in the order in which the kernel reads them."""
    own, network = layer.self_attention.attention, layer.feed_forward
    sublayers = [(layer.around_self_attention, [[own.query_layer, own.key_layer, own.value_layer], [own.output_layer]])]
    if hasattr(layer, "context"):  # its keys and values are those of `project_source`
        sublayers.append((layer.around_context, [[layer.context.query_layer], [layer.context.output_layer]]))
    products = [network.hidden_layer, network.gate_layer, network.output_layer]
    sublayers.append((layer.around_feed_forward, [[part] for part in products if part is not None]))
    parts = []
    for around, products in sublayers:
        matrices = [part for product in products for part in panels(product)]
        norm = [around.norm.weight, around.norm.bias]
        parts += [*norm, *matrices] if around.is_pre else [*matrices, *norm]
    return torch.cat([part.detach().flatten() for part in parts])


class InferenceEncoder(Form, TransformerEncoder):
    """An encoder with constant weights, all layers in one kernel."""

    stands_for = TransformerEncoder
    covers_parts = True

    @classmethod
    def why_not(cls, module: TransformerEncoder) -> str | None:
        return _why_not(module)

    def pack(self) -> None:
        self.packed = PackedLayers.of(list(self.layers))

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        inputs = self.below(embedded).float().contiguous()
        states = torch.zeros_like(inputs)
        sentences, longest, _ = inputs.shape
        if lengths.shape != (sentences,) or not ((lengths > 0) & (lengths <= longest)).all():
            raise ValueError(f"the encoder needs {sentences} lengths from 1 to {longest}, got {lengths.tolist()}")
        native.run(
            "transformer_encoder", torch.float32, **self.packed.arguments, sentences=sentences, longest=longest,
            lengths=lengths.to(torch.int64).contiguous(), inputs=inputs, states=states,
        )  # fmt: skip
        normed: Tensor = self.final_norm(states)
        return normed


class InferenceDecoder(Form, TransformerDecoder):
    """A decoder with constant weights, all layers of a step in one kernel, in float32."""

    stands_for = TransformerDecoder
    covers_parts = True

    @classmethod
    def why_not(cls, module: TransformerDecoder) -> str | None:
        # Where contexts are projected to the width of the layers, they are not those of multi-head attention.
        if any(type(cast(Any, layer).project) is not nn.Identity for layer in module.layers):
            return "contexts are projected"
        return _why_not(module)

    def pack(self) -> None:
        layers: list[Any] = list(self.layers)
        self.packed = PackedLayers.of(layers)
        parts = [part for layer in layers for part in (layer.context.key_layer, layer.context.value_layer)]
        self.projection = [each.detach() for each in stacked(parts)]  # from the source to keys and values of all layers

    def prepare(self, states: Tensor, is_token: Tensor) -> tuple[PreparedSource, ...]:
        """The source as all layers read it."""
        places = None
        if (is_token[:, 1:] > is_token[:, :-1]).any():  # an encoder of another kind: the kernel reads tokens first
            places = is_token.logical_not().sort(dim=1, stable=True).indices
            states = states.take_along_dim(places[:, :, None], dim=1)
        projected = F.linear(states, *self.projection).float()
        joined = projected.view(*projected.shape[:2], len(self.layers), 2, -1)
        return (StepSource(joined, is_token.sum(dim=1), places),)

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
        """The states (N, size), the next state, and the weights (N, S): their mean over layers and heads.

        The N = B * K hypotheses are K neighbors for each sentence. ValueError: there are not N inputs.
        """
        earlier, source = cast(StepState, state), cast(StepSource, sources[0])
        inputs = self.below(embedded[:, None], len(earlier.caches)).squeeze(1).float().contiguous()
        rows, longest = len(inputs), source.projected.shape[1]
        if rows != len(earlier.slots) or rows % source.sentences:
            raise ValueError(
                f"the decoder needs one token for each of {len(earlier.slots)} hypotheses, as many for each of "
                f"{source.sentences} sentences, got {rows}"
            )
        states, weights = torch.empty_like(inputs), inputs.new_empty(rows, longest)
        cache = inputs.new_empty(len(self.layers), rows, 2, self.packed.size)
        addresses = [each.data_ptr() for each in earlier.caches], [each.shape[1] for each in earlier.caches]
        caches, cache_rows = (torch.tensor(each, dtype=torch.int64, device="cpu") for each in addresses)
        native.run(
            "transformer_step", torch.float32, **self.packed.arguments, rows=rows, inputs=inputs,
            steps=len(earlier.caches), caches=caches, cache_rows=cache_rows, slots=earlier.slots.contiguous(),
            cache=cache, sentences=source.sentences, longest=longest, lengths=source.lengths, source=source.projected,
            states=states, weights=weights,
        )  # fmt: skip
        slots = torch.cat((earlier.slots, torch.arange(rows, device=earlier.slots.device)[:, None]), dim=1)
        return self.final_norm(states), StepState((*earlier.caches, cache), slots), source.in_order(weights)
