"""Recurrent cells, cut where the decoder needs the cut: the input's share of the gates comes from outside.

A cell sees its input only as gate pre-activations g = W x + b. Whoever owns the input computes g, for all steps in
one product where the input is known beforehand, and only the product with the previous state stands in the loop.

A state is one tensor (N, state_size) whose first `hidden_size` columns are the output H.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from seq2seq_attn.ops.dispatch import known
from seq2seq_attn.ops.gru import gru_sequence, gru_update, why_not_sequence
from seq2seq_attn.ops.linear import Linear


class Cell(nn.Module, ABC):
    """One recurrent step H_i = f(g_i, H_{i-1}), with g_i (N, gate_size) the input's share of the gates.

    With `layer_norm`, both shares are normalised before they are added (Ba et al. 2016, eq. 20-22).
    """

    gates: ClassVar[int]  # blocks of hidden_size in the pre-activations
    states: ClassVar[int] = 1  # blocks of hidden_size in the state

    def __init__(self, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.layer_norm = layer_norm
        self.gate_size = self.gates * hidden_size
        self.state_size = self.states * hidden_size
        self.recurrent = Linear(hidden_size, self.gate_size)
        self.input_norm = nn.LayerNorm(self.gate_size) if layer_norm else nn.Identity()
        self.recurrent_norm = nn.LayerNorm(self.gate_size) if layer_norm else nn.Identity()
        initialise(self.recurrent.weight.data)

    def initial(self, hidden: Tensor) -> Tensor:
        """The state (N, state_size) whose output is `hidden`; a memory cell starts at zero."""
        if self.states == 1:
            return hidden
        return torch.cat((hidden, hidden.new_zeros(len(hidden), self.state_size - self.hidden_size)), dim=-1)

    @classmethod
    def output(cls, state: Tensor) -> Tensor:
        """H (..., hidden_size) of a state (..., state_size)."""
        return state if cls.states == 1 else state[..., : state.shape[-1] // cls.states]

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The next state (N, state_size) from g (N, gate_size) and the state (N, state_size)."""
        recurrent = self.recurrent_norm(self.recurrent(self.output(state)))
        return self.update(self.input_norm(inputs), recurrent, state)

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The states (T, N, state_size) after each of T steps with known g (T, N, gate_size)."""
        states = []
        for gates in inputs.unbind(0):
            state = self(gates, state)
            states.append(state)
        return torch.stack(states)

    @staticmethod
    @abstractmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        """The cell's own equation: g (N, gate_size), W H_{i-1} + b (N, gate_size) and the old state give the new."""


def initialise(recurrent: Tensor) -> None:
    """Each gate's (H, H) block of W becomes orthogonal, in place (Saxe et al. 2014)."""
    for block in torch.split(recurrent, recurrent.shape[1]):
        nn.init.orthogonal_(block)


@known
class GRUCell(Cell):
    """Gated recurrent unit (Cho et al. 2014), with the reset gate after the product, as in `torch.nn.GRU`:

    r, z = sigmoid(g_r + W_r H + b_r), sigmoid(g_z + W_z H + b_z);  n = tanh(g_n + r * (W_n H + b_n));
    H' = (1 - z) * n + z * H.
    """

    gates = 3
    update = staticmethod(gru_update)

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        if self.why_not() is not None:
            return super().run(inputs, state)
        steps, rows = inputs.shape[:2]
        states = gru_sequence(inputs.flatten(0, 1), [rows] * steps, state, self.recurrent.weight, self.recurrent.bias)
        return states.view(steps, rows, -1)

    def why_not(self) -> str | None:
        """Why all steps are not taken in one operation; None if they are."""
        return why_not_sequence(self)


@known
class LSTMCell(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000), gates ordered as in `torch.nn.LSTM`.

    i, f, o = sigmoid(.);  c' = f * c + i * tanh(g_c + W_c H + b_c);  H' = o * tanh(c').  State: [H; c].
    """

    gates = 4
    states = 2

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        input_gate, forget_gate, candidate, output_gate = (inputs + recurrent).chunk(4, dim=-1)
        memory = state[..., state.shape[-1] // 2 :]
        memory = torch.addcmul(torch.sigmoid(forget_gate) * memory, torch.sigmoid(input_gate), torch.tanh(candidate))
        return torch.cat((torch.sigmoid(output_gate) * torch.tanh(memory), memory), dim=-1)


@known
class RNNCell(Cell):
    """The plain recurrent network (Elman 1990): H' = tanh(g + W H + b)."""

    gates = 1

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(inputs + recurrent)


CELLS: dict[str, type[Cell]] = {"gru": GRUCell, "lstm": LSTMCell, "rnn": RNNCell}
