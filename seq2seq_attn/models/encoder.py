"""What every family of models expects of an encoder, its configuration, and encoders on top of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny
from torch import Tensor, nn

from seq2seq_attn.strict import Tagged


class Encoder(nn.Module, ABC):
    """States h_1..h_S of a source, which the decoder reads through its context."""

    state_size: int  # width of the states
    directions: int = 1  # 2: the halves of a state are those of a forward and of a backward direction

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of embedded sources (B, S, E); lengths (B,) on the CPU. Padding has no effect."""


class EncoderConfig(Tagged):
    """The configuration of an encoder; every kind has a subclass with its own options and `build`."""

    kind: str = "recurrent"

    @property
    def max_positions(self) -> int | None:
        """The number of tokens of the longest source, `</s>` included; None: no limit."""
        return None

    @abstractmethod
    def build(self, input_size: int, *, dropout: float, layer_norm: bool = False, is_first: bool = True) -> Encoder:
        """The encoder of inputs of this width: embedded tokens, or the states of another encoder if not `is_first`.

        `dropout` is that between its layers; `layer_norm` normalizes recurrent layers, which otherwise have none.
        UserError if sizes do not fit.
        """


def lowest(*limits: int | None) -> int | None:
    """The lowest of these limits, where None is no limit."""
    return min((limit for limit in limits if limit is not None), default=None)


class StackedEncoder(Encoder):
    """Encoders on top of each other: each reads the states of the one below."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.state_size, self.directions = encoders[-1].state_size, encoders[-1].directions

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        states = embedded
        for encoder in self.encoders:
            states = encoder(states, lengths)
        return states


Encoders = Annotated[tuple[SerializeAsAny[EncoderConfig], ...], Field(min_length=2, max_length=16)]


class StackedEncoderConfig(EncoderConfig):
    """`{kind: stacked, encoders: [{kind: recurrent}, {kind: transformer, layers: 1}]}`: self-attention over states."""

    kind: Literal["stacked"] = "stacked"
    encoders: Encoders  # from the lowest to the top

    @property
    def max_positions(self) -> int | None:
        return lowest(*(config.max_positions for config in self.encoders))

    def build(
        self, input_size: int, *, dropout: float, layer_norm: bool = False, is_first: bool = True
    ) -> StackedEncoder:
        encoders: list[Encoder] = []
        for config in self.encoders:
            size = encoders[-1].state_size if encoders else input_size
            encoders.append(config.build(size, dropout=dropout, layer_norm=layer_norm, is_first=not encoders))
        return StackedEncoder(encoders)
