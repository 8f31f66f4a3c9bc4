"""From scores to weights: the one place where padding is excluded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from seq2seq_attn.attention.registry import Registry
from seq2seq_attn.attention.shapes import IsToken, ScoreRows, States, TokenRows, Weights

_normalisers: Registry[Normaliser] = Registry("normaliser")


class Normaliser(nn.Module, ABC):
    """Scores in, weights out, over the last dimension; a concrete subclass can be named in a config."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _normalisers.add(cls)

    def forward(self, scores: ScoreRows, is_token: TokenRows | None = None) -> ScoreRows:
        """Weights (..., S) of scores (..., S); exactly 0 on padding and where a score is -inf.

        `is_token` is broadcast over the scores; None means that all are tokens. Every row needs a token whose
        score is finite. Half precision is computed in float32 and cast back: a sum in bfloat16 loses the
        small terms of a long row.
        """
        if is_token is not None:
            scores = torch.where(is_token, scores, -torch.inf)
        if scores.dtype in (torch.float16, torch.bfloat16):
            return self.normalise(scores.float()).to(scores.dtype)
        return self.normalise(scores)

    @abstractmethod
    def normalise(self, scores: ScoreRows) -> ScoreRows:
        """Weights of scores in which -inf stands on all that must get exactly 0."""


class Softmax(Normaliser):
    """exp(e_j) / Σ_k exp(e_k): weights above 0 that sum to 1."""

    def normalise(self, scores: ScoreRows) -> ScoreRows:
        return torch.softmax(scores, dim=-1)


def uniform_weights(states: States, is_token: IsToken) -> Weights:
    """(B, 1, S): 1 / (number of tokens) on every token, as softmax gives where all scores are equal."""
    weights: Weights = Softmax()(states.new_zeros(is_token.shape)[:, None], is_token[:, None])
    return weights


def normaliser_class(name: str) -> type[Normaliser]:
    """The normaliser called `name` in a config; ValueError with the nearest name if there is none."""
    return _normalisers.find(name)


def normaliser_classes() -> dict[str, type[Normaliser]]:
    """All normalisers by config name."""
    return _normalisers.classes()
