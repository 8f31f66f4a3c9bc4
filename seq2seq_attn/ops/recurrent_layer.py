"""A recurrent layer over packed sentences.

Reference implementation: torch's own layer. Its CPU kernel cuts the steps out of one tensor, and in the backward pass
every cut fills a tensor of the whole batch with zeros: training time quadratic in length. The fused form takes the
steps one by one on rows that are split once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2seq_attn.ops.dispatch import changed, unserved
from seq2seq_attn.ops.gru import first_rows, gru_sequence, gru_update
from seq2seq_attn.ops.linear import linear

Update = Callable[
    [Tensor, Tensor, Tensor], Tensor
]  # inputs to the gates, product with the state, state: the next state


def read_packed(layer: nn.Module, packed: PackedSequence, update: Update, state_blocks: int = 1) -> PackedSequence:
    """The outputs of a one-layer `nn.GRU`, `nn.LSTM` or `nn.RNN` of which `update` is the equation.

    The first of `state_blocks` blocks of the state is the output.
    """
    # Torch's kernel is the faster one for the single sentence of an interactive translation.
    single = not torch.is_grad_enabled() and packed.batch_sizes[0] == 1
    if single or why_not(layer) is not None or unserved(packed.data) is not None:
        weight: Tensor = next(layer.parameters())
        with torch.autocast("cpu", enabled=False):  # under which the layer would cast its weights at every step
            read: PackedSequence = layer(packed._replace(data=packed.data.to(weight.dtype)))[0]
        return read
    counts: list[int] = packed.batch_sizes.tolist()
    outputs = []
    for ending in ("l0", "l0_reverse")[: 2 if layer.bidirectional else 1]:
        weights = (getattr(layer, f"{name}_{ending}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh"))
        input_weight, input_bias, weight, bias = weights
        inputs = linear(packed.data, input_weight, input_bias)
        reverse = ending != "l0"
        if update is gru_update:
            outputs.append(gru_sequence(inputs, counts, None, weight, bias, reverse))
        else:
            outputs.append(_step_by_step(inputs, counts, weight, bias, reverse, update, state_blocks))
    return packed._replace(data=torch.cat(outputs, dim=-1))


def why_not(layer: nn.Module) -> str | None:
    """Why torch's own layer is taken; None if the fused form is."""
    if (reason := unserved(*layer.parameters()) or changed(layer)) is not None:
        return reason
    if next(layer.parameters()).device.type != "cpu":
        return "the device has recurrent layers of its own"
    plain = isinstance(layer, nn.RNNBase) and layer.num_layers == 1 and layer.bias and layer.mode != "RNN_RELU"
    return None if plain and layer.proj_size == 0 else f"{type(layer).__name__} is not one plain layer"


def _step_by_step(
    inputs: Tensor, counts: list[int], weight: Tensor, bias: Tensor, reverse: bool, update: Update, state_blocks: int
) -> Tensor:
    """H (M, hidden_size) after each step over packed sentences, from zero states."""
    size = weight.shape[1]
    steps = torch.split(inputs, counts)
    state, outputs = inputs.new_zeros(0, state_blocks * size), []
    for step in steps[::-1] if reverse else steps:
        state = first_rows(state, len(step))  # sentences end or, read backwards, begin
        state = update(step, linear(state[..., :size], weight, bias), state)
        outputs.append(state[..., :size])
    return torch.cat(outputs[::-1] if reverse else outputs)
