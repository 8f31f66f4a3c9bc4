"""What encoder and decoder of a Transformer share: embeddings with positions below the layers, and layer drop."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Position
from seq2seq_attn.models.transformer.layers import Norm


class LayerStack(nn.Module):
    """Layers of the same width, from the embedded tokens to the states.

    The input is multiplied by `scale`, which is √size for embedded tokens (Vaswani et al. 2017, sec. 3.4), and gets its
    positions. In training, every layer is skipped with probability `layer_drop` (Fan et al. 2020, sec. 3.2), but never
    all of them. With `norm=pre`, the states of the last layer are normalized (Xiong et al. 2020, table 1).
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        size: int,
        norm: Norm,
        position: Position | None,
        *,
        scale: float,
        dropout: float = 0.0,
        layer_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.state_size = size
        self.scale = scale
        self.position = position
        self.layers = nn.ModuleList(layers)
        self.final_norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.layer_drop = layer_drop

    def below(self, inputs: Tensor, start: int = 0) -> Tensor:
        """The input of the first layer (B, N, size), for positions start, start + 1, ..."""
        x = inputs * self.scale
        dropped: Tensor = self.dropout(x if self.position is None else self.position.add(x, start))
        return dropped

    def kept(self) -> list[int]:
        """The layers that are not skipped, redrawn at every call in training."""
        everything = list(range(len(self.layers)))
        if not self.training or self.layer_drop == 0:
            return everything
        drawn = (torch.rand(len(self.layers)) >= self.layer_drop).tolist()
        return [layer for layer in everything if drawn[layer]] or everything[-1:]
