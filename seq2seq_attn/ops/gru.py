"""The gated recurrent unit: one step, all steps of a sequence, a layer over packed sentences; their backward passes.

A step is a dozen elementwise operations. Autograd would record each of them, save its operands, and traverse it in the
backward pass. The fused forms make one autograd node of a step, or of all steps. On a CPU, torch's own layer (the
reference implementation of `run_packed`) slices the steps out of one tensor, and the backward pass of every slice
zero-fills a tensor of the whole batch: training time is quadratic in length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from seq2seq_attn.ops import native
from seq2seq_attn.ops.dispatch import changed, first_derivative_only, unsupported
from seq2seq_attn.ops.layer_norm import NOT_NORMALIZED, GateNorm, NormWeights, why_not_norm
from seq2seq_attn.ops.linear import is_linear, linear, product, weight_gradient


def gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """One step of the GRU, H' (N, H) from g = `inputs` (N, 3H), u = `recurrent` (N, 3H) and H = `state` (N, H):

    r = sigmoid(g_r + u_r);  z = sigmoid(g_z + u_z);  n = tanh(g_n + r * u_n);  H' = (1 - z) * n + z * H.

    g and u hold the blocks r, z, n in this order. Cho et al. 2014, eq. 5-8, but with the reset gate applied after the
    product with the state, as in `torch.nn.GRU`.
    """
    if unsupported(inputs, recurrent, state) is not None:
        return reference_gru_update(inputs, recurrent, state)
    if not inputs.shape == recurrent.shape == (state.shape[0], 3 * state.shape[1]):  # which kernels trust
        return reference_gru_update(inputs, recurrent, state)
    if not torch.is_grad_enabled():
        return _forward(inputs, recurrent, state.contiguous())[-1]
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
        gates, candidate, updated = _forward(inputs, recurrent, state)
        ctx.save_for_backward(gates, candidate, recurrent, state)
        return updated

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_updated: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, candidate, recurrent, state = ctx.saved_tensors
        grad_carry = state.new_zeros(state.shape, dtype=accumulation_dtype(state))
        grad_inputs, grad_recurrent = (torch.empty_like(recurrent) for _ in range(2))
        step_backward(grad_updated, None, grad_carry, recurrent, state, gates, candidate, grad_inputs, grad_recurrent)
        return grad_inputs, grad_recurrent, grad_carry.to(state.dtype)


def _forward(inputs: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r and z (N, 2H), n (N, H) and H' (N, H)."""
    gates = state.new_empty(len(state), 2 * state.shape[1])
    candidate, updated = torch.empty_like(state), torch.empty_like(state)
    step_forward(inputs, recurrent, state, gates, candidate, updated)
    return gates, candidate, updated


def why_not_sequence(cell: nn.Module) -> str | None:
    """Why `gru_sequence` cannot replace the steps of a cell, which are its reference implementation; None if it can."""
    if (reason := unsupported(*cell.parameters()) or changed(cell)) is not None:
        return reason
    if getattr(type(cell), "update", None) is not gru_update:
        return f"{type(cell).__name__} is not a GRU"
    gru = cast(Any, cell)
    if not is_linear(gru.recurrent):
        return f"its product with the state is {type(gru.recurrent).__name__}"
    return why_not_norm(gru.input_norm, gru.recurrent) or why_not_norm(gru.recurrent_norm, gru.recurrent)


def gru_sequence(
    inputs: Tensor,
    counts: list[int],
    initial: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    reverse: bool = False,
    norm: NormWeights = NOT_NORMALIZED,
) -> Tensor:
    """The states (M, H) of repeated `gru_update` steps with u = norm(W H + b), as one autograd node.

    The layout is that of a `PackedSequence`: inputs (M, 3H) holds counts[0] rows of step 0, then counts[1] rows of
    step 1, and so on; the rows of a step belong to the first sentences, and the states have the same order. With
    `reverse` the steps run from the last to the first. weight (3H, H) is W, bias (3H,) is b. `initial` is the state
    before the first step that runs, (rows of that step, H), or None for zeros; a sentence that begins at a later step
    starts from zeros.

    The loop contains only the product with the state and the gates; the gradients of W and b are computed after it.
    """
    states: Tensor = _GRUSequence.apply(  # type: ignore[no-untyped-call]
        inputs, counts, initial, weight, bias, reverse, *norm
    )
    return states


