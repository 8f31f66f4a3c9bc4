"""Hypotheses: what a search returns, and how it is recovered from the choices of every step.

A search records its choices step by step, with back-pointers to the continued hypotheses, and traces them back once at
its end. Nothing is copied when hypotheses change places in the beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.ops.host import is_synchronous
from seq2seq_attn.options import SearchOptions

# Selecting rows of the memory moves about as much data as one step reads of it. It pays once the rows dropped, summed
# over the following steps, amount to a whole batch: with an eighth of the batch, after eight steps.
_WORTH_SELECTING = 1 / 8

_ASKED_EVERY = 4  # steps


class Hypothesis(NamedTuple):
    """One translation of one sentence.

    T' counts the predicted tokens: all of `tokens`, and `</s>` unless the hypothesis was truncated at the maximum
    length. S' is the number of states of the source: its length, `</s>` included, unless the encoder
    joins positions.
    """

    tokens: list[int]  # without `</s>`
    log_probability: float  # log p(Y | X): the sum over the predicted tokens, `</s>` included
    score: float  # the ranking criterion: `SearchOptions.score`, or a mean utility
    weights: Tensor | None  # (T', S') float32 on the CPU: row i predicted token i; None unless they were requested


class Choice(NamedTuple):
    """One step, from k to K hypotheses of each of B sentences."""

    sentences: list[int]  # B indices: the sentences still in the batch
    parents: Tensor  # (B, K) int64: back-pointers, which of the k each of the K continues
    tokens: Tensor  # (B, K) int64: with which token
    weights: Tensor | None  # (B * k, S): attention weights with which the k predicted it


class Extended(NamedTuple):
    """The continuations of the k live hypotheses of B sentences by one step."""

    closed: Tensor  # (B, k): log-probability of each with `</s>`; -inf where that is not among the K best
    live: Tensor  # (B, K): log-probabilities of the K best other continuations, best first
    parents: Tensor  # (B, K): which of the k each continues
    tokens: Tensor  # (B, K): with which token
    coverage: Tensor | None = None  # (B, k): see `SearchOptions.score`; None unless it is part of the score


class End(NamedTuple):
    """Where a hypothesis ends: with its `</s>`, or truncated."""

    score: float
    log_probability: float
    length: int  # predicted tokens, `</s>` included
    slot: int  # its index among the sentence's hypotheses after the last token that is not `</s>`
    closed: bool  # whether it ends in `</s>`


def trace(history: Sequence[Choice], ends: Sequence[Sequence[End]], is_state: Tensor) -> list[list[Hypothesis]]:
    """The hypotheses of sources 0, 1, ... with these ends; `is_state` (B, S) is True where a source has a state."""
    steps = _Steps(history)
    found = [[_hypothesis(steps, sentence, end) for end in ends[sentence]] for sentence in range(len(ends))]
    if history[0].weights is None:
        return [[hypothesis for hypothesis, _ in hypotheses] for hypotheses in found]
    paths = [path for hypotheses in found for _, path in hypotheses]
    weights = iter(_gather([choice.weights for choice in history if choice.weights is not None], paths))
    return [
        # A copy, so that keeping one matrix does not keep those of the whole batch alive.
        [hypothesis._replace(weights=next(weights)[:, states].clone()) for hypothesis, _ in hypotheses]
        for hypotheses, states in zip(found, is_state.cpu(), strict=True)
    ]


def first_ends(
    history: Sequence[Choice], totals: Sequence[Tensor], limits: Sequence[int], options: SearchOptions
) -> list[list[End]]:
    """Where n hypotheses of each sentence end that never change places: their first `</s>`, or the maximum length.

    `totals` (B, n) are their log-probabilities after each step.
    """
    ends: list[dict[int, End]] = [{} for _ in limits]
    log_probabilities, tokens = to_lists(totals), to_lists([choice.tokens for choice in history])
    for step, choice in enumerate(history):
        length = step + 1
        for row, sentence in enumerate(choice.sentences):
            is_last = length == limits[sentence]
            if not is_last and EOS not in tokens[step][row]:
                continue
            for slot, (token, total) in enumerate(zip(tokens[step][row], log_probabilities[step][row], strict=True)):
                if slot not in ends[sentence] and (is_last or token == EOS):
                    ends[sentence][slot] = End(options.score(total, length), total, length, slot, token == EOS)
    return [[found[slot] for slot in sorted(found)] for found in ends]


class _Steps:
    """The history, copied to the host."""

    def __init__(self, history: Sequence[Choice]) -> None:
        self.place = [{sentence: row for row, sentence in enumerate(choice.sentences)} for choice in history]
        self.tokens = to_lists([choice.tokens for choice in history])
        self.parents = to_lists([choice.parents for choice in history])
        # In the stacked weights of all steps: the first row of each step, and its number of rows per sentence.
        self.first, self.width = [0], []
        for choice in history:
            rows = 0 if choice.weights is None else len(choice.weights)
            self.first.append(self.first[-1] + rows)
            self.width.append(rows // len(choice.sentences))

    def weights_row(self, step: int, sentence: int, slot: int) -> int:
        return self.first[step] + self.place[step][sentence] * self.width[step] + slot


def _hypothesis(steps: _Steps, sentence: int, end: End) -> tuple[Hypothesis, list[int]]:
    """The hypothesis without its weights, and the rows of its weights in the stack."""
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
    """A matrix (T', S) for each hypothesis, with a single gather and a single transfer to the host."""
    rows = torch.tensor([row for path in paths for row in path], dtype=torch.long, device=weights[0].device)
    return torch.split(torch.cat(tuple(weights)).index_select(0, rows).float().cpu(), [len(path) for path in paths])


def to_lists(tensors: Sequence[Tensor]) -> list[Any]:
    """`[tensor.tolist() for tensor in tensors]` with a single transfer to the host."""
    flat = torch.cat(list(map(torch.flatten, tensors))).cpu()
    parts = flat.split(list(map(Tensor.numel, tensors)))  # type: ignore[no-untyped-call]
    return [part.view(tensor.shape).tolist() for part, tensor in zip(parts, tensors, strict=True)]


def active_rows(running: Tensor, length: int) -> Tensor:
    """Rows to keep in the batch, in order, after `length` tokens; none when all have finished.

    Finished sentences are kept as unused rows until enough of them can be dropped together. An accelerator is asked
    only every `_ASKED_EVERY` steps, as that is where its host waits for it, and rows are then dropped by halves:
    steps are recorded for each size of a batch (ops/graphs.py).

    Args:
        running: Whose search goes on (B,).
        length: The number of steps so far.
    """
    if not is_synchronous(running):
        return _half_or_all(running, length)
    rows, count = running.nonzero().flatten(), running.shape[0]
    finished = count - rows.shape[0]
    if 0 < finished < _WORTH_SELECTING * count:
        return torch.arange(count, device=running.device)
    return rows


def _half_or_all(running: Tensor, length: int) -> Tensor:
    kept = running.shape[0]
    if length % _ASKED_EVERY:
        return torch.arange(kept, device=running.device)
    rows = running.nonzero().flatten()
    left = rows.shape[0]
    if left == 0:
        return rows
    while -(-kept // 2) >= left and kept > 1:
        kept = -(-kept // 2)
    unused = (~running).nonzero().flatten()[: kept - left]
    return torch.cat((rows, unused)).sort().values
