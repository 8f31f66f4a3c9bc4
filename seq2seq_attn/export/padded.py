"""The recurrent encoder as a loop over padded sentences: a graph for sentences of any length cannot pack them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.corpora.source import token_mask
from seq2seq_attn.models.encoder import SequenceEncoder
from seq2seq_attn.models.recurrent.cells import RecurrentCell, ScanCell
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder, ScanLayer
from seq2seq_attn.models.replace import replace_modules

Model = TypeVar("Model", bound=nn.Module)


def with_padded_encoders(model: Model) -> Model:
    """The model with every `RecurrentEncoder` in the form below; encoders that a user wrote are left as they are."""
    encoders = [module for module in model.modules() if type(module) is RecurrentEncoder]
    return replace_modules(model, {encoder: PaddedEncoder(encoder) for encoder in encoders})


class PaddedEncoder(SequenceEncoder):
    """The states of a `RecurrentEncoder`, without dropout: on padding, a state stays what it was.

    So the second direction reaches the last word of a sentence with a state of zeros, as over packed sentences.
    """

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.state_size, self.directions = encoder.state_size, encoder.directions

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of embedded sources (B, S, input_size), 0 on padding."""
        mask = token_mask(lengths, embedded).t()[..., None]
        below = embedded.transpose(0, 1)  # time first
        for index, (layer, norm) in enumerate(zip(self.encoder.layers, self.encoder.norms, strict=True)):
            states = norm(torch.cat([self._run(layer, below, mask, way) for way in range(self.directions)], dim=-1))
            below = states + below if self.encoder.residual and index else states
        return (below * mask).transpose(0, 1)

    def _run(self, layer: nn.Module, inputs: Tensor, mask: Tensor, way: int) -> Tensor:
        """The outputs (S, B, hidden_size) of a layer over inputs (S, B, K), in the first direction or the second, 1."""
        cell = cast(Any, self.encoder.cell)
        if issubclass(cell, ScanCell):
            return _scan_layer(cast(ScanLayer, layer), inputs, mask, way)
        return _recurrent_layer(cell, layer, inputs, mask, way)


def _recurrent_layer(cell: type[RecurrentCell], layer: Any, inputs: Tensor, mask: Tensor, way: int) -> Tensor:
    suffix = "l0_reverse" if way else "l0"
    input_weight, input_bias, weight, bias = (
        getattr(layer, f"{name}_{suffix}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    )
    size = weight.shape[1]

    def step(state: Tensor, gates: Tensor, is_token: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
        after = cell.update(gates, F.linear(state[..., :size], weight, bias), state)
        after = torch.where(is_token, after, state)
        return [after, after[..., :size].clone()]

    initial = inputs.new_zeros(inputs.shape[1], cell.states * size)
    return _loop(step, initial, (F.linear(inputs, input_weight, input_bias), mask), (weight, bias), way)


def _scan_layer(layer: ScanLayer, inputs: Tensor, mask: Tensor, way: int) -> Tensor:
    gates = layer.from_input(inputs).chunk(layer.directions, dim=-1)[way]
    decay, addend = layer.cell.terms(gates)

    def step(memory: Tensor, factor: Tensor, term: Tensor, is_token: Tensor) -> list[Tensor]:
        after = torch.where(is_token, factor * memory + term, memory)
        return [after, after.clone()]

    memory = _loop(step, inputs.new_zeros(addend.shape[1:]), (decay, addend, mask), (), way)
    return layer.cell.output(layer.cell.state_of(gates, memory))


def _loop(
    step: Callable[..., list[Tensor]],
    initial: Tensor,
    inputs: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
    way: int,
) -> Tensor:
    """The outputs of all steps, stacked. `step` maps a state and its inputs to the next state and an output.

    torch records the loop itself. Its `scan` compiles the step first, and may then keep sizes of an earlier model, so
    its operator is called here.
    """
    inputs = tuple(tensor.flip(0) for tensor in inputs) if way else inputs
    outputs: Tensor = torch.ops.higher_order.scan(step, [initial], list(inputs), parameters)[1]
    return outputs.flip(0) if way else outputs
