"""Diverse beam search (Vijayakumar et al. 2018): groups of hypotheses that avoid one another's tokens.

Every group is a beam search of its own. At step t, group g ranks its continuations by log p(y_1 .. y_t | X) -
lambda n(y_t), where n counts the hypotheses of groups 1 .. g - 1 that have continued, or ended, with y_t at this step:
the Hamming diversity of the paper's equation 6. So the first group searches as if it were alone. The penalty only
chooses; log-probabilities and scores are those of any search.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.source import Source
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.beam import beam_search
from seq2seq_attn.search.hypotheses import Extended, Hypothesis
from seq2seq_attn.search.rules import NO_RULES, NoRules


def diverse_beam_search(
    translator: Seq2Seq,
    source: Source,
    options: SearchOptions,
    with_weights: bool = False,
    rules: NoRules = NO_RULES,
) -> list[list[Hypothesis]]:
    """The best hypothesis of each group, the best of them first, then the second best of each, up to n different ones.

    To the beam search, each of the G groups of a sentence is a sentence with K / G hypotheses.
    """
    groups, count = options.beam_groups, len(source.lengths)
    width = options.beam_size // groups
    own = options.model_copy(update={"beam_size": width, "n_best": min(width, options.n_best), "beam_groups": 1})
    rows = torch.arange(count).repeat_interleave(groups)
    coupled = _Groups(rules, count, groups, options.strength)
    found = beam_search(translator, source.select(rows), own, with_weights, coupled)
    return [_merged(found[first : first + groups], options.n_best) for first in range(0, len(found), groups)]


def _merged(groups: Sequence[Sequence[Hypothesis]], count: int) -> list[Hypothesis]:
    ranks = (filter(None, rank) for rank in zip_longest(*groups))
    in_order = chain.from_iterable(sorted(rank, key=lambda each: -each.score) for rank in ranks)
    different: dict[tuple[int, ...], Hypothesis] = {}
    for each in in_order:
        different.setdefault(tuple(each.tokens), each)
    return list(different.values())[:count]


class _Tracks(NamedTuple):
    """What is known of N hypotheses."""

    source: Tensor  # (N,) int64: the number of their source
    group: Tensor  # (N,) int64
    of_rules: Any  # Rows

    def select(self, rows: Tensor) -> _Tracks:
        return _Tracks(self.source.index_select(0, rows), self.group.index_select(0, rows), self.of_rules.select(rows))


class _Groups(NoRules):
    """Couples the beams of the G groups of each of B sources, whose hypotheses keep other rules as well."""

    def __init__(self, rules: NoRules, sources: int, groups: int, strength: float) -> None:
        self.rules, self.sources, self.groups, self.strength = rules, sources, groups, strength

    def limits(self, limits: list[int]) -> list[int]:
        return [limit for limit in self.rules.limits(limits[:: self.groups]) for _ in range(self.groups)]

    def start(self, device: torch.device) -> _Tracks:
        source = torch.arange(self.sources, device=device).repeat_interleave(self.groups)
        group = torch.arange(self.groups, device=device).repeat(self.sources)
        return _Tracks(source, group, self.rules.start(device).select(source))

    def advance(self, tracks: _Tracks, tokens: Tensor) -> _Tracks:
        return tracks._replace(of_rules=self.rules.advance(tracks.of_rules, tokens))

    def extend(
        self, live: Tensor, logits: Tensor, beam_size: int, may_end: bool, tracks: _Tracks, steps_left: Tensor
    ) -> Extended:
        scores = self.rules.log_probabilities(logits, may_end, tracks.of_rules)
        hypotheses = torch.arange(live.numel(), device=live.device).view_as(live)
        source, group = tracks.source[hypotheses[:, 0]], tracks.group[hypotheses[:, 0]]
        chosen = scores.new_zeros(self.sources, scores.shape[1])  # n, how often each token was
        found, places = [], []
        for number in range(self.groups):
            rows = (group == number).nonzero().flatten()
            if len(rows) == 0:  # the searches of this group have ended
                continue
            own = hypotheses[rows].flatten()
            penalty = self.strength * chosen[source[rows]].repeat_interleave(live.shape[1], dim=0)
            by_penalty = self.rules.choose(
                live[rows], scores[own] - penalty, beam_size, tracks.of_rules.select(own), steps_left[rows]
            )
            extended = _with_totals(by_penalty, live[rows], scores[own])
            chosen.index_put_((source[rows, None], extended.tokens), (extended.live > -inf).to(chosen), accumulate=True)
            chosen[source[rows], EOS] += (extended.closed > -inf).sum(dim=1)
            found.append(extended)
            places.append(rows)
        order = torch.cat(places).argsort()
        return Extended(*(torch.cat(parts)[order] for parts in zip(*(each[:4] for each in found), strict=True)))


def _with_totals(chosen: Extended, live: Tensor, scores: Tensor) -> Extended:
    """The continuations that were chosen, with their log-probabilities, given those before and of the next tokens."""
    scores = scores.view(*live.shape, -1)
    closed = (live + scores[:, :, EOS]).masked_fill(chosen.closed == -inf, -inf)
    row = torch.arange(len(live), device=live.device)[:, None]
    totals = live.gather(1, chosen.parents) + scores[row, chosen.parents, chosen.tokens]
    totals, order = totals.masked_fill(chosen.live == -inf, -inf).sort(dim=1, descending=True, stable=True)
    return Extended(closed, totals, chosen.parents.gather(1, order), chosen.tokens.gather(1, order))
