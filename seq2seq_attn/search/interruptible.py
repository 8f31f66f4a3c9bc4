"""A search that can be ended between two of its steps, by whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from seq2seq_attn.models.seq2seq import Memory, Seq2Seq, Step, Wrapper

AtStep = Callable[[], object]  # called before every step of decoding; what it raises ends the work


def never() -> None:
    """Never ends the work."""


class Interruptible(Wrapper):
    """The same model, which calls `at_step` before it encodes and before every step of a search."""

    def __init__(self, model: Seq2Seq, at_step: AtStep) -> None:
        super().__init__(model)
        self.at_step = at_step

    def encode(self, source: Any) -> Memory:
        self.at_step()
        return self.inner.encode(source)

    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        self.at_step()
        return self.inner.step(tokens, state, memory)
