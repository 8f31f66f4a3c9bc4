"""A search that can be ended between two of its steps, by whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.seq2seq import Decoded, Seq2Seq, Step

AtStep = Callable[[], object]  # called before every step of decoding; what it raises ends the work


def never() -> None:
    """Never ends the work."""


class Interruptible(Seq2Seq):
    """The same translator, which calls `at_step` before it encodes and before every step of a search."""

    def __init__(self, translator: Seq2Seq, at_step: AtStep) -> None:
        super().__init__()
        self.inner = translator
        self.at_step = at_step
        self.start_token = translator.start_token

    def encode(self, source: Tokens) -> Any:
        self.at_step()
        return self.inner.encode(source)

    def start(self, memory: Any) -> Any:
        return self.inner.start(memory)

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        self.at_step()
        return self.inner.step(tokens, state, memory)

    def decode(self, inputs: Tensor, memory: Any) -> Decoded:
        return self.inner.decode(inputs, memory)
