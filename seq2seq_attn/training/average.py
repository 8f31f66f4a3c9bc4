"""The moving average of the weights over all steps of a training, which is what is validated and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from seq2seq_attn.search.batched import evaluation_mode


class WeightAverage:
    """An exponential moving average of the weights of all steps (Polyak & Juditsky 1992 average them equally).

    a_t = d_t a_{t-1} + (1 - d_t) w_t after step t, with d_t = min(decay, (1 + t) / (10 + t)): early averages forget the
    initial weights sooner (the warm-up of TensorFlow's `ExponentialMovingAverage`). The average is over about the last
    1 / (1 - decay) steps; Marian's option `--exponential-smoothing` is the same with another warm-up.

    The weights that are trained never depend on the average.
    """

    def __init__(self, weights: Mapping[str, nn.Parameter], decay: float) -> None:
        self.weights: list[Tensor] = list(weights.values())
        self.averages: dict[str, Tensor] = {name: weight.detach().clone() for name, weight in weights.items()}
        self.decay = decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After step t = `step`, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.averages.values()), self.weights, 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchanges weights and averages, in place: what refers to a weight's memory remains valid."""
        for average, weight in zip(self.averages.values(), self.weights, strict=True):
            trained = weight.clone()
            weight.copy_(average)
            average.copy_(trained)


@contextmanager
def evaluating(model: nn.Module, average: WeightAverage | None) -> Iterator[None]:
    """In the block, the model is in evaluation mode and has the averages of its weights, if there are any."""
    with evaluation_mode(model):
        if average is not None:
            average.swap()
        try:
            yield
        finally:
            if average is not None:
                average.swap()
