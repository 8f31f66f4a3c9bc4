"""From scores to weights: the one place where padding is excluded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.registry import Registry, kept_arguments
from seq2seq_attn.attention.shapes import ScoreRows, Scores, TokenRows, Weights
from seq2seq_attn.attention.source import NOTHING, History


class Normalizer(nn.Module, ABC):
    """Maps scores to weights over the last dimension; a concrete subclass can be named in a configuration."""

    equation: ClassVar[str] = ""  # for the listing: e is the score, a the weight
    source: ClassVar[str] = ""  # paper and equation number
    sums_to_one: ClassVar[bool] = True  # False if the definition does not guarantee it
    needs_history: ClassVar[bool] = False  # True in a HistoryNormalizer

    def __init_subclass__(cls, *, registered: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if registered:
            _normalizers.add(cls)

    def extra_repr(self) -> str:
        return kept_arguments(self)

    def forward(self, scores: ScoreRows, is_token: TokenRows | None = None) -> ScoreRows:
        """Computes the weights of rows of scores.

        Half precision is computed in float32 and cast back: a sum in bfloat16 loses the small terms of a long row.

        Args:
            scores: e (..., S); every row needs a token with a finite score.
            is_token: True on tokens, broadcast over the scores; None: all positions are tokens.

        Returns:
            a (..., S), in the dtype of the scores; exactly 0 on padding and where a score is -inf.
        """
        return self.normalize(masked(scores, is_token)).to(scores.dtype)

    @abstractmethod
    def normalize(self, scores: ScoreRows) -> ScoreRows:
        """Computes weights where padding is already excluded.

        Args:
            scores: e (..., S) in full precision; -inf marks the positions that must get exactly 0.

        Returns:
            a (..., S).
        """

    @property
    def can_extend(self) -> bool:
        """Whether the source may grow between steps: False if the history has an entry for each position."""
        return True

    def start(self, scores: ScoreRows) -> History:
        """Returns the history before the first step: tensors (B, 1, ...).

        Args:
            scores: Any tensor (B, 1, S); only its shape, dtype and device matter.
        """
        return NOTHING

    def after(self, history: History, scores: Scores, is_token: TokenRows | None = None) -> Weights:
        """Returns the weights (B, K, S) of the scores of K hypotheses, each after its history."""
        return self(scores, is_token)

    def advance(self, history: History, weights: ScoreRows) -> History:
        """Returns the history after a step with these `weights` (B, K, S), without changing the one before."""
        return history

    def condition(self, history: History, log_likelihood: ScoreRows) -> History:
        """Returns the history after a step whose result is known; arguments as for `Context.condition`.

        For a history that is a distribution over positions: p(j | result) ∝ p(j) p(result | j).
        """
        return history


_normalizers: Registry[Normalizer] = Registry("normalizer", Normalizer)


class HistoryNormalizer(Normalizer, ABC):
    """A normalizer whose weights depend on those of earlier steps.

    The history works as in `HistoryScorer`. Rows are (B, K, S), K hypotheses per sentence.
    """

    needs_history = True

    @property
    def can_extend(self) -> bool:
        return False

    @abstractmethod
    def start(self, scores: ScoreRows) -> History: ...

    def forward(
        self, scores: ScoreRows, is_token: TokenRows | None = None, history: History | None = None
    ) -> ScoreRows:
        history = self.start(scores) if history is None else history
        return self.normalize_after(masked(scores, is_token), history).to(scores.dtype)

    def normalize(self, scores: ScoreRows) -> ScoreRows:
        return self.normalize_after(scores, self.start(scores))

    @abstractmethod
    def normalize_after(self, scores: ScoreRows, history: History) -> ScoreRows:
        """Computes weights as `normalize` does, after the steps of the history."""

    def after(self, history: History, scores: Scores, is_token: TokenRows | None = None) -> Weights:
        return self(scores, is_token, history)

    @abstractmethod
    def advance(self, history: History, weights: ScoreRows) -> History: ...


def masked(scores: ScoreRows, is_token: TokenRows | None) -> ScoreRows:
    """Scores in full precision, with -inf on everything that is not a token."""
    scores = full_precision(scores)
    # With a score that overflowed, perhaps in half precision, softmax would compute inf - inf; the largest float gives
    # the limit instead.
    scores = scores.clamp(torch.finfo(scores.dtype).min, torch.finfo(scores.dtype).max)
    return scores if is_token is None else torch.where(is_token, scores, -torch.inf)


def log_weights(weights: ScoreRows) -> ScoreRows:
    """log a in full precision; -inf, without a gradient, where a is 0."""
    weights = full_precision(weights)
    return torch.where(weights > 0, torch.where(weights > 0, weights, 1.0).log(), -torch.inf)


def below_the_highest(scores: ScoreRows) -> ScoreRows:
    """Scores minus the maximum of their row: the differences stay the same and nothing overflows."""
    return scores - scores.detach().amax(dim=-1, keepdim=True)


def full_precision(tensor: Tensor) -> Tensor:
    """The tensor, in float32 if it is in half precision: bfloat16 cannot represent 257, and 1 + 0.003 rounds to 1."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def normalizer_class(name: str) -> type[Normalizer]:
    """Finds the normalizer that a configuration names, as `scorer_class` does for scorers."""
    return _normalizers.find(name)


def normalizer_classes() -> dict[str, type[Normalizer]]:
    """Returns all normalizers by configuration name."""
    return _normalizers.classes()
