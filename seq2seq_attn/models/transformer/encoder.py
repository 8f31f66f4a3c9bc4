"""The encoder of a Transformer."""

from __future__ import annotations

from torch import Tensor, nn

from seq2seq_attn.models.encoder import Encoder
from seq2seq_attn.models.transformer.stack import LayerStack
from seq2seq_attn.models.translator import token_mask
from seq2seq_attn.ops.dispatch import fusible
from seq2seq_attn.ops.transformer import encode_layers, packed_layers, why_not


@fusible
class TransformerEncoder(LayerStack, Encoder):
    """States h_1..h_S of a source: self-attention layers over the embedded tokens (Vaswani et al. 2017, sec. 3.1)."""

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        is_token, x = token_mask(lengths, embedded), self.below(embedded)
        for layer in self.kept():
            x = self.layers[layer](x, is_token)
        states: Tensor = self.final_norm(x)
        return states

    def for_inference(self) -> InferenceEncoder | None:
        """The encoder with its current weights, and faster; None if nothing is faster for its layers."""
        return InferenceEncoder(self) if why_not(self, list(self.layers)) is None else None


class InferenceEncoder(TransformerEncoder):
    """An encoder with constant weights, computed by `ops.transformer`."""

    def __init__(self, encoder: TransformerEncoder) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(encoder.__dict__)
        self.packed = packed_layers(list(self.layers))

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        states: Tensor = self.final_norm(encode_layers(self.below(embedded), lengths, self.packed))
        return states
