"""Recurrent cells and the recurrent encoder, with all steps of a sequence in one operation."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2seq_attn.corpora.source import token_mask
from seq2seq_attn.models.recurrent.cells import (
    GRUCell,
    LSTMCell,
    MinGRUCell,
    RNNCell,
    ScanCell,
    SingleCell,
    SRUCell,
    StackedCell,
    first_rows,
    split_steps,
)
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder, reversal
from seq2seq_attn.ops.autograd import apply
from seq2seq_attn.ops.form import Form, changed
from seq2seq_attn.ops.gru import gru_sequence, norm_weights, why_not_norm
from seq2seq_attn.ops.layers import linear


class FusedGRUCell(Form, GRUCell):
    """`GRUCell` with all steps of a sequence as one autograd node."""

    stands_for = GRUCell
    is_reported = True

    @classmethod
    def why_not(cls, module: GRUCell) -> str | None:
        return why_not_gru(module)

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        steps, rows = inputs.shape[:2]
        gates = self.normed(inputs).flatten(0, 1)
        parameters = self.recurrent.weight, self.recurrent.bias
        states = gru_sequence(gates, [rows] * steps, state, *parameters, norm=norm_weights(self.recurrent_norm))
        return states.view(steps, rows, -1)


def why_not_gru(cell: Any) -> str | None:
    """Why the steps of a cell are not those of `gru_sequence`; None if they are."""
    if type(cell) is not GRUCell:
        return f"{type(cell).__name__} is not a GRU"
    if (reason := changed(cell)) is not None:
        return reason
    if type(cell.recurrent) is not nn.Linear or cell.recurrent.bias is None:
        return f"its product with the state is {type(cell.recurrent).__name__}"
    return why_not_norm(cell.input_norm, cell.recurrent) or why_not_norm(cell.recurrent_norm, cell.recurrent)


class FusedStackedCell(Form, StackedCell):
    """`StackedCell`, layer by layer: the outputs of one cell at all steps are the inputs of the next."""

    stands_for = StackedCell
    any_dtype = True

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        return self.layer_by_layer(inputs, state, lambda cell: cell.run)


def scan(
    decay: Tensor, addend: Tensor, counts: list[int], initial: Tensor | None = None, reverse: bool = False
) -> Tensor:
    """`scan` of models/recurrent/cells.py as one autograd node: a loop over one or two operations in place.

    It neither divides nor takes logarithms, so it is as accurate as the loop for any a and any number of steps. An
    associative scan takes O(log T) passes over all steps instead; on one core of a CPU it takes 20 to 40 times as long
    as the loop, for 10 to 100 steps of 64 sentences and 256 or 512 units.
    """
    states: Tensor = apply(_Scan(decay, addend, initial, counts, reverse))
    return states


class _Scan(NamedTuple):
    """What `scan` computes the states from, or the gradients of these."""

    decay: Tensor
    addend: Any  # None where the backward pass does not need it
    initial: Tensor | None
    counts: list[int]
    reverse: bool

    def forward(self) -> tuple[Tensor, _ScanSteps]:
        states, previous = self.addend.clone(memory_format=torch.contiguous_format), []
        before = self.addend[:0] if self.initial is None else self.initial
        for a, state in split_steps(self.counts, self.reverse, self.decay, states):
            previous.append(first_rows(before, len(a)))
            before = state.addcmul_(a, previous[-1])
        all_previous = torch.cat(previous[::-1] if self.reverse else previous)
        return states, _ScanSteps(self._replace(addend=None), all_previous)


class _ScanSteps(NamedTuple):
    """What the backward pass of `scan` needs."""

    given: _Scan
    previous: Tensor

    def backward(self, *gradients: Tensor | None) -> _Scan:
        given, previous = self
        # dL/dc_t has a term of its own and, through c_{t+1}, the term a_{t+1} dL/dc_{t+1}; dL/db_t = dL/dc_t.
        grad_addend = cast(Tensor, gradients[0]).clone(memory_format=torch.contiguous_format)
        carry = given.decay.new_zeros(max(given.counts), given.decay.shape[1])
        for a, grad in split_steps(given.counts, not given.reverse, given.decay, grad_addend):
            grad += carry[: len(a)]
            torch.mul(a, grad, out=carry[: len(a)])
        grad_initial = None if given.initial is None else carry[: len(given.initial)]
        return given._replace(decay=grad_addend * previous, addend=grad_addend, initial=grad_initial)


class _FusedScanCell(Form, ScanCell):
    """A cell whose steps take one operation."""

    is_reported = True
    scan = staticmethod(scan)

    @classmethod
    def why_not(cls, module: nn.Module) -> str | None:
        return changed(module)

    def run(self, inputs: Tensor, state: Tensor) -> Tensor:
        steps, rows = inputs.shape[:2]
        gates = self.normed(inputs).flatten(0, 1)
        return self.all_states(gates, [rows] * steps, state).view(steps, rows, -1)


class FusedMinGRUCell(_FusedScanCell, MinGRUCell):
    """`MinGRUCell` with all steps in one operation."""

    stands_for = MinGRUCell


class FusedSRUCell(_FusedScanCell, SRUCell):
    """`SRUCell` with all steps in one operation."""

    stands_for = SRUCell


_CELLS: tuple[type[SingleCell], ...] = (GRUCell, LSTMCell, RNNCell)


class FusedRecurrentEncoder(Form, RecurrentEncoder):
    """`RecurrentEncoder`, whose layers slice no steps out of one tensor on a CPU.

    In torch's own layers, the backward pass of every slice zero-fills a tensor of the whole batch: training time is
    quadratic in length.

    Where the lengths are on an accelerator, nothing may depend on their values, and sentences are not packed.
    """

    stands_for = RecurrentEncoder
    is_reported = True

    @classmethod
    def why_not(cls, module: RecurrentEncoder) -> str | None:
        if module.cell not in _CELLS:
            return (
                None if issubclass(module.cell, ScanCell) else f"{module.cell.__name__} is not a class of this package"
            )
        return next((reason for layer in module.layers if (reason := _why_not_layer(layer)) is not None), None)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        return super().forward(embedded, lengths) if lengths.is_cpu else self.without_packing(embedded, lengths)

    def without_packing(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """What `forward` returns, by operations that do not depend on the values of the lengths (B,)."""
        states, counts = embedded.transpose(0, 1), [len(embedded)] * embedded.shape[1]  # time first
        order = reversal(lengths, embedded.shape[1]).t()[..., None]
        for level, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            inputs = states if level == 0 else self.dropout(states)
            outputs = [self._one_direction(layer, "l0", inputs.flatten(0, 1), counts).view(*inputs.shape[:2], -1)]
            if self.directions == 2:  # padding stays at the end, so that neither direction meets it before a word
                turned = inputs.gather(0, order.expand_as(inputs)).flatten(0, 1)
                backwards = self._one_direction(layer, "l0_reverse", turned, counts).view_as(outputs[0])
                outputs.append(backwards.gather(0, order.expand_as(backwards)))
            found = norm(torch.cat(outputs, dim=-1))
            states = found + states if self.residual and level > 0 else found
        return states.transpose(0, 1).masked_fill(~token_mask(lengths, embedded)[..., None], 0)

    def run_layer(self, layer: Any, packed: PackedSequence) -> PackedSequence:
        # torch's forward pass is faster in fp32 and for a single sentence, and so is its kernel on a GPU.
        in_bf16 = torch.is_autocast_enabled("cpu") and int(packed.batch_sizes[0]) > 1
        is_faster = torch.is_grad_enabled() or in_bf16
        if self.cell not in _CELLS or packed.data.device.type != "cpu" or not is_faster:
            with torch.autocast("cpu", enabled=False):  # or torch's layer would cast its weights at every step
                return super().run_layer(layer, packed)
        counts: list[int] = packed.batch_sizes.tolist()
        outputs = [
            self._one_direction(layer, suffix, packed.data, counts, reverse=suffix != "l0")
            for suffix in ("l0", "l0_reverse")[: self.directions]
        ]
        return packed._replace(data=torch.cat(outputs, dim=-1))

    def _one_direction(
        self, layer: Any, suffix: str, inputs: Tensor, counts: list[int], reverse: bool = False
    ) -> Tensor:
        """The outputs (M, hidden_size) of one direction of a layer, in the layout of `scan`."""
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        input_weight, input_bias, weight, bias = (getattr(layer, f"{name}_{suffix}") for name in names)
        gates = linear(inputs, input_weight, input_bias)
        if self.cell is GRUCell:
            return gru_sequence(gates, counts, None, weight, bias, reverse)
        return _step_by_step(self.cell, gates, counts, weight, bias, reverse)


def _why_not_layer(layer: nn.Module) -> str | None:
    if (reason := changed(layer)) is not None:
        return reason
    standard = isinstance(layer, nn.RNNBase) and layer.num_layers == 1 and layer.bias and layer.mode != "RNN_RELU"
    return None if standard and layer.proj_size == 0 else f"{type(layer).__name__} is not a single standard layer"


def _step_by_step(cell: Any, inputs: Tensor, counts: list[int], weight: Tensor, bias: Tensor, reverse: bool) -> Tensor:
    """The outputs H (M, hidden_size) of all steps of an LSTM or RNN over packed sentences, from zero states."""
    steps = torch.split(inputs, counts)
    state, outputs = inputs.new_zeros(0, cell.states * weight.shape[1]), []
    for step in steps[::-1] if reverse else steps:
        state = first_rows(state, len(step))
        state = cell.update(step, linear(cell.output(state), weight, bias), state)
        outputs.append(cell.output(state))
    return torch.cat(outputs[::-1] if reverse else outputs)
