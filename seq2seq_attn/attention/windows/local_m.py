"""LocalM: a window that moves one position per step (Luong et al. 2015, sec. 3.2)."""

from __future__ import annotations

import torch

from seq2seq_attn.attention.checks import unfit
from seq2seq_attn.attention.shapes import Query, Steps, TokenRows
from seq2seq_attn.attention.window import View, Window, token_count, token_positions


class LocalM(Window):
    """Local-m: only tokens s with |s - p_t| ≤ D are read, p_t = t (Luong et al. 2015, sec. 3.2, "monotonic").

    Positions and steps count from 0. A translation may be longer than its source: beyond the end,
    where the paper does not define p_t, the center stays at the last token.

    With D = 0 step t reads token t and nothing else, whatever the scorer: the diagonal, a baseline that is as sharp as
    weights can be and learns nothing about where to read.

    Args:
        query_size: The width of q.
        half_width: D, in tokens.
    """

    equation = "|s - t| ≤ D"
    source = 'Luong et al. 2015, sec. 3.2, "local-m"'
    needs_steps = True

    def __init__(self, query_size: int, half_width: int = 10) -> None:
        super().__init__(query_size)
        if half_width < 0:
            raise unfit(self, "half_width >= 0", half_width)
        self.half_width = half_width

    def forward(self, query: Query, is_token: TokenRows, steps: Steps) -> View:
        center = torch.minimum(steps[..., None], token_count(is_token) - 1)
        distance = (token_positions(is_token) - center).abs()
        return View(is_token & (distance <= self.half_width), factor=None)
