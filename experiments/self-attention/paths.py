"""How far does a gradient reach? The derivative of the last state with respect to the inputs before it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from layers import ENCODERS, SELF_ATTENTION, embedded, encoder
from torch import Tensor, nn

from seq2seq_attn.evaluation.significance import t_interval

SENTENCES = 8
DISTANCES = [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500]


def path(seeds: Sequence[int], farthest: int) -> dict[str, object]:
    """For each untrained encoder, the gradient at each distance as a power of ten, over seeds."""
    shown = [distance for distance in DISTANCES if distance <= farthest]
    found: dict[str, object] = {"seeds": list(seeds), "distances": shown, "log10": {}}
    for name in ENCODERS:
        curves = [gradients(encoder(name, seed), embedded(SENTENCES, farthest + 1, seed), seed) for seed in seeds]
        found["log10"][name] = [summary([float(curve[distance]) for curve in curves]) for distance in shown]
    found["maximum path length"] = {
        name: "O(1)" if name.startswith(SELF_ATTENTION) else "O(n)" for name in found["log10"]
    }
    return found


def summary(values: Sequence[float]) -> list[float]:
    """Mean and 95 % t interval over seeds."""
    return [round(value, 4) for value in (sum(values) / len(values), *(t_interval(values) or ()))]


def gradients(layer: nn.Module, x: Tensor, seed: int) -> Tensor:
    """log10 of |∂(v · h_n) / ∂x_{n-d}| / |∂(v · h_n) / ∂x_n| at the distances d = 0, 1, ..., n - 1.

    The mean over sentences x (B, N, size), each with a random direction v: a norm of the whole Jacobian would need as
    many backward passes as a state has units.
    """
    x = x.detach().requires_grad_()
    last = layer(x, torch.full((len(x),), x.shape[1]))[:, -1]
    v = torch.randn(last.shape, generator=torch.Generator().manual_seed(seed), dtype=last.dtype)
    (gradient,) = torch.autograd.grad((v * last).sum(), x)
    logs = log10_norm(gradient).flip(1)
    return (logs - logs[:, :1]).mean(dim=0)


def log10_norm(vectors: Tensor) -> Tensor:
    """log10 |v|, without the squares of numbers below 1e-154, which are 0 in double precision."""
    largest = vectors.abs().amax(dim=-1).clamp(min=torch.finfo(vectors.dtype).tiny)
    return (vectors / largest[..., None]).norm(dim=-1).log10() + largest.log10()
