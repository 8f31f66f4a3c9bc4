"""An ensemble: models of one target vocabulary whose predictions are averaged at every step.

Itself a `Seq2Seq`, so every search and forced decoding work with it as with a single model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.models.head import GivenLogits
from seq2seq_attn.models.seq2seq import Decoded, Memory, Rows, Seq2Seq, Step


class _PerMember(NamedTuple):
    """The memories, or the states, of the members."""

    parts: tuple[Rows, ...]

    def select(self, rows: Tensor) -> _PerMember:
        return _PerMember(tuple(part.select(rows) for part in self.parts))


class Ensemble(Seq2Seq):
    """p(y_i | y_1 .. y_{i-1}, X) = 1/M sum_m p_m(y_i | y_1 .. y_{i-1}, X) of M models with the same token ids.

    The logits are the logarithm of this arithmetic mean. Attention weights are the mean of the members' weights, and 0
    wherever a member has none. Members must encode a source into the same number of states.
    """

    def __init__(self, members: Iterable[Seq2Seq]) -> None:
        super().__init__()
        every = list(members)
        self.members = nn.ModuleList(every)
        self.head = GivenLogits()
        self.start_token = every[0].start_token

    def encode(self, source: Source) -> Memory:
        memories = self._each(lambda member: member.encode(source))
        return Memory(_PerMember(memories), memories[0].is_state)

    def start(self, memory: Memory) -> _PerMember:
        return _PerMember(self._each(lambda member, own: member.start(own), memory.source.parts))

    def step(self, tokens: Tensor, state: _PerMember, memory: Memory) -> Step:
        steps = self._each(lambda member, *own: member.step(tokens, *own), state.parts, memory.source.parts)
        return Step(
            _mean_logits([step.logits for step in steps]),
            _PerMember(tuple(step.state for step in steps)),
            _mean_weights([step.weights for step in steps]),
        )

    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        # Only probabilities can be averaged: the features of an ensemble are its logits.
        decoded = self._each(
            lambda member, own: member.decode(inputs, own, need_weights or member.head.needs_weights),
            memory.source.parts,
        )
        every = torch.arange(inputs.numel(), device=inputs.device)
        logits = self._each(lambda member, *own: member.logits(*own, every), decoded, memory.source.parts)
        weights = _mean_weights([each.weights for each in decoded]) if need_weights else None
        return Decoded(_mean_logits(logits).view(*inputs.shape, -1), weights)

    def rows(self, source: Source) -> int:
        return self._each(lambda member: member.rows(source))[0]  # type: ignore[no-any-return]

    @property
    def attends(self) -> bool:
        """Whether every member reads individual states of the source; if not, all weights are 0."""
        return all(self._each(lambda member: member.attends))

    def with_outputs(self, tokens: Tensor) -> Ensemble:
        return Ensemble(self._each(lambda member: member.with_outputs(tokens)))

    def _each(self, work: Callable[..., Any], *parts: Sequence[Any]) -> tuple[Any, ...]:
        """The results of `work` for each member with its own parts."""
        return tuple(map(work, self.members, *parts))


def _mean_logits(logits: Sequence[Tensor]) -> Tensor:
    """log 1/M sum_m softmax(logits_m), in float32 or better: bfloat16 has 8 bits for a probability."""
    dtype = torch.promote_types(logits[0].dtype, torch.float32)
    log_probabilities = torch.stack([each.log_softmax(dim=-1, dtype=dtype) for each in logits])
    return log_probabilities.logsumexp(dim=0) - log(len(logits))


def _mean_weights(weights: Sequence[Tensor]) -> Tensor:
    """The mean of all members' weights (..., S); rows of 0 where a member did not read the source."""
    stacked = torch.stack([each.float() for each in weights])
    return stacked.mean(dim=0) * stacked.any(dim=-1, keepdim=True).all(dim=0)
