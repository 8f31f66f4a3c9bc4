"""The loss of a batch under teacher forcing: a sum and a count, so that batches may be split and put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.attention.normalizer import full_precision
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.head import Loss, Read
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.guided_alignment import alignment_loss


class _Predicted(NamedTuple):
    """What the M target tokens of a batch are predicted from, pair by pair without padding."""

    read: Read
    memory: Any  # of the head
    targets: Tensor  # (M,)
    weights: Tensor | None  # (B, T, S)


def token_loss(model: Seq2Seq, batch: Batch) -> Loss:
    """-log p(target)."""
    read, memory, targets, _ = _decode(model, batch)
    return model.head.loss(read, targets, memory)


def training_loss(model: Seq2Seq, batch: Batch, config: TrainingConfig) -> Loss:
    """Cross-entropy with label smoothing, R-Drop, guided alignment and coverage, as the configuration says.

    Equations are in models/head.py, `guided_alignment.py` and below.
    """
    guided, smoothing = config.guided_alignment, config.label_smoothing
    with_weights = guided is not None or config.coverage_loss > 0
    # R-Drop compares two dropout masks. One pass over twice the rows is faster than two passes.
    batch = batch.twice() if config.r_drop else batch
    read, memory, targets, weights = _decode(model, batch, with_weights)
    if config.r_drop:
        targets = targets[: len(targets) // 2]
        loss = model.head.r_drop_loss(read, targets, config.r_drop, memory, smoothing)
    else:
        loss = model.head.loss(read, targets, memory, smoothing)
    if weights is None:
        return loss
    of_weights = weights.new_zeros(())
    if guided is not None and batch.links is not None:
        of_weights = guided.weight * alignment_loss(weights, batch.links)
    if config.coverage_loss:
        of_weights = of_weights + config.coverage_loss * coverage_loss(weights, batch.target.is_token)
    return loss._replace(total=loss.total + (of_weights / 2 if config.r_drop else of_weights))


def coverage_loss(weights: Tensor, is_token: Tensor) -> Tensor:
    """Σ_ij min(a_ij, c_ij) over all pairs of a batch, with the coverage c_ij = Σ_{k<i} a_kj.

    What a decoder reads again costs (See et al. 2017, eq. 10, 12 and 13). Scorers such as `linguistic_coverage` let
    attention see what was read before, as in their eq. 11.

    Args:
        weights: a_ij (B, T, S), 0 on padding of the source.
        is_token: (B, T) bool, True at target tokens, False on padding.
    """
    weights = full_precision(weights)
    covered = weights.cumsum(dim=1) - weights
    return (torch.minimum(weights, covered).sum(dim=2) * is_token).sum()


def _decode(model: Seq2Seq, batch: Batch, with_weights: bool = False) -> _Predicted:
    decoded, memory = model.teach(batch.source, batch.target, with_weights or model.head.needs_weights)
    places, targets = batch.target.placed
    return _Predicted(*model.reads(decoded, memory, places), targets, decoded.weights if with_weights else None)


@torch.no_grad()
def refuse_r_drop_without_dropout(model: Seq2Seq, batch: Batch, r_drop: float) -> None:
    """UserError if two passes over the batch give the same features: R-Drop would compare equal predictions."""
    first, second = (_decode(model, batch).read.features for _ in range(2))
    if torch.equal(first, second):
        raise UserError(
            f"training.r_drop={r_drop} needs a model with dropout, but two passes over a batch gave the same "
            f"features; set model.dropout, for example model.dropout.readout=0.3, or training.r_drop=0"
        )
