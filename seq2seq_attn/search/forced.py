"""Forced decoding: the probability and the attention weights of a given translation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.seq2seq import HeadWeights, Seq2Seq


class Forced(NamedTuple):
    """The result for one pair of T target and S source tokens, `</s>` included."""

    log_probabilities: Tensor  # (T,) float32 on the CPU: log p(y_i | y_1 .. y_{i-1}, X)
    total: float  # their sum, log p(Y | X)
    weights: Tensor  # (T, S) float32 on the CPU: row i predicted token i


@torch.inference_mode()
def force(translator: Seq2Seq, source: Tokens, target: Tokens) -> list[Forced]:
    """Decode each target given its source, by teacher forcing; padding is not projected onto the vocabulary."""
    decoded = translator.decode(translator.decoder_inputs(target), translator.encode(source))
    is_token = target.is_token
    logits = translator.project(decoded.features[is_token])
    # Near 10 the spacing of bfloat16 is 1/16; a sum over a sentence would be off by whole units.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probabilities = -F.cross_entropy(logits, target.tokens[is_token], reduction="none")

    target_lengths, source_lengths = target.lengths.tolist(), source.lengths.tolist()
    scored = torch.split(log_probabilities.cpu(), target_lengths)
    all_weights = decoded.weights.float().cpu()
    return [
        # Copies, so that keeping one matrix does not keep those of the whole batch alive.
        Forced(values.float().clone(), float(values.sum()), weights[:target_length, :source_length].clone())
        for values, weights, target_length, source_length in zip(
            scored, all_weights, target_lengths, source_lengths, strict=True
        )
    ]


@torch.inference_mode()
def force_heads(translator: Seq2Seq, source: Tokens, target: Tokens) -> list[HeadWeights]:
    """The weights of every layer and head while each target is predicted: `HeadWeights.of_pair`, float32 on the CPU."""
    found = translator.head_weights(source, target)
    weights = HeadWeights(*(tuple(layer.float().cpu() for layer in layers) for layers in found))
    lengths = zip(target.lengths.tolist(), source.lengths.tolist(), strict=True)
    return [weights.of_pair(row, *tokens) for row, tokens in enumerate(lengths)]
