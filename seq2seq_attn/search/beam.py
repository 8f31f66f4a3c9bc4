"""Beam search: at every step the K best unfinished hypotheses of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.models.translator import Sentences, Translator
from seq2seq_attn.search.history import Choice, End, to_lists, trace
from seq2seq_attn.search.hypothesis import Hypothesis
from seq2seq_attn.search.options import SearchOptions
from seq2seq_attn.search.scores import END, next_token_scores, staying


class Beam(NamedTuple):
    """B sentences in the batch, with k live hypotheses each: 1 before the first step, then K."""

    live: Tensor  # (B, k): log-probabilities of the unfinished hypotheses, best first
    best: Tensor  # (B, n): scores of the n best finished ones, best first; -inf where there is none yet
    finished: Tensor  # (B,): how many have finished
    limit: Tensor  # (B,): maximum length
    limit_penalty: Tensor  # (B,): lp at the maximum length

    def select(self, rows: Tensor) -> Beam:
        return Beam(*(part.index_select(0, rows) for part in self))


class Extended(NamedTuple):
    """What one step makes of the k live hypotheses of B sentences."""

    closed: Tensor  # (B, k): log-probability of each with `</s>` behind it; -inf where that is not among the K best
    live: Tensor  # (B, K): log-probabilities of the K best continuations by a word, best first
    parents: Tensor  # (B, K): which of the k each continues
    tokens: Tensor  # (B, K): by which token


@torch.inference_mode()
def beam_search(
    translator: Translator, source: Sentences, options: SearchOptions, with_weights: bool = False
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each of the B sentences, best first; fewer where fewer have finished.

    A hypothesis is ranked by log p(Y | X) / lp(Y) with lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). It
    finishes when its `</s>` is among the K best continuations of its sentence; K unfinished ones always go on. A
    sentence is done when K hypotheses have finished, or when no live one can come among the n best, or at its maximum
    length. The second rule is exact: log p falls with every token and lp rises, so the score of whatever continues a
    live hypothesis is at most its own log p over lp at the maximum length. If none has finished by then, the live
    hypotheses are returned as they stand.

    Equal scores are broken as `torch.topk` breaks them, always alike for the same scores; finished hypotheses with
    equal scores, by which finished first.
    """
    lengths = source.lengths.tolist()
    limits = [options.limit(length) for length in lengths]
    device = source.tokens.device
    memory = translator.encode(source)
    state = translator.start(memory)

    sentences = list(range(len(lengths)))
    tokens = torch.full((len(sentences),), translator.start_token, device=device)
    beam = _start(limits, options, device)
    running = torch.ones_like(beam.limit, dtype=torch.bool)
    history: list[Choice] = []
    extensions: list[Extended] = []
    for length in range(1, max(limits) + 1):
        output = translator.step(tokens, state, memory)
        scores = next_token_scores(output.logits, may_end=length >= options.min_length)
        extended = _extend(beam.live, scores, options.beam_size)
        extended = extended._replace(closed=extended.closed.masked_fill(~running[:, None], -inf))
        extensions.append(extended)
        weights = output.weights if with_weights else None
        history.append(Choice(sentences, extended.parents, extended.tokens, weights))

        first = torch.arange(0, len(tokens), beam.live.shape[1], device=device)  # rows of the state: a sentence's first
        beam = _update(beam, extended, options.penalty(length))
        running = running & _goes_on(beam, options.beam_size, length)
        hypotheses, tokens = first[:, None] + extended.parents, extended.tokens
        rows = staying(running)
        if len(rows) == 0:
            break
        if len(rows) < len(sentences):
            sentences = [sentences[row] for row in rows.tolist()]
            memory, beam = memory.select(rows), beam.select(rows)
            running, hypotheses, tokens = (part.index_select(0, rows) for part in (running, hypotheses, tokens))
        state, tokens = output.state.select(hypotheses.flatten()), tokens.flatten()
    return trace(history, _ends(history, extensions, limits, options), lengths)


def _start(limits: Sequence[int], options: SearchOptions, device: torch.device) -> Beam:
    count = len(limits)
    return Beam(
        live=torch.zeros(count, 1, device=device),
        best=torch.full((count, options.n_best), -inf, device=device),
        finished=torch.zeros(count, dtype=torch.long, device=device),
        limit=torch.tensor(limits, device=device),
        limit_penalty=torch.tensor([options.penalty(limit) for limit in limits], device=device),
    )


def _extend(live: Tensor, scores: Tensor, beam_size: int) -> Extended:
    """One step from live (B, k) and scores (B * k, V) of the next token."""
    total = live[:, :, None] + scores.view(*live.shape, -1)
    vocabulary_size = total.shape[-1]
    # Of 2K candidates at most K end a hypothesis, one for each, so that K are left to go on.
    candidates, index = total.flatten(1).topk(min(2 * beam_size, live.shape[1] * vocabulary_size))
    closed = total[:, :, END]
    kth_best = candidates[:, :beam_size][:, -1:]
    is_end = index % vocabulary_size == END
    live, order = candidates.masked_fill(is_end, -inf).topk(min(beam_size, candidates.shape[1]))
    index = index.gather(1, order)
    return Extended(
        closed=closed.masked_fill(closed < kth_best, -inf),
        live=live,
        parents=index // vocabulary_size,
        tokens=index % vocabulary_size,
    )


def _update(beam: Beam, extended: Extended, penalty: float) -> Beam:
    scores = torch.cat((beam.best, extended.closed / penalty), dim=1)
    return beam._replace(
        live=extended.live,
        best=scores.topk(beam.best.shape[1]).values,
        finished=beam.finished + (extended.closed > -inf).sum(dim=1),
    )


def _goes_on(beam: Beam, beam_size: int, length: int) -> Tensor:
    """(B,) bool: the sentences whose search goes on after `length` tokens."""
    can_win = beam.live[:, 0] / beam.limit_penalty > beam.best[:, -1]
    return can_win & (beam.finished < beam_size) & (length < beam.limit)


def _ends(
    history: Sequence[Choice], extensions: Sequence[Extended], limits: Sequence[int], options: SearchOptions
) -> list[list[End]]:
    """The n best finished hypotheses of each sentence, or the live ones at its end where none has finished."""
    finished: list[list[End]] = [[] for _ in limits]
    cut: list[list[End]] = [[] for _ in limits]
    closed, live = (to_lists([step[part] for step in extensions]) for part in (0, 1))
    for step, choice in enumerate(history):
        length = step + 1
        penalty = options.penalty(length)
        for row, sentence in enumerate(choice.sentences):
            for slot, total in enumerate(closed[step][row]):
                if total > -inf:
                    finished[sentence].append(End(total / penalty, total, length, slot, True))
            if length <= limits[sentence]:
                ...
    return ...
