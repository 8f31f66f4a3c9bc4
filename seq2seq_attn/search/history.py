"""The choices of every step of a search, kept as they were made and read backwards once, when it is over.

Nothing is copied when hypotheses change places in the beam: each remembers whose continuation it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.search.hypothesis import Hypothesis


class Choice(NamedTuple):
    """One step: k hypotheses of each of B sentences went in, K came out."""

    sentences: list[int]  # B indices: the sentences that were still in the batch
    parents: Tensor  # (B, K) int64: which of the k each of the K continues
    tokens: Tensor  # (B, K) int64: by which token
    weights: Tensor | None  # (B * k, S): what the k had read to predict it


class End(NamedTuple):
    """The last place of a hypothesis: where its `</s>` was read off, or where it was cut."""

    score: float
    log_probability: float
    length: int  # predicted tokens, `</s>` included
    slot: int  # its place among its sentence's hypotheses, after the last token that is not `</s>`
    closed: bool  # by `</s>`


def trace(history: Sequence[Choice], ends: Sequence[Sequence[End]], lengths: Sequence[int]) -> list[list[Hypothesis]]:
    """The hypotheses of sentences 0, 1, ... that end there; `lengths` are those of the sources."""
    steps = _Steps(history)
    found = [[_hypothesis(steps, sentence, end) for end in ends[sentence]] for sentence in range(len(ends))]
    if history[0].weights is None:
        return [[hypothesis for hypothesis, _ in hypotheses] for hypotheses in found]
    paths = [path for hypotheses in found for _, path in hypotheses]
    weights = iter(_gather([choice.weights for choice in history if choice.weights is not None], paths))
    return [
        # A copy, lest one matrix that someone keeps hold on to those of the whole batch.
        [hypothesis._replace(weights=next(weights)[:, :length].clone()) for hypothesis, _ in hypotheses]
        for hypotheses, length in zip(found, lengths, strict=True)
    ]


class _Steps:
    """The history on the host."""

    def __init__(self, history: Sequence[Choice]) -> None:
        self.place = [{sentence: row for row, sentence in enumerate(choice.sentences)} for choice in history]
        self.tokens = to_lists([choice.tokens for choice in history])
        self.parents = to_lists([choice.parents for choice in history])
        # With the weights of all steps stacked: where a step begins, and how many rows a sentence has in it.
        self.first, self.width = [0], []
        for choice in history:
            rows = 0 if choice.weights is None else len(choice.weights)
            self.first.append(self.first[-1] + rows)
            self.width.append(rows // len(choice.sentences))

    def weights_row(self, step: int, sentence: int, slot: int) -> int:
        return self.first[step] + self.place[step][sentence] * self.width[step] + slot


def _hypothesis(steps: _Steps, sentence: int, end: End) -> tuple[Hypothesis, list[int]]:
    """The hypothesis without its weights, and the rows of these."""
    slot = end.slot
    words = end.length - end.closed
    tokens: list[int] = []
    rows = [steps.weights_row(words, sentence, slot)] if end.closed else []
    for step in reversed(range(words)):
        place = steps.place[step][sentence]
        tokens.append(steps.tokens[step][place][slot])
        slot = steps.parents[step][place][slot]
        rows.append(steps.weights_row(step, sentence, slot))
    return Hypothesis(tokens[::-1], end.log_probability, end.score, None), rows[::-1]


def _gather(weights: Sequence[Tensor], paths: Sequence[Sequence[int]]) -> tuple[Tensor, ...]:
    """The rows of all hypotheses with one gather and one transfer; a matrix (T', S) for each."""
    rows = torch.tensor([row for path in paths for row in path], dtype=torch.long, device=weights[0].device)
    return torch.split(torch.cat(tuple(weights)).index_select(0, rows).float().cpu(), [len(path) for path in paths])


def to_lists(tensors: Sequence[Tensor]) -> list[Any]:
    """`[tensor.tolist() for tensor in tensors]` with a single transfer to the host."""
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape).tolist() for part, tensor in zip(parts, tensors, strict=True)]
