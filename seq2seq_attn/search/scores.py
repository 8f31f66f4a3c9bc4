"""What greedy and beam search share of a step: the scores of the next token, and who stays in the batch."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq_attn.text.vocabulary import BOS, EOS, PAD

# Selecting rows of the memory moves about as much as one step reads of it. It has paid once the rows that it
# dropped, summed over the steps since, make a whole batch: with an eighth, after eight steps.
WORTH_LEAVING = 1 / 8


def next_token_scores(logits: Tensor, may_end: bool) -> Tensor:
    """log p(token | tokens before) (N, V) of logits (N, V), in float32 or better.

    -inf for `<pad>` and `<s>`, which are never produced, and for `</s>` where it may not come yet. The
    softmax runs over the whole vocabulary all the same, so the numbers are those of forced decoding.
    """
    at_least_single = torch.promote_types(logits.dtype, torch.float32)
    scores = F.log_softmax(logits, dim=-1, dtype=at_least_single)
    scores[:, PAD] = scores[:, BOS] = -inf
    if not may_end:
        scores[:, EOS] = -inf
    return scores


def staying(running: Tensor) -> Tensor:
    """Rows of the sentences that stay in the batch, in order; none when no sentence is running (B,) any more.

    Finished sentences stay too, as rows that nobody reads, until enough of them leave together. Of a whole
    step, this alone waits for the device.
    """
    rows = running.nonzero().flatten()
    leaving = len(running) - len(rows)
    if len(rows) and 0 < leaving < WORTH_LEAVING * len(running):
        return torch.arange(len(running), device=running.device)
    return rows
