"""The gated recurrent unit: its plain statement, and nodes of the graph for one step and for all steps.

A step is a dozen small operations; autograd would record each, keep what each saw, and walk them all back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.ops import native
from seq2seq_attn.ops.linear import product, summed_product


def plain_gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """H' = (1 - z) * n + z * H with r, z = sigmoid(g + u), n = tanh(g_n + r * u_n); g, u (N, 3H): r, z, n in turn."""
    input_r, input_z, input_n = inputs.chunk(3, dim=-1)
    recurrent_r, recurrent_z, recurrent_n = recurrent.chunk(3, dim=-1)
    reset, update = torch.sigmoid(input_r + recurrent_r), torch.sigmoid(input_z + recurrent_z)
    candidate = torch.tanh(input_n + reset * recurrent_n)
    return (1 - update) * candidate + update * state


def gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """`plain_gru_update` of g, u (N, 3H) and H (N, H) as one node of the graph."""
    if not torch.is_grad_enabled():
        return _updated(inputs, recurrent, state.contiguous())[-1]
    updated: Tensor = _GRUUpdate.apply(inputs, recurrent, state)  # type: ignore[no-untyped-call]
    return updated


class _GRUUpdate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        state = state.contiguous()
        gates, candidate, updated = _updated(inputs, recurrent, state)
        ctx.save_for_backward(gates, candidate, recurrent, state)
        return updated

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, candidate, recurrent, state = ctx.saved_tensors
        carried = state.new_zeros(state.shape, dtype=exact(state))
        of_inputs, of_recurrent = (torch.empty_like(recurrent) for _ in range(2))
        step_backward(gradients[0], None, carried, recurrent, state, gates, candidate, of_inputs, of_recurrent)
        return of_inputs, of_recurrent, carried.to(state.dtype)


def _updated(inputs: Tensor, recurrent: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r and z, n, and H'."""
    gates = state.new_empty(len(state), 2 * state.shape[1])
    candidate, updated = torch.empty_like(state), torch.empty_like(state)
    step_forward(inputs, recurrent, state, gates, candidate, updated)
    return gates, candidate, updated


def gru_sequence(
    inputs: Tensor, counts: list[int], initial: Tensor | None, weight: Tensor, bias: Tensor, reverse: bool = False
) -> Tensor:
    """The states (M, H) of `plain_gru_update` step after step, u = W H + b, as one node of the graph.

    inputs (M, 3H) holds counts[0] rows of step 0, then counts[1] of step 1, ...; the rows of a step belong to the first
    so many sentences, and the states come in the same order. With `reverse` the last step is read first. `initial`
    (rows of the step read first, H), zero if None; a sentence that joins at a later step starts from zero.

    Only a product with the state and the gates stand in the loop; the gradients of W and b are taken after it.
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
        before, shares = [], []
        with torch.autocast(inputs.device.type, enabled=False):
            for x, rz, n, h in _steps(counts, reverse, inputs, gates, candidates, states):
                before.append(first_rows(state, len(x)))
                shares.append(product(before[-1], w, b))
                step_forward(x, shares[-1], before[-1], rz, n, h)
                state = h
        ctx.counts, ctx.reverse, ctx.starts_at_zero = counts, reverse, initial is None
        kept = torch.cat(before[::-1] if reverse else before)
        ctx.save_for_backward(kept, gates, candidates, weight, *shares)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        before, gates, candidates, weight, *shares = ctx.saved_tensors
        w, size = weight.to(before.dtype).t(), weight.shape[1]
        of_inputs, of_shares = (before.new_empty(len(before), 3 * size) for _ in range(2))
        carried, later = before.new_zeros(max(ctx.counts), size, dtype=exact(before)), None
        steps = _steps(ctx.counts, not ctx.reverse, gradients[0], before, gates, candidates, of_inputs, of_shares)
        for u, (of_h, h, rz, n, of_x, of_u) in zip(reversed(shares), steps, strict=True):
            if later is not None:
                later = product(later, w)
            step_backward(of_h, later, carried[: len(h)], u, h, rz, n, of_x, of_u)
            later = of_u
        of_weight = summed_product(of_shares, before).to(weight.dtype)
        of_bias = of_shares.sum(dim=0).to(weight.dtype)
        of_initial = None if ctx.starts_at_zero or later is None else carried + product(later, w)
        return of_inputs, None, of_initial, of_weight, of_bias, None


def step_forward(x: Tensor, u: Tensor, before: Tensor, gates: Tensor, candidate: Tensor, state: Tensor) -> None:
    """`plain_gru_update` of g = x, u (N, 3H) and the state before, written to r and z (N, 2H), n and H' (N, H)."""
    size = before.shape[1]
    if before.is_contiguous() and _native(x, u, before, gates, candidate, state):
        rows = x, x.stride(0), u, u.stride(0)
        native.run("gru_forward", x.dtype, len(x), size, *rows, before, gates, candidate, state)
        return
    torch.add(x[:, : 2 * size], u[:, : 2 * size], out=gates).sigmoid_()
    torch.addcmul(x[:, 2 * size :], gates[:, :size], u[:, 2 * size : 3 * size], out=candidate).tanh_()
    torch.lerp(candidate, before, gates[:, size:], out=state)


def step_backward(
    of_state: Tensor | None,
    later: Tensor | None,
    carried: Tensor,
    u: Tensor,
    before: Tensor,
    gates: Tensor,
    candidate: Tensor,
    of_x: Tensor,
    of_u: Tensor,
) -> None:
    """The way back of `step_forward`: dL/dg and dL/du are written to of_x and of_u (N, 3H).

    dL/dH' is the sum of what the state's readers say (N, H), of what comes through the next step's product (of its
    first rows, or of more) and of what comes past its gates: `carried` (N, H), in full precision. In its place comes
    what goes past the gates of this step, z dL/dH'.
    """
    size = before.shape[1]
    if _native(before, u, gates, candidate, of_x, of_u, *(part for part in (of_state, later) if part is not None)):
        readers = of_state, 0 if of_state is None else of_state.stride(0)
        product = later, 0 if later is None else len(later)
        rows = u, u.stride(0), before, gates, candidate, of_x, of_x.stride(0), of_u, of_u.stride(0)
        native.run("gru_backward", before.dtype, len(before), size, *readers, *product, carried, *rows)
        return
    if of_state is not None:
        carried += of_state
    if later is not None:
        both = min(len(later), len(carried))
        carried[:both] += later[:both]
    reset, update = gates.chunk(2, dim=1)
    # dL/dn = (1 - z) dL/dH' (1 - n^2);  dL/dr = dL/dn u_n;  dL/dz = (H - n) dL/dH';  sigmoid' = s (1 - s)
    of_n = carried * (1 - update) * (1 - candidate * candidate)
    of_x[:, :size] = of_n * u[:, 2 * size : 3 * size] * reset * (1 - reset)
    of_x[:, size : 2 * size] = carried * (before - candidate) * update * (1 - update)
    of_x[:, 2 * size :] = of_n
    of_u[:, : 2 * size] = of_x[:, : 2 * size]
    of_u[:, 2 * size : 3 * size] = of_n * reset
    carried *= update


def exact(tensor: Tensor) -> torch.dtype:
    """The precision of sums over steps: that of the tensor, float32 at least."""
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
    """The first rows of a state, with zeros below it where it has not so many."""
    return state[:rows] if rows <= len(state) else F.pad(state, (0, 0, 0, rows - len(state)))
