"""The gated recurrent unit: one step, all steps of a sequence, a layer over packed sentences; their backward passes.

A step is a dozen elementwise operations, each of which autograd would record, keep the operands of, and traverse again.
The fused forms make one autograd node of a step, or of all steps. Torch's own layer, the reference implementation of
`read_packed`, cuts the steps out of one tensor, and in the backward pass every cut fills a tensor of the whole batch
with zeros: training time quadratic in length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, unserved
from seq2seq_attn.ops.linear import linear, product, summed_product


def gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """H' = (1 - z) * n + z * H with r, z = sigmoid(g + u), n = tanh(g_n + r * u_n); g, u (N, 3H): r, z, n in turn.

    (Cho et al. 2014, eq. 5-8, with the reset gate after the product, as in `torch.nn.GRU`.)
    """
    if unserved(inputs, recurrent, state) is not None:
        return reference_gru_update(inputs, recurrent, state)
    if not torch.is_grad_enabled():
        return _updated(inputs, recurrent, state.contiguous())[-1]
    updated: Tensor = FusedGRUUpdate.apply(inputs, recurrent, state)  # type: ignore[no-untyped-call]
    return updated


def reference_gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """The reference implementation of `gru_update`."""
    input_r, input_z, input_n = inputs.chunk(3, dim=-1)
    recurrent_r, recurrent_z, recurrent_n = recurrent.chunk(3, dim=-1)
    reset, update = torch.sigmoid(input_r + recurrent_r), torch.sigmoid(input_z + recurrent_z)
    candidate = torch.tanh(input_n + reset * recurrent_n)
    return (1 - update) * candidate + update * state


class FusedGRUUpdate(torch.autograd.Function):
    """`gru_update` as one autograd node."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        state = state.contiguous()
        gates, candidate, updated = _updated(inputs, recurrent, state)
        ctx.save_for_backward(gates, candidate, recurrent, state)
        return updated

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_updated: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, candidate, recurrent, state = ctx.saved_tensors
        carried = state.new_zeros(state.shape, dtype=accumulation_dtype(state))
        grad_inputs, grad_recurrent = (torch.empty_like(recurrent) for _ in range(2))
        step_backward(grad_updated, None, carried, recurrent, state, gates, candidate, grad_inputs, grad_recurrent)
        return grad_inputs, grad_recurrent, carried.to(state.dtype)


def _updated(inputs: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r and z, n, and H'."""
    gates = state.new_empty(len(state), 2 * state.shape[1])
    candidate, updated = torch.empty_like(state), torch.empty_like(state)
    step_forward(inputs, recurrent, state, gates, candidate, updated)
    return gates, candidate, updated


def why_not_sequence(cell: nn.Module) -> str | None:
    """Why `gru_sequence` cannot take the steps of a cell; None if it can. The cell's own steps are its reference."""
    if (reason := unserved(*cell.parameters()) or changed(cell)) is not None:
        return reason
    if getattr(type(cell), "update", None) is not gru_update:
        return f"{type(cell).__name__} is not a GRU"
    if any(isinstance(part, nn.LayerNorm) for part in cell.modules()):
        return "the gates are layer-normalised"
    return None


def gru_sequence(
    inputs: Tensor, counts: list[int], initial: Tensor | None, weight: Tensor, bias: Tensor, reverse: bool = False
) -> Tensor:
    """The states (M, H) of `gru_update` step after step, u = W H + b, as one autograd node.

    inputs (M, 3H) holds counts[0] rows of step 0, then counts[1] of step 1, ...; the rows of a step belong to the first
    sentences, and the states come in the same order. With `reverse` the last step is taken first. `initial`
    (rows of the step taken first, H), zero if None; a sentence that joins at a later step starts from zero.

    Only a product with the state and the gates are in the loop; the gradients of W and b are computed after it.
    """
    states: Tensor = _GRUSequence.apply(  # type: ignore[no-untyped-call]
        inputs, counts, initial, weight, bias, reverse
    )
    return states


class _GRUSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, counts: list[int], initial: Tensor | None, weight: Tensor, bias: Tensor, reverse: bool
    ) -> Tensor:
        size = weight.shape[1]
        w, b = weight.to(inputs.dtype), bias.to(inputs.dtype)
        gates, candidates = inputs.new_empty(len(inputs), 2 * size), inputs.new_empty(len(inputs), size)
        states = torch.empty_like(candidates)
        state = inputs.new_zeros(0, size) if initial is None else initial.to(inputs.dtype)
        before, products = [], []
        with torch.autocast(inputs.device.type, enabled=False):
            for x, rz, n, h in _steps(counts, reverse, inputs, gates, candidates, states):
                before.append(first_rows(state, len(x)))
                products.append(product(before[-1], w, b))
                step_forward(x, products[-1], before[-1], rz, n, h)
                state = h
        ctx.counts, ctx.reverse, ctx.starts_at_zero = counts, reverse, initial is None
        kept = torch.cat(before[::-1] if reverse else before)
        ctx.save_for_backward(kept, gates, candidates, weight, *products)
        return states

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        before, gates, candidates, weight, *products = ctx.saved_tensors
        w, size = weight.to(before.dtype).t(), weight.shape[1]
        grad_inputs, grad_products = (before.new_empty(len(before), 3 * size) for _ in range(2))
        carried, later = before.new_zeros(max(ctx.counts), size, dtype=accumulation_dtype(before)), None
        steps = _steps(ctx.counts, not ctx.reverse, grad_states, before, gates, candidates, grad_inputs, grad_products)
        for u, (grad_h, h, rz, n, grad_x, grad_u) in zip(reversed(products), steps, strict=True):
            if later is not None:
                later = product(later, w)
            step_backward(grad_h, later, carried[: len(h)], u, h, rz, n, grad_x, grad_u)
            later = grad_u
        grad_weight = summed_product(grad_products, before).to(weight.dtype)
        grad_bias = grad_products.sum(dim=0).to(weight.dtype)
        grad_initial = None if ctx.starts_at_zero or later is None else carried + product(later, w)
        return grad_inputs, None, grad_initial, grad_weight, grad_bias, None


