"""The loss of a batch under teacher forcing: a sum and a count, so that batches may be split and put together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.guided_alignment import alignment_loss


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, in nats."""

    total: Tensor  # (): what training minimizes
    negative: Tensor  # (): -log p(target), without label smoothing and without a gradient
    tokens: int  # their number, padding excluded


def token_loss(model: Seq2Seq, batch: Batch) -> Loss:
    """-log p(target)."""
    features, targets, _ = _decode(model, batch)
    return Loss(*model.loss(features, targets), len(targets))


def training_loss(model: Seq2Seq, batch: Batch, config: TrainingConfig) -> Loss:
    """Cross-entropy with label smoothing, R-Drop and guided alignment, as the configuration says.

    Equations are in models/losses.py and `guided_alignment.py`.
    """
    guided, smoothing = config.guided_alignment, config.label_smoothing
    # R-Drop compares two dropout masks. One pass over twice the rows is faster than two passes.
    batch = batch.twice() if config.r_drop else batch
    features, targets, weights = _decode(model, batch, with_weights=guided is not None)
    if config.r_drop:
        targets = targets[: len(targets) // 2]
        total, negative = model.r_drop_loss(features, targets, config.r_drop, smoothing)
    else:
        total, negative = model.loss(features, targets, smoothing)
    if guided is not None and batch.links is not None and weights is not None:
        guidance = guided.weight * alignment_loss(weights, batch.links)
        total = total + (guidance / 2 if config.r_drop else guidance)
    return Loss(total, negative, len(targets))


def _decode(model: Seq2Seq, batch: Batch, with_weights: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features (M, R) that predict the M target tokens, sentence by sentence without padding, and the tokens (M,).

    The third result are the attention weights (B, T, S), if they are asked for.
    """
    inputs, memory = model.decoder_inputs(batch.target), model.encode(batch.source)
    if with_weights:
        features, weights = model.decode(inputs, memory)
    else:
        features, weights = model.features(inputs, memory), None
    is_token = batch.target.is_token
    return features[is_token], batch.target.tokens[is_token], weights


@torch.no_grad()
def refuse_r_drop_without_dropout(model: Seq2Seq, batch: Batch, r_drop: float) -> None:
    """UserError if two passes over the batch give the same features: R-Drop would compare equal predictions."""
    if torch.equal(_decode(model, batch)[0], _decode(model, batch)[0]):
        raise UserError(
            f"training.r_drop={r_drop} needs a model with dropout, but two passes over a batch gave the same "
            f"features; set model.dropout, for example model.dropout.readout=0.3, or training.r_drop=0"
        )
