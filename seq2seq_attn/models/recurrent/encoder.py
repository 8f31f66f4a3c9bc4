"""The encoder: a stack of recurrent layers in one or two directions, over packed sentences."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from seq2seq_attn.models.recurrent.cells import CELLS, initialise
from seq2seq_attn.ops.dispatch import known
from seq2seq_attn.ops.dropout import Dropout
from seq2seq_attn.ops.recurrent_layer import read_packed, why_not

LAYERS: dict[str, Callable[..., nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}


@known
class RecurrentEncoder(nn.Module):
    """States h_1..h_S of a source: h_j = [forward GRU up to j; backward GRU down to j] (Bahdanau et al. 2015, A.2.1).

    Sentences are packed, so padding never enters a layer and the states on padding are zero.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        cell: str = "gru",
        layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.cell = CELLS[cell]
        self.directions = 2 if bidirectional else 1
        self.state_size = self.directions * hidden_size
        sizes = [input_size] + [self.state_size] * (layers - 1)
        self.layers = nn.ModuleList(
            LAYERS[cell](size, hidden_size, bidirectional=bidirectional, batch_first=True) for size in sizes
        )
        self.norms = nn.ModuleList(nn.LayerNorm(self.state_size) if layer_norm else nn.Identity() for _ in sizes)
        self.dropout = Dropout(dropout)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                initialise(parameter.data)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of embedded sources (B, S, input_size); lengths (B,) on the CPU."""
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            if layer is not self.layers[0]:
                packed = _map(self.dropout, packed)
            packed = _map(norm, read_packed(layer, packed, self.cell.update, self.cell.states))
        return pad_packed_sequence(packed, batch_first=True, total_length=embedded.shape[1])[0]

    def why_not(self) -> str | None:
        """Why some layer is not read by the fused form; None if all are."""
        return next((reason for layer in self.layers if (reason := why_not(layer)) is not None), None)


def _map(module: nn.Module, packed: PackedSequence) -> PackedSequence:
    return packed._replace(data=module(packed.data))
