"""The gated recurrent unit: all steps of a sequence as one autograd node, and what a step computes in both passes.

A step is a dozen elementwise operations. Autograd would record each of them, save its operands, and traverse it in the
backward pass. The equations are those of `GRUCell` in models/recurrent/cells.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.models.recurrent.cells import first_rows, split_steps
from seq2seq_attn.ops import native
from seq2seq_attn.ops.autograd import apply
from seq2seq_attn.ops.layers import product, weight_gradient


class NormWeights(NamedTuple):
    """The parameters of `torch.nn.LayerNorm`; without them, the gates are not normalized."""

    gain: Tensor | None = None  # (K,)
    bias: Tensor | None = None  # (K,)
    eps: float = 0.0


NOT_NORMALIZED = NormWeights()


def norm_weights(norm: nn.Module | None) -> NormWeights:
    """Of a norm, or of none, for which `why_not_norm` is None."""
    return NormWeights(norm.weight, norm.bias, norm.eps) if isinstance(norm, nn.LayerNorm) else NOT_NORMALIZED


def why_not_norm(norm: nn.Module | None, linear: nn.Linear) -> str | None:
    """Why `GateNorm` cannot replace this module on the outputs of this layer; None if it can."""
    if norm is None:
        return None
    if type(norm) is not nn.LayerNorm or norm.normalized_shape != (linear.out_features,):
        return f"the gates are normalized by {type(norm).__name__}"
    if not norm.elementwise_affine or norm.bias is None:
        return "layer normalization of the gates has no gain or no bias"
    if not {norm.weight.dtype, norm.bias.dtype} <= {torch.float32, linear.weight.dtype}:
        return f"layer normalization of the gates is in {str(norm.weight.dtype).removeprefix('torch.')}"
    return None


class GateNorm:
    """y = γ (x - mean x) / sqrt(var x + ε) + β of the rows x (N, K) of every step, outside autograd.

    Ba et al. 2016, eq. 4; computed in full precision. Without γ, y is x, and nothing is saved.
    """

    def __init__(self, weights: NormWeights, saved: Sequence[Tensor] = ()) -> None:
        self.gain, self.bias, self.eps = weights
        self.saved = list(saved)  # of every step: x, y, mean x and 1 / sqrt(var x + ε)
        self.grad_gain: Tensor | None = None
        self.grad_bias: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """y of the next step."""
        if self.gain is None or self.bias is None:
            return x
        parameters = full_precision(self.gain), full_precision(self.bias), self.eps
        exact, mean, scale = torch.native_layer_norm(full_precision(x), [x.shape[1]], *parameters)
        y = exact.to(x.dtype)
        self.saved += x, y, mean, scale
        return y

    def last(self, x: Tensor) -> Tensor:
        """y of the last step in `saved`, whose x is given."""
        return x if self.gain is None else self.saved[-3]

    def backward_(self, gradient: Tensor) -> None:
        """Replaces dL/dy of the last step in `saved` by dL/dx, adds its part of dL/dγ and dL/dβ, and removes it."""
        if self.gain is None or self.bias is None:
            return
        scale, mean, _, x = (self.saved.pop() for _ in range(4))
        of_step = full_precision(gradient), full_precision(x), [x.shape[1]], mean, scale
        parameters = full_precision(self.gain), full_precision(self.bias)
        grad_x, grad_gain, grad_bias = torch.ops.aten.native_layer_norm_backward(*of_step, *parameters, [True] * 3)
        gradient.copy_(grad_x)
        self.grad_gain = grad_gain if self.grad_gain is None else self.grad_gain.add_(grad_gain)
        self.grad_bias = grad_bias if self.grad_bias is None else self.grad_bias.add_(grad_bias)

    @property
    def gradients(self) -> NormWeights:
        """dL/dγ and dL/dβ, after the last call of `backward_`."""
        if self.grad_gain is None or self.grad_bias is None or self.gain is None or self.bias is None:
            return NOT_NORMALIZED
        return NormWeights(self.grad_gain.to(self.gain.dtype), self.grad_bias.to(self.bias.dtype))


def gru_sequence(
    inputs: Tensor,
    counts: list[int],
    initial: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    reverse: bool = False,
    norm: NormWeights = NOT_NORMALIZED,
) -> Tensor:
    """The states (M, H) of repeated `GRUCell.update` steps with u = norm(W H + b), as one autograd node.

    The layout of inputs (M, 3H) and states, and the meaning of `counts`, `initial` and `reverse`, are those of `scan`
    in models/recurrent/cells.py. weight (3H, H) is W, bias (3H,) is b.

    The loop contains only the product with the state and the gates; the gradients of W and b are computed after it.
    """
    states: Tensor = apply(_Sequence(inputs, initial, weight, bias, norm, counts, reverse))
    return states


class _Sequence(NamedTuple):
    """What `gru_sequence` computes the states from, or the gradients of these."""

    inputs: Any  # None where the backward pass does not need it
    initial: Any  # there, only whether there was one
    weight: Tensor
    bias: Tensor
    norm: NormWeights
    counts: list[int]
    reverse: bool

    def forward(self) -> tuple[Tensor, _SequenceSteps]:
        inputs, size, initial = self.inputs, self.weight.shape[1], self.initial
        w, b = self.weight.to(inputs.dtype), self.bias.to(inputs.dtype)
        gates, candidates = inputs.new_empty(len(inputs), 2 * size), inputs.new_empty(len(inputs), size)
        states = torch.empty_like(candidates)
        state = inputs.new_zeros(0, size) if initial is None else initial.to(inputs.dtype)
        previous, products, norm = [], [], GateNorm(self.norm)
        with torch.autocast(inputs.device.type, enabled=False):
            for x, rz, n, h in split_steps(self.counts, self.reverse, inputs, gates, candidates, states):
                previous.append(first_rows(state, len(x)))
                products.append(product(previous[-1], w, b))
                step_forward(x, norm.forward(products[-1]), previous[-1], rz, n, h)
                state = h
        all_previous = torch.cat(previous[::-1] if self.reverse else previous)
        needed = self._replace(inputs=None, initial=initial is not None)
        return states, _SequenceSteps(needed, all_previous, gates, candidates, products, norm.saved)


class _SequenceSteps(NamedTuple):
    """What the backward pass of `gru_sequence` needs."""

    given: _Sequence
    previous: Tensor
    gates: Tensor
    candidates: Tensor
    products: list[Tensor]
    normalized: list[Tensor]

    def backward(self, *gradients: Tensor | None) -> _Sequence:
        given, previous, gates, candidates, products, normalized = self
        norm, w = GateNorm(given.norm, normalized), given.weight.to(previous.dtype).t()
        size = given.weight.shape[1]
        grad_inputs, grad_products = (previous.new_empty(len(previous), 3 * size) for _ in range(2))
        grad_carry = previous.new_zeros(max(given.counts), size, dtype=accumulation_dtype(previous))
        packed = cast(Tensor, gradients[0]), previous, gates, candidates, grad_inputs, grad_products
        next_grad_u = None
        for u, (grad_h, h, rz, n, grad_x, grad_u) in zip(
            reversed(products), split_steps(given.counts, not given.reverse, *packed), strict=True
        ):
            grad_next = None if next_grad_u is None else product(next_grad_u, w)
            step_backward(grad_h, grad_next, grad_carry[: len(h)], norm.last(u), h, rz, n, grad_x, grad_u)
            norm.backward_(grad_u)
            next_grad_u = grad_u
        grad_initial = None
        if given.initial and next_grad_u is not None:  # the other rows of `grad_carry` began at later steps
            grad_initial = grad_carry[: len(next_grad_u)] + product(next_grad_u, w)
        grad_weight = weight_gradient(grad_products, previous).to(given.weight.dtype)
        grad_bias = grad_products.sum(dim=0).to(given.weight.dtype)
        return given._replace(
            inputs=grad_inputs, initial=grad_initial, weight=grad_weight, bias=grad_bias, norm=norm.gradients
        )


def step_forward(x: Tensor, u: Tensor, previous: Tensor, gates: Tensor, candidate: Tensor, state: Tensor) -> None:
    """`GRUCell.update` outside autograd, of g = x (N, 3H), u (N, 3H) and the previous state (N, H).

    Writes r and z to `gates` (N, 2H), n to `candidate` (N, H) and H' to `state` (N, H).
    """
    size = previous.shape[1]
    if previous.is_contiguous() and _fit_kernels(x, u, previous, gates, candidate, state):
        if native.has_kernels(x):
            native.run(
                "gru_forward", x.dtype, rows=len(x), size=size, x=x, x_stride=x.stride(0), u=u, u_stride=u.stride(0),
                previous=previous, gates=gates, candidates=candidate, states=state,
            )  # fmt: skip
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
            native.run(
                "gru_backward", previous.dtype, rows=len(previous), size=size, grad_states=grad_state,
                grad_states_stride=0 if grad_state is None else grad_state.stride(0), grad_next=grad_next,
                next_rows=0 if grad_next is None else len(grad_next), grad_carry=grad_carry, u=u, u_stride=u.stride(0),
                previous=previous, gates=gates, candidates=candidate, grad_x=grad_x, grad_x_stride=grad_x.stride(0),
                grad_u=grad_u, grad_u_stride=grad_u.stride(0),
            )  # fmt: skip
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
