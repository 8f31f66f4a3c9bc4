"""Phrases that a translation must contain: dynamic beam allocation (Post & Vilar 2018).

A hypothesis that has met m of the C required tokens of its source is in bank m. The beam is divided among the banks, so
that hypotheses which have met much compete with one another and not with those that have met nothing. The candidates of
a step are the best continuations of all hypotheses, the best one of each, and every token that begins or continues a
phrase. A phrase that is not finished restarts. Only a hypothesis in bank C ends.

Beyond the paper, a hypothesis that has as many steps left as tokens to meet continues with nothing else, so phrases
that fit into the maximum length are in every translation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.encoded import Ids
from seq2seq_attn.corpora.vocabulary import EOS, PAD
from seq2seq_attn.ops.continuations import best_of
from seq2seq_attn.search.hypotheses import Extended
from seq2seq_attn.search.phrases import follow, phrase_table


class Met(NamedTuple):
    """How much of the P phrases of its source, in A spellings each, every one of N hypotheses contains."""

    sentence: Tensor  # (N,) int64: the row of its source in the tables
    matched: Tensor  # (N, P * A, L) bool: see `follow`
    times: Tensor  # (N, P) int64: how often each phrase has been completed, at most as often as it is required
    ended: Tensor  # (N, P) bool: those that the last token has completed

    def select(self, rows: Tensor) -> Met:
        """The record with only these hypotheses (M,), in this order."""
        return Met(*(part.index_select(0, rows) for part in self))


class Required:
    """The phrases that the translations of B sources must contain, as tensors.

    Args:
        phrases: Of each source, each as its spellings, one of which must appear; one that is given twice, twice.
        begins_word: (V,) bool: the tokens that do not continue a word; None: all. A phrase ends where its word does.
        device: Where the tensors are.
    """

    def __init__(
        self, phrases: Sequence[Sequence[Sequence[Ids]]], begins_word: Tensor | None, device: torch.device | str
    ) -> None:
        counts = [Counter(tuple(map(tuple, phrase)) for phrase in each) for each in phrases]
        most = max(map(len, counts))
        spellings = max(len(phrase) for count in counts for phrase in count)
        rows = [[*count, *[((),)] * (most - len(count))] for count in counts]
        # A phrase with fewer spellings has its first one several times.
        spelled = [[phrase[min(i, len(phrase) - 1)] for phrase in row for i in range(spellings)] for row in rows]
        table = phrase_table([spelling for row in spelled for spelling in row], device)
        self.phrases = table.view(len(rows), most * spellings, -1)
        self.lengths = torch.tensor([[max(1, len(each)) for each in row] for row in spelled], device=device)
        self.needed = torch.tensor(
            [[count.get(phrase, 0) for phrase in row] for row, count in zip(rows, counts, strict=True)], device=device
        )
        self.shortest = self._spellings(self.lengths).amin(dim=2)  # (B, P)
        self.total = (self.needed * self.shortest).sum(dim=1)  # C of each source
        self.begins_word = None if begins_word is None else begins_word.to(device)

    def start(self) -> Met:
        """Of one empty hypothesis for each source."""
        return Met(
            torch.arange(len(self.phrases), device=self.phrases.device),
            torch.zeros_like(self.phrases, dtype=torch.bool),
            torch.zeros_like(self.needed),
            torch.zeros_like(self.needed, dtype=torch.bool),
        )

    def advance(self, met: Met, tokens: Tensor) -> Met:
        """The hypotheses, each continued by one of the tokens (N,)."""
        lengths, needed = self.lengths[met.sentence], self.needed[met.sentence]
        # What the last token has completed is no word of its own if this one continues it.
        times = met.times
        if self.begins_word is not None:
            times = times - (met.ended & ~self.begins_word[tokens, None]).long()
        matched = follow(self.phrases[met.sentence], met.matched, tokens)
        spelled = matched.gather(2, lengths[:, :, None] - 1).squeeze(2)
        ended = self._spellings(spelled).any(dim=2) & (times < needed)
        return Met(met.sentence, matched & ~self._each_spelling(ended)[:, :, None], times + ended, ended)

    def _spellings(self, values: Tensor) -> Tensor:
        """Values (N, P * A) as (N, P, A)."""
        return values.view(len(values), self.needed.shape[1], -1)

    def _each_spelling(self, values: Tensor) -> Tensor:
        """Values (N, P) for each spelling (N, P * A)."""
        return values.repeat_interleave(self.phrases.shape[1] // self.needed.shape[1], dim=1)

    def _is_met(self, met: Met) -> Tensor:
        """(N, P): whether each phrase has been met as often as it must be."""
        return met.times >= self.needed[met.sentence]

    def positions(self, met: Met) -> Tensor:
        """(N, P * A): how many tokens of each spelling of a phrase that is still required the hypothesis ends in."""
        numbers = torch.arange(1, self.phrases.shape[2] + 1, device=self.phrases.device)
        return (met.matched * numbers).amax(dim=2) * self._each_spelling(~self._is_met(met))

    def missing(self, met: Met) -> Tensor:
        """(N,): how many tokens are still to be met; of the phrases that are begun, only one can be continued."""
        shortest = self.shortest[met.sentence]
        to_go = self._spellings(self.lengths[met.sentence] - self.positions(met)).amin(dim=2)
        left = ((self.needed[met.sentence] - met.times) * shortest).sum(dim=1)
        return left - (shortest - to_go).amax(dim=1)

    def next_tokens(self, met: Met) -> Tensor:
        """(N, P * A): the tokens that begin or continue a phrase; `<pad>` for phrases that are met."""
        tokens = self.phrases[met.sentence].gather(2, self.positions(met)[:, :, None]).squeeze(2)
        return tokens.masked_fill(self._each_spelling(self._is_met(met)), PAD)

    def exclude(self, scores: Tensor, met: Met) -> None:
        """Sets the scores (N, V) of `</s>` to -inf while tokens are missing."""
        scores[:, EOS].masked_fill_(self.missing(met) > 0, -inf)

    def extend(self, live: Tensor, scores: Tensor, met: Met, beam_size: int, steps_left: Tensor) -> Extended:
        """The K continuations of each sentence among which the beam is allocated.

        Args:
            live: The log-probabilities (B, k) of the hypotheses.
            scores: log p (B * k, V) of their next tokens.
            met: What the hypotheses contain.
            beam_size: K.
            steps_left: How many tokens may follow this one (B,).
        """
        sentences, hypotheses = live.shape
        is_complete = (self.missing(met) == 0).view_as(live)
        closed = (live + scores[:, EOS].view_as(live)).masked_fill(~is_complete, -inf)
        complete = best_of(live.masked_fill(~is_complete, -inf), scores, 2 * beam_size)
        closed = closed.masked_fill(closed < complete.scores[:, :beam_size][:, -1:], -inf)

        scores = scores.clone()
        scores[:, EOS] = -inf
        best = best_of(live, scores, 2 * beam_size)
        own = torch.cat((self.next_tokens(met), scores.argmax(dim=1, keepdim=True)), dim=1)  # of each hypothesis
        number = torch.arange(hypotheses, device=live.device).view(1, -1, 1)
        parents = torch.cat((best.parents, number.expand(sentences, -1, own.shape[1]).flatten(1)), dim=1)
        tokens = torch.cat((best.tokens, own.view(sentences, -1)), dim=1)
        rows = torch.arange(sentences, device=live.device)[:, None] * hypotheses + parents
        totals = live.gather(1, parents) + scores[rows, tokens]
        totals = totals.masked_fill(_is_repeated(parents * scores.shape[1] + tokens), -inf)

        missing = self.missing(self.advance(met.select(rows.flatten()), tokens.flatten())).view_as(tokens)
        too_late = (missing > 0) & (missing >= steps_left[:, None])  # `</s>` follows
        totals, order = totals.masked_fill(too_late, -inf).sort(dim=1, descending=True)
        required = self.total[met.sentence.view_as(live)[:, 0]]
        chosen = _allocated(totals, required[:, None] - missing.gather(1, order), required, beam_size)
        order = order.gather(1, chosen)
        return Extended(closed, totals.gather(1, chosen), parents.gather(1, order), tokens.gather(1, order))


def _is_repeated(keys: Tensor) -> Tensor:
    """Whether the same key stands in the row (B, M) before."""
    ordered, order = keys.sort(dim=1, stable=True)
    repeated = torch.zeros_like(keys, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(repeated).scatter(1, order, repeated)


def _allocated(totals: Tensor, banks: Tensor, required: Tensor, beam_size: int) -> Tensor:
    """Which K of the candidates, whose totals (B, M) are sorted, the beam keeps: indices (B, K), best first.

    Every bank from 0 to C = `required` (B,) has K / (C + 1) places, rounded down, and the last one the others as well.
    Places that a bank does not fill go to the one below, and those that no bank fills to the best of all others.
    """
    numbers = torch.arange(int(required.max()) + 1, device=totals.device)
    places = (beam_size // (required + 1))[:, None] * (numbers <= required[:, None])
    places = places.scatter_add(1, required[:, None], (beam_size - places.sum(dim=1))[:, None])
    is_in = (banks[:, :, None] == numbers) & (totals > -inf)[:, :, None]  # (B, M, banks)
    # From the last bank down: x_b = max(0, x_{b+1} + places_b - count_b) are left over, and S_n - min(0, S_1 .. S_n)
    # with the sums S of these differences is the same without a loop.
    surplus = (places - is_in.sum(dim=1)).flip(1).cumsum(dim=1)
    left_over = (surplus - surplus.cummin(dim=1).values.clamp(max=0)).flip(1)
    from_above = torch.nn.functional.pad(left_over[:, 1:], (0, 1))
    rank = (is_in.cumsum(dim=1) * is_in).sum(dim=2)  # within its bank, from 1
    has_place = (rank <= (places + from_above).gather(1, banks.clamp(min=0))) & (totals > -inf)
    first = (~has_place).int().sort(dim=1, stable=True).indices[:, :beam_size]
    return first.sort(dim=1).values
