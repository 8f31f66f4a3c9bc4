"""Forced decoding: what a model thinks of a given translation, and where it looks meanwhile."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.models.translator import Sentences, Translator


class Forced(NamedTuple):
    """One target under a model; T and S count its tokens and its source's, `</s>` included."""

    log_probabilities: Tensor  # (T,) float32 on the CPU: log p(y_i | y_1 .. y_{i-1}, X)
    total: float  # their sum, log p(Y | X)
    weights: Tensor  # (T, S) float32 on the CPU: row i was read while token i was being predicted


@torch.inference_mode()
def force(translator: Translator, source: Sentences, target: Sentences) -> list[Forced]:
    """Read each target beside its source, in one pass; only real tokens are projected onto the vocabulary."""
    decoded = translator.decode(translator.decoder_inputs(target), translator.encode(source))
    is_token = target.is_token
    logits = translator.project(decoded.features[is_token])
    # Near 10, bfloat16 knows sixteenths only; a sum over a sentence would drift by whole units.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probabilities = -F.cross_entropy(logits, target.tokens[is_token], reduction="none")

    target_lengths, source_lengths = target.lengths.tolist(), source.lengths.tolist()
    scored = torch.split(log_probabilities.cpu(), target_lengths)
    read = decoded.weights.float().cpu()
    return [
        # Copies, lest one matrix that someone keeps hold on to those of the whole batch.
        Forced(values.float().clone(), float(values.sum()), weights[:target_length, :source_length].clone())
        for values, weights, target_length, source_length in zip(
            scored, read, target_lengths, source_lengths, strict=True
        )
    ]
