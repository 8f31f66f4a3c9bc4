"""Fast paths of the recurrence, each beside the plain statement that tests hold it to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.models.products import plus_product, product, summed_product


def gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """`plain_gru_update` as one node of the graph.

    A step is a dozen small operations; autograd would record each, keep what each saw, and walk them all back.
    """
    updated: Tensor = _GRUUpdate.apply(inputs, recurrent, state)  # type: ignore[no-untyped-call]
    return updated


def plain_gru_update(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """H' = (1 - z) * n + z * H with r, z = sigmoid(g + u), n = tanh(g_n + r * u_n); g, u (N, 3H): r, z, n in turn."""
    input_r, input_z, input_n = inputs.chunk(3, dim=-1)
    recurrent_r, recurrent_z, recurrent_n = recurrent.chunk(3, dim=-1)
    reset, update = torch.sigmoid(input_r + recurrent_r), torch.sigmoid(input_z + recurrent_z)
    candidate = torch.tanh(input_n + reset * recurrent_n)
    return (1 - update) * candidate + update * state


class _GRUUpdate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
        size = state.shape[-1]
        gates = torch.add(inputs[..., : 2 * size], recurrent[..., : 2 * size]).sigmoid_()
        reset, update = gates.chunk(2, dim=-1)
        recurrent_n = recurrent[..., 2 * size :]
        candidate = torch.addcmul(inputs[..., 2 * size :], reset, recurrent_n).tanh_()
        ctx.save_for_backward(gates, candidate, recurrent_n, state)
        return torch.lerp(candidate, state, update)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (gradient,) = gradients
        gates, candidate, recurrent_n, state = ctx.saved_tensors
        size = state.shape[-1]
        reset, update = gates.chunk(2, dim=-1)
        of_state = gradient * update
        of_inputs = gradient.new_empty((*gradient.shape[:-1], 3 * size))
        of_r, of_z, of_n = of_inputs.chunk(3, dim=-1)
        # dL/dn = (1 - z) dL/dH' (1 - n^2);  dL/dr = dL/dn u_n;  dL/dz = (H - n) dL/dH'
        torch.sub(gradient, of_state, out=of_n)
        of_n.addcmul_(of_n * candidate, candidate, value=-1)
        torch.mul(of_n, recurrent_n, out=of_r)
        torch.mul(gradient, state - candidate, out=of_z)
        of_inputs[..., : 2 * size].mul_(torch.addcmul(gates, gates, gates, value=-1))  # sigmoid' = s (1 - s)
        of_recurrent = of_inputs.clone()
        of_recurrent[..., 2 * size :].mul_(reset)
        return of_inputs, of_recurrent, of_state


def gru_sequence(
    inputs: Tensor, counts: list[int], initial: Tensor | None, weight: Tensor, bias: Tensor, reverse: bool = False
) -> Tensor:
    """The states (M, H) of `plain_gru_update` step after step, u = W H + b, as one node of the graph.

    inputs (M, 3H) holds counts[0] rows of step 0, then counts[1] of step 1, ...; the rows of a step belong to the first
    so many sentences, and the states come in the same order. With `reverse` the last step is read first. `initial`
    (rows of the step read first, H), zero if None; a sentence that joins at a later step starts from zero.

    Only a product with the state and the gates stand in the loop. On the way back the gates' derivatives are taken for
    all steps before it, and the gradients of W and b after it.
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
        recurrent_n, states = torch.empty_like(candidates), torch.empty_like(candidates)
        state = inputs.new_zeros(0, size) if initial is None else initial.to(inputs.dtype)
        before = []
        with torch.autocast(inputs.device.type, enabled=False):
            for x, u_n, rz, n, h in _steps(counts, reverse, inputs, recurrent_n, gates, candidates, states):
                state = first_rows(state, len(x))
                before.append(state)
                u = product(state, w, b)
                u_n.copy_(u[:, 2 * size :])
                torch.add(x[:, : 2 * size], u[:, : 2 * size], out=rz).sigmoid_()
                torch.addcmul(x[:, 2 * size :], rz[:, :size], u_n, out=n).tanh_()
                state = torch.lerp(n, state, rz[:, size:], out=h)
        ctx.counts, ctx.reverse, ctx.starts_at_zero = counts, reverse, initial is None
        kept = torch.cat(before[::-1] if reverse else before)
        ctx.save_for_backward(kept, gates, candidates, recurrent_n, weight)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        before, gates, n, recurrent_n, weight = ctx.saved_tensors
        w = weight.to(before.dtype).t()
        update = gates[..., weight.shape[1] :]
        of_n, of_r, of_z = derivatives(before, gates, n, recurrent_n)
        factors = torch.stack((of_r, of_z, of_n * gates[..., : weight.shape[1]]), dim=1)  # (M, 3, H)
        of_states, of_recurrent = torch.empty_like(gradient), torch.empty_like(factors)
        carried = gradient.new_zeros(0, weight.shape[1])
        for g, z, factor, of_h, of_u in _steps(
            ctx.counts, not ctx.reverse, gradient, update, factors, of_states, of_recurrent
        ):
            torch.add(g, first_rows(carried, len(g)), out=of_h)
            torch.mul(of_h[:, None], factor, out=of_u)
            carried = plus_product(of_h * z, of_u.flatten(1), w)
        of_recurrent = of_recurrent.flatten(1)
        of_inputs = of_recurrent.clone()
        torch.mul(of_states, of_n, out=of_inputs[:, -weight.shape[1] :])
        of_weight = summed_product(of_recurrent, before).to(weight.dtype)
        of_bias = of_recurrent.sum(dim=0).to(weight.dtype)
        return of_inputs, None, None if ctx.starts_at_zero else carried, of_weight, of_bias, None


def derivatives(before: Tensor, gates: Tensor, candidate: Tensor, recurrent_n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What G = dL/dH' is multiplied with to give the gradients of the pre-activations of n, r and z, for all steps.

    (1 - z) (1 - n^2) for n, times u_n r' for r; (H - n) z' for z; s' = s (1 - s) is a sigmoid's. The gradient of u_n is
    r times that of n.
    """
    reset, update = gates.chunk(2, dim=-1)
    of_n = torch.addcmul(1 - update, 1 - update, candidate * candidate, value=-1)
    of_r = (of_n * recurrent_n).mul_(torch.addcmul(reset, reset, reset, value=-1))
    of_z = (before - candidate).mul_(torch.addcmul(update, update, update, value=-1))
    return of_n, of_r, of_z


def _steps(counts: list[int], reverse: bool, *packed: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of each step in turn, of several packed tensors at once."""
    steps = [torch.split(tensor, counts) for tensor in packed]
    return zip(*(part[::-1] if reverse else part for part in steps), strict=True)


def first_rows(state: Tensor, rows: int) -> Tensor:
    """The first rows of a state, with zeros below it where it has not so many."""
    return state[:rows] if rows <= len(state) else F.pad(state, (0, 0, 0, rows - len(state)))
