"""Forced decoding: the probability and the attention weights of a given target."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.corpora.source import Source, Tokens
from seq2seq_attn.models.seq2seq import HeadWeights, Seq2Seq


class Forced(NamedTuple):
    """The result for one pair of T target tokens, `</s>` included, and a source with S states."""

    log_probabilities: Tensor  # (T,) float32 on the CPU: log p(y_i | y_1 .. y_{i-1}, X)
    total: float  # their sum, log p(Y | X)
    weights: Tensor  # (T, S) float32 on the CPU: row i predicted token i


@torch.inference_mode()
def force(translator: Seq2Seq, source: Source, target: Tokens) -> list[Forced]:
    """Decode each target given its source, by teacher forcing; padding is not projected onto the vocabulary."""
    decoded, memory = translator.teach(source, target)
    assert decoded.weights is not None
    places, tokens = target.placed
    logits = translator.logits(decoded, memory, places)
    # Near 10 the spacing of bfloat16 is 1/16; a sum over a sentence would be off by whole units.
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probabilities = -F.cross_entropy(logits, tokens, reduction="none")

    lengths = target.lengths.tolist()
    scored = torch.split(log_probabilities.cpu(), lengths)
    all_weights, all_states = decoded.weights.float().cpu(), memory.is_state.cpu()
    return [
        # Copies, so that keeping one matrix does not keep those of the whole batch alive.
        Forced(values.float().clone(), float(values.sum()), weights[:length, states].clone())
        for values, weights, length, states in zip(scored, all_weights, lengths, all_states, strict=True)
    ]


@torch.inference_mode()
def force_heads(translator: Seq2Seq, source: Source, target: Tokens) -> list[HeadWeights]:
    """The weights of every layer and head while each target is predicted: `HeadWeights.of_pair`, float32 on the CPU."""
    cross, encoder, decoder, is_state = translator.head_weights(source, target)
    assert is_state is not None
    on_host = [tuple(layer.float().cpu() for layer in layers) for layers in (cross, encoder, decoder)]
    weights = HeadWeights(on_host[0], on_host[1], on_host[2], is_state.cpu())
    return [weights.of_pair(row, length) for row, length in enumerate(target.lengths.tolist())]