class _GRUSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        counts: list[int],
        initial: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        reverse: bool,
        *norm_weights: Any,
    ) -> Tensor:
        size = weight.shape[1]
        w, b = weight.to(inputs.dtype), bias.to(inputs.dtype)
        gates, candidates = inputs.new_empty(len(inputs), 2 * size), inputs.new_empty(len(inputs), size)
        states = torch.empty_like(candidates)
        state = inputs.new_zeros(0, size) if initial is None else initial.to(inputs.dtype)
        previous, products, norm = [], [], GateNorm(NormWeights(*norm_weights))
        with torch.autocast(inputs.device.type, enabled=False):
            for x, rz, n, h in split_steps(counts, reverse, inputs, gates, candidates, states):
                previous.append(first_rows(state, len(x)))
                products.append(product(previous[-1], w, b))
                step_forward(x, norm.forward(products[-1]), previous[-1], rz, n, h)
                state = h
        ctx.counts, ctx.reverse, ctx.starts_at_zero, ctx.eps = counts, reverse, initial is None, norm.eps
        all_previous = torch.cat(previous[::-1] if reverse else previous)
        ctx.save_for_backward(all_previous, gates, candidates, weight, norm.gain, norm.bias, *products, *norm.saved)
        return states

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        previous, gates, candidates, weight, gain, bias, *rest = ctx.saved_tensors
        steps = len(ctx.counts)
        products, norm = rest[:steps], GateNorm(NormWeights(gain, bias, ctx.eps), rest[steps:])
        w, size = weight.to(previous.dtype).t(), weight.shape[1]
        grad_inputs, grad_products = (previous.new_empty(len(previous), 3 * size) for _ in range(2))
        grad_carry = previous.new_zeros(max(ctx.counts), size, dtype=accumulation_dtype(previous))
        packed = grad_states, previous, gates, candidates, grad_inputs, grad_products
        next_grad_u = None
        for u, (grad_h, h, rz, n, grad_x, grad_u) in zip(
            reversed(products), split_steps(ctx.counts, not ctx.reverse, *packed), strict=True
        ):
            grad_next = None if next_grad_u is None else product(next_grad_u, w)
            step_backward(grad_h, grad_next, grad_carry[: len(h)], norm.last(u), h, rz, n, grad_x, grad_u)
            norm.backward_(grad_u)
            next_grad_u = grad_u
        grad_weight = weight_gradient(grad_products, previous).to(weight.dtype)
        grad_bias = grad_products.sum(dim=0).to(weight.dtype)
        grad_initial = None
        if not ctx.starts_at_zero and next_grad_u is not None:  # the other rows of `grad_carry` began at later steps
            grad_initial = grad_carry[: len(next_grad_u)] + product(next_grad_u, w)
        return grad_inputs, None, grad_initial, grad_weight, grad_bias, None, *norm.gradients, None


def step_forward(x: Tensor, u: Tensor, previous: Tensor, gates: Tensor, candidate: Tensor, state: Tensor) -> None:
    """`gru_update` outside autograd, of g = x (N, 3H), u (N, 3H) and the previous state (N, H).

    Writes r and z to `gates` (N, 2H), n to `candidate` (N, H) and H' to `state` (N, H).
    """
    size = previous.shape[1]
    if previous.is_contiguous() and _fit_kernels(x, u, previous, gates, candidate, state):
        if native.has_kernels(x):
            rows = x, x.stride(0), u, u.stride(0)
            native.run("gru_forward", x.dtype, len(x), size, *rows, previous, gates, candidate, state)
            return
        if (kernels := native.gpu_kernels(x)) is not None:
            kernels.gru_forward(x, u, previous, gates, candidate, state)
            return
    torch.add(x[:, : 2 * size], u[:, : 2 * size], out=gates).sigmoid_()
    torch.addcmul(x[:, 2 * size :], gates[:, :size], u[:, 2 * size : 3 * size], out=candidate).tanh_()
    torch.lerp(candidate, previous, gates[:, size:], out=state)


def step_backward(
    grad_state: Tensor | None,
    grad_next: Tensor | None,
    grad_carry: Tensor,
    u: Tensor,
    previous: Tensor,
    gates: Tensor,
    candidate: Tensor,
    grad_x: Tensor,
    grad_u: Tensor,
) -> None:
    """Backward pass of `step_forward`: dL/dg and dL/du are written to grad_x and grad_u (N, 3H).

    dL/dH' is the sum of three gradients: `grad_state` (N, H), of the output H' itself; `grad_next` (rows, H), through
    the next step's product with the state, for the sentences that the next step has; and `grad_carry` (N, H), through
    the next step's term z * H, in full precision. `grad_carry` is overwritten by the same gradient of this step,
    z dL/dH'.
    """
    size = previous.shape[1]
    given = [gradient for gradient in (grad_state, grad_next) if gradient is not None]
    if _fit_kernels(previous, u, gates, candidate, grad_x, grad_u, *given):
        if native.has_kernels(previous):
            of_state = grad_state, 0 if grad_state is None else grad_state.stride(0)
            of_next = grad_next, 0 if grad_next is None else len(grad_next)
            rows = u, u.stride(0), previous, gates, candidate, grad_x, grad_x.stride(0), grad_u, grad_u.stride(0)
            native.run("gru_backward", previous.dtype, len(previous), size, *of_state, *of_next, grad_carry, *rows)
            return
        if (kernels := native.gpu_kernels(previous)) is not None:
            kernels.gru_backward(grad_state, grad_next, grad_carry, u, previous, gates, candidate, grad_x, grad_u)
            return
    if grad_state is not None:
        grad_carry += grad_state
    if grad_next is not None:
        common = min(len(grad_next), len(grad_carry))
        grad_carry[:common] += grad_next[:common]
    reset, update = gates.chunk(2, dim=1)
    # dL/dn = (1 - z) dL/dH' (1 - n^2);  dL/dr = dL/dn u_n;  dL/dz = (H - n) dL/dH';  sigmoid' = s (1 - s)
    grad_n = grad_carry * (1 - update) * (1 - candidate * candidate)
    grad_x[:, :size] = grad_n * u[:, 2 * size : 3 * size] * reset * (1 - reset)
    grad_x[:, size : 2 * size] = grad_carry * (previous - candidate) * update * (1 - update)
    grad_x[:, 2 * size :] = grad_n
    grad_u[:, : 2 * size] = grad_x[:, : 2 * size]
    grad_u[:, 2 * size : 3 * size] = grad_n * reset
    grad_carry *= update


