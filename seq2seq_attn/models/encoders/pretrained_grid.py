"""An encoder of images whose states are the features of a network that was trained on other images."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Pixels, token_mask
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import is_initialized
from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import Encoded, Encoder, EncoderConfig


class PretrainedGrid(Encoder):
    """The states are the cells of a feature map of a pretrained network, row by row (Xu et al. 2015, sec. 3.1.1).

    Images of one width are computed at a time, so that padding changes no state; and the network stays in evaluation
    mode, so that its batch norms keep the statistics of its own training. `training.freeze: [encoder.backbone]` keeps
    its weights as well, as in the paper.

    Args:
        backbone: Maps images (B, channels, height, width) to one feature map in a list, (B, C, rows, columns).
        state_size: C.
    """

    def __init__(self, backbone: nn.Module, state_size: int) -> None:
        super().__init__()
        self.backbone = backbone.eval()
        self.state_size = state_size

    def train(self, mode: bool = True) -> PretrainedGrid:
        super().train(mode)
        self.backbone.eval()
        return self

    def rows(self, source: Pixels) -> int:
        with torch.no_grad():
            return self._features(source.frames[:1]).shape[1]

    def forward(self, source: Pixels) -> Encoded:
        places, maps = [], []
        for width in sorted(set(source.lengths.tolist())):
            rows = (source.lengths == width).nonzero()[:, 0]
            places.append(rows)
            maps.append(self._features(source.frames[rows.to(source.frames.device), :width]))
        columns = torch.empty(len(source.lengths), dtype=torch.int64)
        cells = maps[0].new_zeros(len(columns), maps[0].shape[1], max(each.shape[2] for each in maps), self.state_size)
        for rows, found in zip(places, maps, strict=True):
            cells[rows.to(cells.device), :, : found.shape[2]] = found
            columns[rows] = found.shape[2]
        is_state = token_mask(columns, cells[:, 0])[:, None].expand(-1, cells.shape[1], -1)
        return Encoded.packed(cells.flatten(1, 2), is_state.flatten(1))

    def _features(self, columns: Tensor) -> Tensor:
        """The cells (B, rows, columns, state_size) of images (B, width, height, channels)."""
        found: Tensor = self.backbone(columns.permute(0, 3, 2, 1))[0]
        return found.permute(0, 2, 3, 1)


class PretrainedGridConfig(EncoderConfig):
    """`{kind: pretrained_grid, model: resnet18}`: a model of timm, with the weights that it downloads.

    A run keeps the weights, so that it is used without a download. Set `summary: mean`, since no cell has seen the
    whole image, and `source.normalization` as the model was trained with.
    """

    kind: Literal["pretrained_grid"] = "pretrained_grid"

    reads: ClassVar[type] = Pixels

    model: str  # as `timm.list_models()` names it
    level: int = -1  # of its feature maps; -1: the last one, with the fewest cells

    def build(
        self, source_size: Any, embedding: Any, dropout: DropoutConfig, layer_norm: bool = False
    ) -> PretrainedGrid:
        try:
            import timm
        except ImportError as error:
            raise UserError(
                f"model.encoder.kind=pretrained_grid needs timm ({error}); pip install timm, and the torchvision that "
                f"belongs to this torch"
            ) from None
        options = {"features_only": True, "out_indices": (self.level,), "in_chans": source_size[1]}
        try:
            backbone = timm.create_model(self.model, pretrained=is_initialized(), **options)
        except Exception as error:  # of timm, of the hub that it downloads from, of the connection
            raise UserError(
                f"model.encoder.model={self.model}: timm cannot build it with feature map {self.level} ({error}); "
                f"choose one of timm.list_models(pretrained=True), and make its weights available to timm"
            ) from None
        return PretrainedGrid(backbone, backbone.feature_info.channels()[-1])
