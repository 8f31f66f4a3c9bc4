"""What a model read of a sentence, token by token, as plain values that other programs can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.forced import Forced
from seq2seq_attn.search.hypothesis import Hypothesis
from seq2seq_attn.text.vocabulary import EOS, SPECIALS

END = SPECIALS[EOS]


class TargetAttention(NamedTuple):
    """One translation, found or given."""

    tokens: list[str]  # `</s>` last, unless the search was cut at its maximum length
    score: float  # what a search ranked it by; log p(target | source) of one that was given
    weights: NDArray[np.float32]  # (tokens, source tokens): row i was read while token i was being predicted


class TokenAttention(NamedTuple):
    """One sentence; that of a blank line has no token and no translation."""

    source: list[str]  # the tokens that the model read, `</s>` last
    translations: list[TargetAttention]  # best first


def of_search(model: TrainedModel, line: str, hypotheses: Sequence[Hypothesis]) -> TokenAttention:
    """What was read for the hypotheses of a line, which must have been searched with their weights."""
    found = []
    for hypothesis in hypotheses:
        weights: Any = hypothesis.weights
        words = model.target.vocabulary.lookup_tokens(hypothesis.tokens)
        tokens = [*words, END][: len(weights)]
        found.append(TargetAttention(tokens, hypothesis.score, weights.numpy()))
    return _sentence(model, line, found)


def of_forced(model: TrainedModel, source: str, target: str, forced: Forced | None) -> TokenAttention:
    """What was read for a translation that was given; None for a pair with a blank side."""
    if forced is None:
        return TokenAttention([], [])
    weights: Any = forced.weights.numpy()
    return _sentence(model, source, [TargetAttention([*model.target.pieces(target), END], forced.total, weights)])


def _sentence(model: TrainedModel, line: str, translations: list[TargetAttention]) -> TokenAttention:
    if not translations:
        return TokenAttention([], [])
    words = translations[0].weights.shape[1] - 1  # fewer than the line has, if it was cut at data.max_length
    return TokenAttention([*model.source.pieces(line)[:words], END], translations)