def accumulation_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype of sums over steps: that of the tensor, but at least float32."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _fit_kernels(*tensors: Tensor) -> bool:
    """Whether kernels can read these tensors: one dtype, and the numbers of a row adjacent."""
    return all(each.dtype == tensors[0].dtype and each.stride(1) == 1 for each in tensors)


def split_steps(counts: list[int], reverse: bool, *packed: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of each step, of several packed tensors at once; from the last step to the first with `reverse`."""
    steps = [torch.split(tensor, counts) for tensor in packed]
    return zip(*(part[::-1] if reverse else part for part in steps), strict=True)


def first_rows(state: Tensor, rows: int) -> Tensor:
    """The first rows of a state, padded with zeros where it has fewer."""
    missing = rows - state.shape[0]
    return state[:rows] if missing <= 0 else F.pad(state, (0, 0, 0, missing))


# The next state from the gates' inputs, the product with the state, and the state.
Update = Callable[[Tensor, Tensor, Tensor], Tensor]


def run_packed(layer: nn.Module, packed: PackedSequence, update: Update, state_blocks: int = 1) -> PackedSequence:
    """The outputs of a one-layer `nn.GRU`, `nn.LSTM` or `nn.RNN` whose equation is `update`.

    A state consists of `state_blocks` blocks, the first of which is the output: [H; c] for an LSTM.
    """
    # For a single sentence, as in interactive translation, torch's kernel is faster.
    single = not torch.is_grad_enabled() and packed.batch_sizes[0] == 1
    if single or why_not_layer(layer) is not None or unsupported(packed.data) is not None:
        weight: Tensor = next(layer.parameters())
        with torch.autocast("cpu", enabled=False):  # or the layer would cast its weights at every step
            output: PackedSequence = layer(packed._replace(data=packed.data.to(weight.dtype)))[0]
        return output
    counts: list[int] = packed.batch_sizes.tolist()
    outputs = []
    for suffix in ("l0", "l0_reverse")[: 2 if layer.bidirectional else 1]:
        weights = (getattr(layer, f"{name}_{suffix}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh"))
        input_weight, input_bias, weight, bias = weights
        inputs = linear(packed.data, input_weight, input_bias)
        reverse = suffix != "l0"
        if update is gru_update:
            outputs.append(gru_sequence(inputs, counts, None, weight, bias, reverse))
        else:
            outputs.append(_step_by_step(inputs, counts, weight, bias, reverse, update, state_blocks))
    return packed._replace(data=torch.cat(outputs, dim=-1))


def why_not_layer(layer: nn.Module) -> str | None:
    """Why `run_packed` runs torch's own layer; None if it runs the fused form."""
    if (reason := unsupported(*layer.parameters()) or changed(layer)) is not None:
        return reason
    if next(layer.parameters()).device.type != "cpu":
        return "the device has fused recurrent layers"
    standard = isinstance(layer, nn.RNNBase) and layer.num_layers == 1 and layer.bias and layer.mode != "RNN_RELU"
    return None if standard and layer.proj_size == 0 else f"{type(layer).__name__} is not a single standard layer"


def _step_by_step(
    inputs: Tensor, counts: list[int], weight: Tensor, bias: Tensor, reverse: bool, update: Update, state_blocks: int
) -> Tensor:
    """The outputs H (M, hidden_size) of all steps over packed sentences, from zero states."""
    size = weight.shape[1]
    steps = torch.split(inputs, counts)
    state, outputs = inputs.new_zeros(0, state_blocks * size), []
    for step in steps[::-1] if reverse else steps:
        state = first_rows(state, len(step))  # sentences end, or begin if `reverse`
        state = update(step, linear(state[..., :size], weight, bias), state)
        outputs.append(state[..., :size])
    return torch.cat(outputs[::-1] if reverse else outputs)
