"""The encoder of a Transformer."""

from __future__ import annotations

from torch import Tensor

from seq2seq_attn.corpora.source import token_mask
from seq2seq_attn.models.encoder import SequenceEncoder
from seq2seq_attn.models.transformer.stack import LayerStack


class TransformerEncoder(LayerStack, SequenceEncoder):
    """States h_1..h_S of a source: self-attention layers over the embedded tokens (Vaswani et al. 2017, sec. 3.1)."""

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        is_token, x = token_mask(lengths, embedded), self.below(embedded)
        for layer in self.kept():
            x = self.layers[layer](x, is_token)
        states: Tensor = self.final_norm(x)
        return states
