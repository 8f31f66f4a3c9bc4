"""Recurrent cells whose input is given as gate pre-activations, and stacks of them.

A cell takes its input as gate pre-activations g = W x + b, which the caller computes: for all steps in one product if
the inputs are known in advance. Only the product with the previous state remains in the loop; minGRU and SRU have none.

A state is one tensor (N, state_size); its `output` H (N, hidden_size) is what the rest of the model uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.models.config import is_initialized


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
        self.input_layers = nn.ModuleList(nn.Linear(self.hidden_size, cell.gate_size) for cell in cells[1:])
        self.dropout = nn.Dropout(dropout)

    def initial(self, hidden: Tensor) -> Tensor:
        return torch.cat([cell.initial(hidden) for cell in self._cells()], dim=-1)

    def output(self, state: Tensor) -> Tensor:
        hidden = [cell.output(own) for cell, own in zip(self._cells(), self._split(state), strict=True)]
        return torch.stack(hidden).sum(dim=0) if self.residual else hidden[-1]

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        return self.layer_by_layer(inputs, state, lambda cell: cell)

    def layer_by_layer(self, gates: Tensor, state: Tensor, update: Callable[[Cell], Callable[..., Tensor]]) -> Tensor:
        """The states of all cells: after one step with g (N, gate_size) if `update(cell)` is one step of a cell, after
        all steps with g (T, N, gate_size) if it takes all steps."""
        states: list[Tensor] = []
        below: Tensor | None = None  # x^{l-1}
        for level, (cell, own) in enumerate(zip(self._cells(), self._split(state), strict=True)):
            if below is not None:
                gates = self.input_layers[level - 1](self.dropout(below))
            states.append(update(cell)(gates, own))
            hidden = cell.output(states[-1])
            below = hidden + below if self.residual and below is not None else hidden
        return torch.cat(states, dim=-1)

    def _cells(self) -> list[Cell]:
        return [cast(Cell, cell) for cell in self.cells]

    def _split(self, state: Tensor) -> tuple[Tensor, ...]:
        return torch.split(state, [cell.state_size for cell in self._cells()], dim=-1)


class SingleCell(Cell):
    """A cell of one layer. g and the state are blocks of hidden_size; the first block of the state is H."""

    input_norm: nn.Module | None  # of g
    gates: ClassVar[int]  # blocks of g
    states: ClassVar[int] = 1  # blocks of the state

    def __init__(self, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.layer_norm = layer_norm
        self.gate_size = self.gates * hidden_size
        self.state_size = self.states * hidden_size

    @classmethod
    def output(cls, state: Tensor) -> Tensor:
        return state if cls.states == 1 else state[..., : state.shape[-1] // cls.states]

    def _norm(self) -> nn.Module | None:
        return nn.LayerNorm(self.gate_size) if self.layer_norm else None

    def normed(self, inputs: Tensor) -> Tensor:
        """g (..., gate_size), layer-normalized if the cell has a norm for it."""
        return inputs if self.input_norm is None else self.input_norm(inputs)


class RecurrentCell(SingleCell):
    """A cell with a product with H_{i-1}: state_i = update(g_i, W H_{i-1} + b, state_{i-1}).

    With `layer_norm`, g and the product are layer-normalized before they are added (Ba et al. 2016, eq. 20-22).
    """

    def __init__(self, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__(hidden_size, layer_norm)
        self.recurrent = nn.Linear(hidden_size, self.gate_size)
        self.input_norm = self._norm()
        self.recurrent_norm = self._norm()
        initialize(self.recurrent.weight.data)

    def initial(self, hidden: Tensor) -> Tensor:
        """The state (N, state_size) with output `hidden`; the memory cell of an LSTM starts at zero."""
        if self.states == 1:
            return hidden
        return torch.cat((hidden, hidden.new_zeros(hidden.shape[0], self.state_size - self.hidden_size)), dim=-1)

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        recurrent = self.recurrent(self.output(state))
        if self.recurrent_norm is not None:
            recurrent = self.recurrent_norm(recurrent)
        return self.update(self.normed(inputs), recurrent, state)

    @staticmethod
    @abstractmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        """The new state (N, state_size), from g and W H_{i-1} + b (N, gate_size) and the previous state."""


def scan(
    decay: Tensor, addend: Tensor, counts: list[int], initial: Tensor | None = None, reverse: bool = False
) -> Tensor:
    """c (M, H) of c_t = a_t * c_{t-1} + b_t over all steps of packed sentences.

    Args:
        decay: a (M, H) in the layout of a `PackedSequence`: the rows of step 0, then those of step 1, and so on; the
            rows of a step belong to the first sentences.
        addend: b (M, H), likewise.
        counts: The rows of each step.
        initial: c before the first step that runs, (rows of that step, H); None for zeros, from which also every
            sentence starts that begins at a later step.
        reverse: Run from the last step to the first.
    """
    state, states = addend[:0] if initial is None else initial, []
    for a, b in split_steps(counts, reverse, decay, addend):
        state = a * first_rows(state, a.shape[0]) + b
        states.append(state)
    return torch.cat(states[::-1] if reverse else states)


def split_steps(counts: list[int], reverse: bool, *packed: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of each step, of several packed tensors at once; from the last step to the first with `reverse`."""
    steps = [torch.split(tensor, counts) for tensor in packed]
    return zip(*(part[::-1] if reverse else part for part in steps), strict=True)


def first_rows(state: Tensor, rows: int) -> Tensor:
    """The first rows of a state, padded with zeros where it has fewer: sentences end, or begin in reverse."""
    missing = rows - state.shape[0]
    return state[:rows] if missing <= 0 else F.pad(state, (0, 0, 0, missing))