def step_forward(x: Tensor, u: Tensor, before: Tensor, gates: Tensor, candidate: Tensor, state: Tensor) -> None:
    """`gru_update` of g = x, u (N, 3H) and the state before, written to r and z (N, 2H), n and H' (N, H)."""
    size = before.shape[1]
    if before.is_contiguous() and _native(x, u, before, gates, candidate, state):
        rows = x, x.stride(0), u, u.stride(0)
        native.run("gru_forward", x.dtype, len(x), size, *rows, before, gates, candidate, state)
        return
    torch.add(x[:, : 2 * size], u[:, : 2 * size], out=gates).sigmoid_()
    torch.addcmul(x[:, 2 * size :], gates[:, :size], u[:, 2 * size : 3 * size], out=candidate).tanh_()
    torch.lerp(candidate, before, gates[:, size:], out=state)


def step_backward(
    grad_state: Tensor | None,
    later: Tensor | None,
    carried: Tensor,
    u: Tensor,
    before: Tensor,
    gates: Tensor,
    candidate: Tensor,
    grad_x: Tensor,
    grad_u: Tensor,
) -> None:
    """Backward pass of `step_forward`: dL/dg and dL/du are written to grad_x and grad_u (N, 3H).

    dL/dH' is the sum of the gradient from the readers of the state (N, H), of `later`, which comes through the product
    of the next step (of its first rows, or of more), and of `carried` (N, H), in full precision, which comes past its
    gates. `carried` is overwritten by what goes past the gates of this step, z dL/dH'.
    """
    size = before.shape[1]
    if _native(
        before, u, gates, candidate, grad_x, grad_u, *(part for part in (grad_state, later) if part is not None)
    ):
        readers = grad_state, 0 if grad_state is None else grad_state.stride(0)
        product = later, 0 if later is None else len(later)
        rows = u, u.stride(0), before, gates, candidate, grad_x, grad_x.stride(0), grad_u, grad_u.stride(0)
        native.run("gru_backward", before.dtype, len(before), size, *readers, *product, carried, *rows)
        return
    if grad_state is not None:
        carried += grad_state
    if later is not None:
        both = min(len(later), len(carried))
        carried[:both] += later[:both]
    reset, update = gates.chunk(2, dim=1)
    # dL/dn = (1 - z) dL/dH' (1 - n^2);  dL/dr = dL/dn u_n;  dL/dz = (H - n) dL/dH';  sigmoid' = s (1 - s)
    grad_n = carried * (1 - update) * (1 - candidate * candidate)
    grad_x[:, :size] = grad_n * u[:, 2 * size : 3 * size] * reset * (1 - reset)
    grad_x[:, size : 2 * size] = carried * (before - candidate) * update * (1 - update)
    grad_x[:, 2 * size :] = grad_n
    grad_u[:, : 2 * size] = grad_x[:, : 2 * size]
    grad_u[:, 2 * size : 3 * size] = grad_n * reset
    carried *= update


def accumulation_dtype(tensor: Tensor) -> torch.dtype:
    """The precision of sums over steps: that of the tensor, but at least float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _native(*tensors: Tensor) -> bool:
    """Whether there is a kernel for these, which are read row by row."""
    first = tensors[0]
    return all(each.dtype == first.dtype and each.stride(1) == 1 for each in tensors) and native.has_kernels(first)


def _steps(counts: list[int], reverse: bool, *packed: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of each step in turn, of several packed tensors at once."""
    steps = [torch.split(tensor, counts) for tensor in packed]
    return zip(*(part[::-1] if reverse else part for part in steps), strict=True)


def first_rows(state: Tensor, rows: int) -> Tensor:
    """The first rows of a state, padded with zeros where it has fewer."""
    return state[:rows] if rows <= len(state) else F.pad(state, (0, 0, 0, rows - len(state)))


Update = Callable[
    [Tensor, Tensor, Tensor], Tensor
]  # inputs to the gates, product with the state, state: the next state


def read_packed(layer: nn.Module, packed: PackedSequence, update: Update, state_blocks: int = 1) -> PackedSequence:
    """The outputs of a one-layer `nn.GRU`, `nn.LSTM` or `nn.RNN` of which `update` is the equation.

    The first of `state_blocks` blocks of the state is the output.
    """
    # Torch's kernel is the faster one for the single sentence of an interactive translation.
    single = not torch.is_grad_enabled() and packed.batch_sizes[0] == 1
    if single or why_not_layer(layer) is not None or unserved(packed.data) is not None:
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


def why_not_layer(layer: nn.Module) -> str | None:
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
