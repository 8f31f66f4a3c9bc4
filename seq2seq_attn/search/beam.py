"""Beam search, which keeps the K best unfinished hypotheses of each sentence at every step; and greedy search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.hypotheses import Choice, End, Extended, Hypothesis, active_rows, first_ends, to_lists, trace
from seq2seq_attn.search.rules import NO_RULES, NoRules


class _Beam(NamedTuple):
    """B sentences in the batch with k live (unfinished) hypotheses each: 1 before the first step, then K."""

    live: Tensor  # (B, k): their log-probabilities, best first
    best: Tensor  # (B, n): scores of the n best finished hypotheses, best first; -inf where there is none yet
    finished: Tensor  # (B,): number of finished hypotheses
    running: Tensor  # (B,) bool: whether the search goes on
    limit: Tensor  # (B,): maximum length
    limit_penalty: Tensor  # (B,): lp at the maximum length
    limit_reward: Tensor  # (B,): the length reward there

    def select(self, rows: Tensor) -> _Beam:
        return _Beam(*(part.index_select(0, rows) for part in self))


@torch.inference_mode()
def beam_search(
    translator: Seq2Seq,
    source: Source,
    options: SearchOptions,
    with_weights: bool = False,
    rules: NoRules = NO_RULES,
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each of the B sentences, best first; fewer where fewer have finished.

    Continuations are ranked by log p alone, finished hypotheses by `SearchOptions.score`. A hypothesis finishes when
    its `</s>` is among the K best continuations of its sentence; K others always remain live.

    The search of a sentence stops at the maximum length, or earlier
    - if no live hypothesis can reach the n best. This is exact: log p never increases, lp and the length reward never
      decrease with length, and coverage is at most 0, so a continuation scores at most what its current log p would
      score at the maximum length with full coverage;
    - if K hypotheses have finished and no live one would score above the best of them, at its own length with full
      coverage.
    Neither rule makes the best hypotheses depend on n. If none has finished, the live hypotheses are returned,
    truncated.

    Ties within a step are broken deterministically; among finished hypotheses of equal score the first to finish comes
    first.
    """
    lengths = source.lengths.tolist()
    limits = rules.limits([options.limit(length) for length in lengths])
    memory = translator.encode(source)
    is_state, device = memory.is_state, memory.is_state.device
    state, tracks = translator.start(memory), rules.start(device)

    sentences = list(range(len(lengths)))
    tokens = torch.full((len(sentences),), translator.start_token, device=device)
    beam = _start(limits, options, device)
    attended = torch.zeros_like(is_state, dtype=torch.float32) if options.coverage_penalty else None  # (N, S)
    history: list[Choice] = []
    extensions: list[Extended] = []
    for length in range(1, max(limits) + 1):
        output = translator.step(tokens, state, memory)
        may_end, left = length >= options.min_length, beam.limit - length
        live = beam.live.masked_fill(~beam.running[:, None], -inf)
        extended = rules.extend(live, output.logits, options.beam_size, may_end, tracks, left)
        if attended is not None:
            attended = attended + output.weights
            extended = extended._replace(coverage=_coverage(attended, memory.is_state))
        extensions.append(extended)
        weights = output.weights if with_weights else None
        history.append(Choice(sentences, extended.parents, extended.tokens, weights))

        first_rows = torch.arange(0, tokens.shape[0], beam.live.shape[1], device=device)  # of each sentence
        hypotheses, tokens = first_rows[:, None] + extended.parents, extended.tokens
        beam = _update(beam, extended, options, length)
        rows = active_rows(beam.running, length)
        if rows.shape[0] == 0:
            break
        if rows.shape[0] < len(sentences):
            sentences = [sentences[row] for row in rows.tolist()]
            memory, beam = memory.select(rows), beam.select(rows)
            hypotheses, tokens = hypotheses[rows], tokens[rows]
        hypotheses, tokens = hypotheses.flatten(), tokens.flatten()
        attended = None if attended is None else attended[hypotheses]
        state, tracks = output.state.select(hypotheses), rules.advance(tracks.select(hypotheses), tokens)
    return trace(history, _ends(history, extensions, limits, options), is_state)


def _coverage(attended: Tensor, is_state: Tensor) -> Tensor:
    """sum_j log min(sum_i a_ij, 1) (B, k), over the states j, given the sums over i (B * k, S).

    The smallest normal number stands for 0, so hypotheses that leave out as many states can be compared.
    """
    least = torch.finfo(torch.float32).tiny
    logs = attended.view(len(is_state), -1, is_state.shape[1]).clamp(min=least, max=1.0).log()
    return logs.masked_fill(~is_state[:, None], 0.0).sum(dim=2)


def _start(limits: Sequence[int], options: SearchOptions, device: torch.device) -> _Beam:
    count = len(limits)
    return _Beam(
        live=torch.zeros(count, 1, dtype=torch.float32, device=device),
        best=torch.full((count, options.n_best), -inf, dtype=torch.float32, device=device),
        finished=torch.zeros(count, dtype=torch.long, device=device),
        running=torch.ones(count, dtype=torch.bool, device=device),
        limit=torch.tensor(limits, device=device),
        limit_penalty=torch.tensor([options.penalty(limit) for limit in limits], dtype=torch.float32, device=device),
        limit_reward=torch.tensor([options.length_reward * limit for limit in limits], device=device),
    )


