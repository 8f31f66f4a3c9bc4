"""The pyramid: each layer reads pairs of the states of the one below (Chan et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import SequenceEncoder
from seq2seq_attn.models.encoders.frames import FrameEncoder, FrameEncoderConfig, join
from seq2seq_attn.models.encoders.spec_augment import SpecAugmentConfig


class PyramidalEncoder(FrameEncoder):
    """h^n_k = RNN(h^n_{k-1}, [h^{n-1}_{2k-1}; h^{n-1}_{2k}]) in layers n > 1 (Chan et al. 2016, eq. 6).

    The first layer reads frames, so N layers have one state for 2^(N-1) frames. A last state alone is joined with
    zeros.

    Args:
        networks: The layers, from the lowest to the top; the input of each above the first is two states of the one
            below.
        dropout: Of the states that a layer passes on.
        masks: As for `FrameEncoder`.
    """

    reads_as_states = False  # its lower layers have more positions

    def __init__(self, networks: Sequence[SequenceEncoder], dropout: float, masks: SpecAugmentConfig | None) -> None:
        super().__init__(masks)
        self.networks = nn.ModuleList(networks)
        self.dropout = nn.Dropout(dropout)
        self.state_size, self.directions = networks[-1].state_size, networks[-1].directions

    def read(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        states = frames
        for level, network in enumerate(self.networks):
            if level > 0:
                states, lengths = join(self.dropout(states), lengths, 2)
            states = network(states, lengths)
        return states, lengths


class PyramidalConfig(FrameEncoderConfig):
    """`{kind: pyramidal, layers: 3, network: {kind: recurrent, cell: lstm}}`: layers of `network`, joined by pairs."""

    kind: Literal["pyramidal"] = "pyramidal"
    layers: Annotated[int, Field(ge=1, le=8)] = 3  # each above the first halves the number of states

    @property
    def frames_per_state(self) -> int:
        return int(2 ** (self.layers - 1))

    def build(
        self, source_size: Any, embedding: Any, dropout: DropoutConfig, layer_norm: bool = False
    ) -> PyramidalEncoder:
        networks = [self.new_network(source_size, dropout, layer_norm)]
        while len(networks) < self.layers:
            networks.append(self.new_network(2 * networks[-1].state_size, dropout, layer_norm))
        return PyramidalEncoder(networks, dropout.state, self.spec_augment)