class ScanCell(SingleCell):
    """A cell without a product with H_{i-1}: c_i = a_i * c_{i-1} + b_i, elementwise; a_i and b_i depend on g_i alone.

    c is the last block of the state and starts at H_0. Gates in half precision are computed in float32, since 1 - z
    rounds to 1 for a small z. With `layer_norm`, g is layer-normalized.
    """

    scan = staticmethod(scan)

    def __init__(self, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__(hidden_size, layer_norm)
        self.input_norm = self._norm()

    def initial(self, hidden: Tensor) -> Tensor:
        """The state (N, state_size) with output `hidden`; so is c, as later steps depend on c alone."""
        return torch.cat([hidden] * self.states, dim=-1)

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        return self.all_states(self.normed(inputs), [inputs.shape[0]], state)

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        # Between the steps c is not rounded, or a small z would change nothing.
        return super().run(full_precision(inputs), full_precision(state)).to(inputs.dtype)

    @classmethod
    def all_states(cls, gates: Tensor, counts: list[int], state: Tensor | None = None, reverse: bool = False) -> Tensor:
        """The states (M, state_size) from g (M, gate_size) and the first state, in the layout of `scan`."""
        g = full_precision(gates)
        first = None if state is None else state[..., -(state.shape[-1] // cls.states) :].to(g.dtype)
        return cls.state_of(g, cls.scan(*cls.terms(g), counts, first, reverse)).to(gates.dtype)

    @staticmethod
    @abstractmethod
    def terms(gates: Tensor) -> tuple[Tensor, Tensor]:
        """a and b (..., hidden_size), from g (..., gate_size)."""

    @staticmethod
    @abstractmethod
    def state_of(gates: Tensor, memory: Tensor) -> Tensor:
        """The state (..., state_size), from g (..., gate_size) and c (..., hidden_size)."""


def initialize(recurrent: Tensor) -> None:
    """Initializes each gate's (H, H) block of W as an orthogonal matrix, in place (Saxe et al. 2014)."""
    for block in torch.split(recurrent, recurrent.shape[1]) if is_initialized() else ():
        nn.init.orthogonal_(block)


class GRUCell(RecurrentCell):
    """Gated recurrent unit (Cho et al. 2014), with the reset gate after the product, as in `torch.nn.GRU`:

    r, z = sigmoid(g_r + W_r H + b_r), sigmoid(g_z + W_z H + b_z);  n = tanh(g_n + r * (W_n H + b_n));
    H' = (1 - z) * n + z * H.
    """

    gates = 3

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        input_r, input_z, input_n = inputs.chunk(3, dim=-1)
        recurrent_r, recurrent_z, recurrent_n = recurrent.chunk(3, dim=-1)
        reset, update = torch.sigmoid(input_r + recurrent_r), torch.sigmoid(input_z + recurrent_z)
        candidate = torch.tanh(input_n + reset * recurrent_n)
        return (1 - update) * candidate + update * state


class LSTMCell(RecurrentCell):
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


class RNNCell(RecurrentCell):
    """The simple recurrent network (Elman 1990): H' = tanh(g + W H + b)."""

    gates = 1

    @staticmethod
    def update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(inputs + recurrent)


class MinGRUCell(ScanCell):
    """minGRU, a GRU whose gate and candidate do not depend on the state (Feng et al. 2024, sec. 3.1):

    z = sigmoid(g_z);  H' = (1 - z) * H + z * g_n.

    This is the plain form. The form in log-space (app. B) stabilizes the paper's own scan, but restricts candidates and
    states to positive numbers; `scan` is stable without it, and H_0 may be negative.
    """

    gates = 2

    @staticmethod
    def terms(gates: Tensor) -> tuple[Tensor, Tensor]:
        update, candidate = gates.chunk(2, dim=-1)
        update = torch.sigmoid(update)
        return 1 - update, update * candidate

    @staticmethod
    def state_of(gates: Tensor, memory: Tensor) -> Tensor:
        return memory


class SRUCell(ScanCell):
    """The simple recurrent unit (Lei et al. 2018, eq. 1-4, with v_f = v_r = 0: the first version, arXiv 1709.02755v1):

    f, r = sigmoid(g_f), sigmoid(g_r);  c' = f * c + (1 - f) * g_c;  H' = r * c' + (1 - r) * g_x.  State: [H; c].

    g_c is W x. Later versions add v_f * c and v_r * c to the gates, which makes every step wait for the previous one.
    The paper's highway connection (1 - r) * x needs an x of hidden_size; g_x is the product W_x x that the authors'
    implementation uses for other sizes.
    """

    gates = 4
    states = 2

    @staticmethod
    def terms(gates: Tensor) -> tuple[Tensor, Tensor]:
        candidate, forget_gate, _, _ = gates.chunk(4, dim=-1)
        forget_gate = torch.sigmoid(forget_gate)
        return forget_gate, (1 - forget_gate) * candidate

    @staticmethod
    def state_of(gates: Tensor, memory: Tensor) -> Tensor:
        _, _, reset_gate, highway = gates.chunk(4, dim=-1)
        return torch.cat((torch.lerp(highway, memory, torch.sigmoid(reset_gate)), memory), dim=-1)


CELLS: dict[str, type[SingleCell]] = {
    "gru": GRUCell,
    "lstm": LSTMCell,
    "rnn": RNNCell,
    "mingru": MinGRUCell,
    "sru": SRUCell,
}