def _update(beam: _Beam, extended: Extended, options: SearchOptions, length: int) -> _Beam:
    """The beam after `length` tokens."""
    coverage = 0.0 if extended.coverage is None else extended.coverage
    scores = torch.cat((beam.best, options.score(extended.closed, length, coverage)), dim=1)
    best = scores.topk(options.n_best).values
    finished = beam.finished + (extended.closed > -inf).sum(dim=1)
    leader = extended.live[:, 0]
    can_win = torch.addcdiv(beam.limit_reward, leader, beam.limit_penalty) > best[:, -1]
    improvable = (finished < options.beam_size) | (options.score(leader, length) > best[:, 0])
    running = beam.running & can_win & improvable & (length < beam.limit)
    return beam._replace(live=extended.live, best=best, finished=finished, running=running)


def _ends(
    history: Sequence[Choice], extensions: Sequence[Extended], limits: Sequence[int], options: SearchOptions
) -> list[list[End]]:
    """The n best finished hypotheses of each sentence, or its last live ones if none has finished."""
    closed = to_lists([extended.closed for extended in extensions])
    covered = [each.coverage for each in extensions if each.coverage is not None]
    coverages = to_lists(covered) if covered else repeat(repeat(repeat(0.0)))
    finished: list[list[End]] = [[] for _ in limits]
    for length, (choice, rows, coverage) in enumerate(zip(history, closed, coverages, strict=False), start=1):
        for sentence, totals, own in zip(choice.sentences, rows, coverage, strict=False):
            finished[sentence] += _ends_after(length, totals, own, options, closed=True)

    def truncated(sentence: int) -> list[End]:
        for length in range(min(limits[sentence], len(history)), 0, -1):
            if sentence in history[length - 1].sentences:
                row, extended = history[length - 1].sentences.index(sentence), extensions[length - 1]
                totals = extended.live[row].tolist()
                own = (
                    repeat(0.0) if extended.coverage is None else extended.coverage[row][extended.parents[row]].tolist()
                )
                if ends := _ends_after(length, totals, own, options, closed=False):
                    return ends
        return []

    best = [ends or truncated(sentence) for sentence, ends in enumerate(finished)]
    return [sorted(ends, key=lambda end: -end.score)[: options.n_best] for ends in best]


def _ends_after(
    length: int, totals: Sequence[float], coverages: Iterable[float], options: SearchOptions, closed: bool
) -> list[End]:
    """An end at this length for each hypothesis of one sentence with a log-probability above -inf."""
    return [
        End(options.score(total, length, coverage), total, length, slot, closed)
        for slot, (total, coverage) in enumerate(zip(totals, coverages, strict=False))
        if total != -inf
    ]


@torch.inference_mode()
def greedy_search(
    translator: Seq2Seq,
    source: Source,
    options: SearchOptions,
    with_weights: bool = False,
    rules: NoRules = NO_RULES,
) -> list[list[Hypothesis]]:
    """One hypothesis for each of the B sentences.

    y_i = argmax_y p(y | y_1 .. y_{i-1}, X), the lowest id in a tie, until `</s>` or the maximum length.
    """
    lengths = source.lengths.tolist()
    limits = rules.limits([options.limit(length) for length in lengths])
    memory = translator.encode(source)
    is_state, device = memory.is_state, memory.is_state.device
    state, tracks = translator.start(memory), rules.start(device)

    sentences = list(range(len(lengths)))
    tokens = torch.full((len(sentences),), translator.start_token, device=device)
    total = torch.zeros(len(sentences), dtype=torch.float32, device=device)  # log-probability so far
    limit = torch.tensor(limits, device=device)
    running = torch.ones_like(limit, dtype=torch.bool)
    history: list[Choice] = []
    totals: list[Tensor] = []
    for length in range(1, max(limits) + 1):
        output = translator.step(tokens, state, memory)
        # The total is added afterward: in the sum, small differences between tokens would be lost to rounding.
        start, may_end = torch.zeros_like(total)[:, None], length >= options.min_length
        best = rules.best_continuations(start, output.logits, 1, may_end, tracks)
        total, tokens = total + best.scores.squeeze(1), best.tokens.squeeze(1)
        totals.append(total[:, None])
        parents = torch.zeros_like(tokens)[:, None]
        history.append(Choice(sentences, parents, tokens[:, None], output.weights if with_weights else None))

        running = running & (tokens != EOS) & (length < limit)
        state = output.state
        rows = active_rows(running, length)
        if rows.shape[0] == 0:
            break
        if rows.shape[0] < len(sentences):
            sentences = [sentences[row] for row in rows.tolist()]
            memory, state, tracks = memory.select(rows), state.select(rows), tracks.select(rows)
            tokens, total, limit, running = (part[rows] for part in (tokens, total, limit, running))
        tracks = rules.advance(tracks, tokens)
    return trace(history, first_ends(history, totals, limits, options), is_state)
