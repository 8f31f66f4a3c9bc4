"""A picture of what a head reads: the values v_j of a source in a plane.

The plane is that of the two principal components of v_1 .. v_S with the largest variance. Points are the values
themselves, projected, not their differences from the mean. As the projection is linear, C_i = Σ_j a_ij v_j holds among
the points as it does among the values, for weights of any sum. Distances are those of the values only as far as the
plane shows their variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq_attn.analysis.attention_files import NO_WEIGHTS
from seq2seq_attn.analysis.step_interventions import check_head, check_layer
from seq2seq_attn.analysis.stepwise import source_item, source_tokens
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.intervened import IntervenedModel
from seq2seq_attn.runs.model import TrainedModel


class ValuePlane(NamedTuple):
    """The values of a source in the plane of their two largest principal components."""

    source: tuple[str, ...]  # tokens, `</s>` last
    points: list[tuple[float, float]]  # of v_j, one for each token
    share: float  # of the variance of the values, from 0 to 1, that the plane shows


@torch.inference_mode()
def value_plane(model: TrainedModel, source: str | Sequence[str], layer: int = 0, head: int = 0) -> ValuePlane:
    """The plane of what one head of one layer of the decoder reads, both counted from 0.

    UserError: the source is blank or has an unknown token, or the model has no such layer or head.
    """
    opened = IntervenedModel(model.fused)
    if not opened.heads:
        raise UserError(NO_WEIGHTS)
    check_layer(opened, layer)
    check_head(head, opened.heads[layer])
    memory = opened.model.encode(model.source.collate([source_item(model, source)]).to(model.device))
    first = torch.tensor([model.fused.start_token], device=model.device)
    _, attended = opened.step(first, opened.model.start(memory), memory)
    assert attended is not None  # it has heads
    points, share = _principal_plane(attended.values[layer][0, head, memory.is_state[0]].double().cpu())
    return ValuePlane(source_tokens(model, source, len(points)), [(a, b) for a, b in points.tolist()], share)


def _principal_plane(vectors: Tensor) -> tuple[Tensor, float]:
    """Vectors (S, D) in their plane (S, 2), and its share of their variance."""
    _, deviations, components = torch.linalg.svd(vectors - vectors.mean(dim=0), full_matrices=False)
    points = vectors @ components[:2].T
    # A component has no sign of its own: the point that is farthest along it is on its positive side.
    points = points * points.gather(0, points.abs().argmax(dim=0, keepdim=True)).sign()
    variances = deviations.square()
    share = float(variances[:2].sum() / variances.sum()) if variances.sum() > 0 else 1.0
    return pad(points, (0, 2 - points.shape[1])), share
