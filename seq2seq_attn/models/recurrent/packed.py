"""A recurrent layer over packed sentences, step by step.

The same numbers as torch's own layer. Its CPU kernel cuts the steps out of one tensor, and on the way back every cut
fills a tensor of the whole batch with zeros: training time quadratic in length. Here no step does.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from seq2seq_attn.models.recurrent.cells import SingleCell
from seq2seq_attn.ops.linear import linear


def run_packed(layer: nn.RNNBase, cell: type[SingleCell], packed: PackedSequence) -> PackedSequence:
    """The outputs of a one-layer `nn.GRU`, `nn.LSTM` or `nn.RNN` whose equation is that of `cell`."""
    counts: list[int] = packed.batch_sizes.tolist()
    outputs = []
    for reverse in range(2 if layer.bidirectional else 1):
        ending = "l0_reverse" if reverse else "l0"
        weights = (getattr(layer, f"{name}_{ending}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh"))
        from_input, input_bias, recurrent, recurrent_bias = weights
        gates = linear(packed.data, from_input, input_bias)
        outputs.append(cell.read(gates, counts, recurrent, recurrent_bias, reverse=bool(reverse)))
    return packed._replace(data=torch.cat(outputs, dim=-1))
