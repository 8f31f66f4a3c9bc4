"""The recurrent encoder: layers in one or two directions over packed sentences; and one that reads in reverse.

GRU, LSTM and plain RNN layers are torch's own; those of minGRU and SRU are `ScanLayer`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from seq2seq_attn.models.encoder import SequenceEncoder, TokenEncoderConfig
from seq2seq_attn.models.recurrent.cells import CELLS, ScanCell, SingleCell, initialize
from seq2seq_attn.models.recurrent.decoders import CellName, check_residual
from seq2seq_attn.strict import Layers, Size

LAYERS: dict[str, Callable[..., nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}


class RecurrentEncoder(SequenceEncoder):
    """States h_1..h_S of a source: h_j = [forward GRU up to j; backward GRU down to j] (Bahdanau et al. 2015, A.2.1).

    Sentences are packed, so layers never see padding, and states on padding are zero. With `residual`, the input of
    every layer except the first is added to its output (Wu et al. 2016, eq. 5 and 6).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        cell: str = "gru",
        layers: int = 1,
        bidirectional: bool = True,
        residual: bool = False,
        dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.cell: type[SingleCell] = CELLS[cell]
        self.residual = residual
        self.directions = 2 if bidirectional else 1
        self.state_size = self.directions * hidden_size
        sizes = [input_size] + [self.state_size] * (layers - 1)
        make_layer: Callable[..., nn.Module]
        if issubclass(self.cell, ScanCell):
            make_layer = partial(ScanLayer, self.cell)
        else:
            make_layer = partial(LAYERS[cell], batch_first=True)
        self.layers = nn.ModuleList(make_layer(size, hidden_size, bidirectional=bidirectional) for size in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(self.state_size) if layer_norm else nn.Identity() for _ in sizes)
        self.dropout = nn.Dropout(dropout)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                initialize(parameter.data)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of embedded sources (B, S, input_size); lengths (B,) on the CPU."""
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        for level, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            inputs = packed if level == 0 else _map(self.dropout, packed)
            outputs = _map(norm, self.run_layer(layer, inputs))
            is_residual = self.residual and level > 0
            packed = outputs._replace(data=outputs.data + packed.data) if is_residual else outputs
        return pad_packed_sequence(packed, batch_first=True, total_length=embedded.shape[1])[0]

    def run_layer(self, layer: nn.Module, packed: PackedSequence) -> PackedSequence:
        """The outputs of a layer over packed sentences."""
        weight: Tensor = next(layer.parameters())
        outputs: PackedSequence = layer(packed._replace(data=packed.data.to(weight.dtype)))[0]
        return outputs


class ScanLayer(nn.Module):
    """The outputs of a `ScanCell` in one or two directions over packed sentences, from states of zero.

    The second direction starts at each sentence's own last word, as in torch's layers.
    """

    def __init__(self, cell: type[ScanCell], input_size: int, hidden_size: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.cell = cell
        self.directions = 2 if bidirectional else 1
        self.from_input = nn.Linear(input_size, self.directions * cell.gates * hidden_size)

    def forward(self, packed: PackedSequence) -> tuple[PackedSequence, None]:
        """The outputs; and None, where torch's layers return their last states."""
        counts: list[int] = packed.batch_sizes.tolist()
        gates = self.from_input(packed.data).chunk(self.directions, dim=-1)
        states = [self.cell.all_states(own, counts, reverse=bool(way)) for way, own in enumerate(gates)]
        return packed._replace(data=torch.cat([self.cell.output(each) for each in states], dim=-1)), None


def _map(module: Callable[[Tensor], Tensor], packed: PackedSequence) -> PackedSequence:
    return packed._replace(data=module(packed.data))


class ReversedEncoder(SequenceEncoder):
    """A unidirectional encoder that reads a sentence x_1, ..., x_n, `</s>` as x_n, ..., x_1, `</s>`.

    (Sutskever et al. 2014, sec. 3.3.) The states are returned in the original order: h_j is the state of x_j, so that
    attention, windows and alignments use the positions of the written sentence. `</s>` is read last; its state is C.
    """

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.directions = encoder.directions
        self.state_size = encoder.state_size

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of embedded sources (B, S, input_size); lengths (B,) on the CPU."""
        order = reversal(lengths - 1, embedded.shape[1]).to(embedded.device)  # `</s>` keeps its position
        return _reorder(self.encoder(_reorder(embedded, order), lengths), order)


def reversal(counts: Tensor, positions: int) -> Tensor:
    """The permutation (B, S) int64 that reverses the first `counts` (B,) positions of each row; its own inverse.

    >>> reversal(torch.tensor([3, 1]), 5).tolist()
    [[2, 1, 0, 3, 4], [0, 1, 2, 3, 4]]
    """
    places = torch.arange(positions, device=counts.device)
    return torch.where(places < counts[:, None], counts[:, None] - 1 - places, places)


def _reorder(vectors: Tensor, order: Tensor) -> Tensor:
    return vectors.gather(1, order[..., None].expand(-1, -1, vectors.shape[2]))


class RecurrentEncoderConfig(TokenEncoderConfig):
    """`{cell: gru, hidden_size: 256}`; see `RecurrentEncoder` and `ReversedEncoder`."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = "gru"  # kind of recurrent cell
    hidden_size: Size = 256  # of each direction
    layers: Layers = 1  # stacked cells in each direction
    residual: bool = False  # around every layer except the first
    bidirectional: bool = True  # a second direction, from the last word to the first
    reverse_source: bool = False  # read from the last word to the first; positions remain those of the written sentence

    @model_validator(mode="after")
    def _residual_needs_layers(self) -> RecurrentEncoderConfig:
        check_residual(self.residual, self.layers)
        return self

    @model_validator(mode="after")
    def _reversed_needs_one_direction(self) -> RecurrentEncoderConfig:
        if self.reverse_source and self.bidirectional:
            raise ValueError("reverse_source=true needs an encoder of one direction; set bidirectional=false")
        return self

    def network(
        self, input_size: int, *, dropout: float, is_first: bool, layer_norm: bool = False
    ) -> RecurrentEncoder | ReversedEncoder:
        encoder = RecurrentEncoder(
            input_size,
            self.hidden_size,
            cell=self.cell,
            layers=self.layers,
            bidirectional=self.bidirectional,
            residual=self.residual,
            dropout=dropout,
            layer_norm=layer_norm,
        )
        return ReversedEncoder(encoder) if self.reverse_source else encoder
