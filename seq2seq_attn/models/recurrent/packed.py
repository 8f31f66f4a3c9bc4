"""A recurrent layer over packed sentences, step by step.

The same numbers as torch's own layer. Its CPU kernel cuts the steps out of one tensor, and on the way back every cut
fills a tensor of the whole batch with zeros: training time quadratic in length. Here no step does.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2seq_attn.models.recurrent.cells import Cell


def run_packed(layer: nn.RNNBase, cell: type[Cell], packed: PackedSequence) -> PackedSequence:
    """The outputs of a one-layer `nn.GRU`, `nn.LSTM` or `nn.RNN` whose equation is that of `cell`."""
    counts: list[int] = packed.batch_sizes.tolist()
    outputs = []
    for reverse in range(2 if layer.bidirectional else 1):
        ending = "l0_reverse" if reverse else "l0"
        weights = (getattr(layer, f"{name}_{ending}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh"))
        from_input, input_bias, recurrent, recurrent_bias = weights
        gates = torch.split(F.linear(packed.data, from_input, input_bias), counts)
        states = _run(cell, gates[::-1] if reverse else gates, recurrent, recurrent_bias)
        outputs.append(torch.cat(states[::-1] if reverse else states))
    return packed._replace(data=torch.cat(outputs, dim=-1))


def _run(cell: type[Cell], steps: Iterable[Tensor], weight: Tensor, bias: Tensor) -> list[Tensor]:
    """H (n_t, hidden_size) after each step; the rows of a step are the first of those of a longer one."""
    state, outputs = None, []
    for gates in steps:
        if state is None:
            state = gates.new_zeros(len(gates), cell.states * weight.shape[1])
        elif len(gates) < len(state):  # sentences end
            state = state[: len(gates)]
        elif len(gates) > len(state):  # read backwards, sentences begin
            state = F.pad(state, (0, 0, 0, len(gates) - len(state)))
        state = cell.update(gates, F.linear(cell.output(state), weight, bias), state)
        outputs.append(cell.output(state))
    return outputs
