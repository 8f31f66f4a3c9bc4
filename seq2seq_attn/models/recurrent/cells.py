"""Recurrent cells whose input is given as gate pre-activations, and stacks of them.

A cell takes its input as gate pre-activations g = W x + b, which the caller computes: for all steps in one product if
the inputs are known in advance. Only the product with the previous state remains in the loop.

A state is one tensor (N, state_size); its `output` H (N, hidden_size) is what the rest of the model uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.models.translator import is_initialised
from seq2seq_attn.ops.dispatch import changed, fusible
from seq2seq_attn.ops.dropout import Dropout
from seq2seq_attn.ops.gru import gru_sequence, gru_update, why_not_sequence
from seq2seq_attn.ops.linear import Linear


class Cell(nn.Module, ABC):
    """One recurrent step, state_i = f(g_i, state_{i-1}), with the gates' inputs g_i (N, gate_size)."""

    hidden_size: int  # of the output H
    gate_size: int  # of the pre-activations g
    state_size: int

    @abstractmethod
    def initial(self, hidden: Tensor) -> Tensor:
        """The state (N, state_size) before the first step, from H_0 (N, hidden_size)."""

    @abstractmethod
    def output(self, state: Tensor) -> Tensor:
        """H (..., hidden_size) of a state (..., state_size)."""

    @abstractmethod
    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The next state (N, state_size) from g (N, gate_size) and the state (N, state_size)."""

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The states (T, N, state_size) after each of T steps, from all g (T, N, gate_size) and the first state."""
        states = []
        for gates in inputs.unbind(0):
            state = self(gates, state)
            states.append(state)
        return torch.stack(states)


@fusible
class StackedCell(Cell):
    """L stacked cells as one cell:

    m^l_i = cell_l(W_l x^{l-1}_i + b_l, m^l_{i-1}), where the first cell takes g from the caller; x^l = m^l, or with
    `residual` x^1 = m^1 and x^l = m^l + x^{l-1} (Wu et al. 2016, eq. 5 and 6). The output is x^L.

    Residual connections lead from layer to layer, not from step to step: the state is the concatenation of the states
    m^1, ..., m^L (with the memory cells of an LSTM). Every cell starts from H_0, so with `residual` the initial output
    is L H_0. `dropout` is applied to the input of every cell except the first. ValueError if the cells differ in size.
    """

    def __init__(self, cells: Sequence[Cell], *, residual: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [cell.hidden_size for cell in cells]
        if len(set(sizes)) != 1:
            raise ValueError(f"StackedCell needs cells of one hidden_size, got {sizes}")
        self.hidden_size = sizes[0]
        self.gate_size = cells[0].gate_size
        self.state_size = sum(cell.state_size for cell in cells)
        self.residual = residual
        self.cells = nn.ModuleList(cells)
        self.input_layers = nn.ModuleList(Linear(self.hidden_size, cell.gate_size) for cell in cells[1:])
        self.dropout = Dropout(dropout)

    def initial(self, hidden: Tensor) -> Tensor:
        return torch.cat([cell.initial(hidden) for cell in self._cells()], dim=-1)

    def output(self, state: Tensor) -> Tensor:
        hidden = [cell.output(own) for cell, own in zip(self._cells(), self._split(state), strict=True)]
        return torch.stack(hidden).sum(dim=0) if self.residual else hidden[-1]

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        return self._run_layers(inputs, state, all_steps=False)

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        if changed(self, deep=False) is not None:
            return super().run(inputs, state)
        # Layer by layer: the outputs of one cell at all steps are the inputs of the next.
        return self._run_layers(inputs, state, all_steps=True)

    def _run_layers(self, gates: Tensor, state: Tensor, *, all_steps: bool) -> Tensor:
        """The states of all cells after one step with g (N, gate_size), or after all steps with g (T, N, gate_size)."""
        states: list[Tensor] = []
        below: Tensor | None = None  # x^{l-1}
        for level, (cell, own) in enumerate(zip(self._cells(), self._split(state), strict=True)):
            if below is not None:
                gates = self.input_layers[level - 1](self.dropout(below))
            states.append(cell.run(gates, own) if all_steps else cell(gates, own))
            hidden = cell.output(states[-1])
            below = hidden + below if self.residual and below is not None else hidden
        return torch.cat(states, dim=-1)

    def _cells(self) -> list[Cell]:
        return [cast(Cell, cell) for cell in self.cells]

    def _split(self, state: Tensor) -> tuple[Tensor, ...]:
        return torch.split(state, [cell.state_size for cell in self._cells()], dim=-1)


class SingleCell(Cell):
    """A cell of one layer: state_i = update(g_i, W H_{i-1} + b, state_{i-1}), where subclasses define `update`.

    With `layer_norm`, g and the product are layer-normalised before they are added (Ba et al. 2016, eq. 20-22).
    """

    gates: ClassVar[int]  # blocks of hidden_size in the pre-activations
    states: ClassVar[int] = 1  # blocks of hidden_size in the state, the first of which is H

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
        """The state (N, state_size) with output `hidden`; the memory cell of an LSTM starts at zero."""
        if self.states == 1:
            return hidden
        return torch.cat((hidden, hidden.new_zeros(len(hidden), self.state_size - self.hidden_size)), dim=-1)

    @classmethod
    def output(cls, state: Tensor) -> Tensor:
        return state if cls.states == 1 else state[..., : state.shape[-1] // cls.states]

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        recurrent = self.recurrent_norm(self.recurrent(self.output(state)))
        return self.update(self.input_norm(inputs), recurrent, state)

    @staticmethod
    @abstractmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        """The new state (N, state_size), from g and W H_{i-1} + b (N, gate_size) and the previous state."""


def initialise(recurrent: Tensor) -> None:
    """Initialises each gate's (H, H) block of W as an orthogonal matrix, in place (Saxe et al. 2014)."""
    for block in torch.split(recurrent, recurrent.shape[1]) if is_initialised() else ():
        nn.init.orthogonal_(block)


@fusible
class GRUCell(SingleCell):
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
        """Why `run` loops over steps; None if it takes all of them in one operation."""
        return why_not_sequence(self)


@fusible
class LSTMCell(SingleCell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000), gates ordered as in `torch.nn.LSTM`.

    i, f, o = sigmoid(g + W H + b);  c' = f * c + i * tanh(g_c + W_c H + b_c);  H' = o * tanh(c').  State: [H; c].
    """

    gates = 4
    states = 2

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        input_gate, forget_gate, candidate, output_gate = (inputs + recurrent).chunk(4, dim=-1)
        memory = state[..., state.shape[-1] // 2 :]
        memory = torch.addcmul(torch.sigmoid(forget_gate) * memory, torch.sigmoid(input_gate), torch.tanh(candidate))
        return torch.cat((torch.sigmoid(output_gate) * torch.tanh(memory), memory), dim=-1)


@fusible
class RNNCell(SingleCell):
    """The simple recurrent network (Elman 1990): H' = tanh(g + W H + b)."""

    gates = 1

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(inputs + recurrent)


CELLS: dict[str, type[SingleCell]] = {"gru": GRUCell, "lstm": LSTMCell, "rnn": RNNCell}
