"""Rows put into another order, padding left where it is."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.shapes import ScoreRows, TokenRows


def reordered(rows: ScoreRows, is_open: TokenRows, keys: ScoreRows) -> ScoreRows:
    """The numbers on open positions sorted by their keys, from left to right; all others stay in their places."""
    is_open = is_open.expand(rows.shape)
    order = torch.where(is_open, keys, torch.inf).argsort(dim=-1, stable=True)
    places = (~is_open).int().argsort(dim=-1, stable=True)
    return torch.empty_like(rows).scatter(-1, places, rows.gather(-1, order))
