"""What a search finds."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Hypothesis(NamedTuple):
    """One translation of one sentence."""

    tokens: list[int]  # without `</s>`
    log_probability: float  # log p(Y | X): the sum over the predicted tokens, `</s>` included
    score: float  # what it was ranked by: the log-probability over the length penalty
    weights: Tensor | None  # (T', S') float32 on the CPU: row i was read while token i was predicted

    # T' counts the predicted tokens: all of `tokens`, and `</s>` unless the hypothesis was cut at the maximum
    # length. S' is the length of the source, `</s>` included. None unless the weights were asked for.
