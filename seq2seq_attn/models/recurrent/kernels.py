"""Fast paths of the recurrence, each beside the plain statement that tests hold it to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
