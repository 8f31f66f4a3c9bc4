"""Phrases in tables, and how far hypotheses match them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from seq2seq_attn.corpora.encoded import Ids

_NO_TOKEN = -1  # pads phrases; no hypothesis has it


def phrase_table(phrases: Iterable[Ids], device: torch.device | str) -> Tensor:
    """Phrases as the rows of a table (P, L), padded with a number that is no token."""
    rows = [torch.tensor(list(phrase), dtype=torch.int64) for phrase in phrases]
    if not rows:
        return torch.empty(0, 1, dtype=torch.int64, device=device)
    return pad_sequence(rows, batch_first=True, padding_value=_NO_TOKEN).to(device)


def follow(phrases: Tensor, matched: Tensor, tokens: Tensor) -> Tensor:
    """How far phrases match the ends of hypotheses, after one more token: Shift-And (Baeza-Yates & Gonnet 1992).

    Args:
        phrases: The phrases (P, L), or those of each hypothesis (N, P, L).
        matched: (N, P, L) bool: whether the hypothesis ends in the first 1 .. L tokens of the phrase.
        tokens: The next token of each hypothesis (N,).

    Returns:
        The same after that token.
    """
    return shifted(matched) & (phrases == tokens[:, None, None])


def shifted(matched: Tensor) -> Tensor:
    """Whether a hypothesis ends in the first 0 .. L - 1 tokens."""
    return F.pad(matched[..., :-1], (1, 0), value=True)
