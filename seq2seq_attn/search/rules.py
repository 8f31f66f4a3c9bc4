"""Rules: what the translations of a batch begin with, must contain, must not contain, and must not repeat.

A rule changes no probability. It sets the score of a continuation that it excludes to -inf before the search chooses
among them, so a log-probability is that of the model. Where rules disagree, a prefix comes first, then what must not
appear, then what must appear, and last what must not be repeated.

A search without rules has `NoRules`, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.encoded import Ids
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.models.seq2seq import Rows
from seq2seq_attn.ops.continuations import (
    Continuations,
    best_continuations,
    best_of,
    excluded_tokens,
    next_log_probabilities,
)
from seq2seq_attn.search.hypotheses import Extended
from seq2seq_attn.search.phrases import follow, phrase_table, shifted
from seq2seq_attn.search.required import Required


class LineRules(NamedTuple):
    """The rules for the translation of one source, in token ids."""

    prefix: Ids = ()
    phrases: Sequence[Ids] = ()  # that must appear, each as often as it is given
    otherwise: Sequence[Ids] = ()  # another spelling of each phrase, which may appear in its place; or nothing

    @property
    def length(self) -> int:
        """The shortest translation that keeps them, `</s>` included."""
        return len(self.prefix) + sum(map(len, self.phrases)) + 1

    def mapped(self, ids: Mapping[int, int]) -> LineRules:
        """The same with other ids for its tokens."""
        phrases, otherwise = ([[ids[each] for each in p] for p in given] for given in (self.phrases, self.otherwise))
        return LineRules([ids[token] for token in self.prefix], phrases, otherwise)

    @property
    def spellings(self) -> list[tuple[Ids, ...]]:
        """The phrases, each in its spellings."""
        return list(zip(self.phrases, self.otherwise, strict=True)) if self.otherwise else [(p,) for p in self.phrases]


class SearchRules(NamedTuple):
    """The rules for all translations of a search, in token ids."""

    forbidden: tuple[tuple[int, ...], ...] = ()  # phrases that must not appear
    no_repeat_ngram: int | None = None  # no n tokens may occur twice
    begins_word: Tensor | None = None  # (V,) bool: the tokens that do not continue a word; None: all


class CorpusRules(NamedTuple):
    """The rules for the translations of a corpus."""

    lines: Sequence[LineRules]  # one for each source
    search: SearchRules = SearchRules()

    def of(self, rows: Sequence[int], device: torch.device, listed: Tensor | None = None) -> Rules:
        """The rules for a batch of these sources, whose tokens are those of a shortlist (M,) if it is given."""
        lines, search = self.select(rows).lines, self.search
        if listed is not None:
            ids = {token: index for index, token in enumerate(listed.tolist())}
            lines = [line.mapped(ids) for line in lines]
            # A phrase with a token that is not listed cannot appear.
            possible = [phrase for phrase in search.forbidden if ids.keys() >= set(phrase)]
            search = search._replace(forbidden=tuple(tuple(ids[token] for token in phrase) for phrase in possible))
            if search.begins_word is not None:
                search = search._replace(begins_word=search.begins_word[listed.cpu()])
        return Rules(lines, search, device)

    def select(self, rows: Sequence[int]) -> CorpusRules:
        """The rules for these sources only, in this order."""
        return self._replace(lines=[self.lines[row] for row in rows])

    def tokens(self, rows: Sequence[int]) -> Tensor:
        """The tokens (M,) that a shortlist for these sources must contain."""
        lines = self.select(rows).lines
        phrases = [phrase for line in lines for phrase in (line.prefix, *line.phrases, *line.otherwise)]
        return torch.tensor([token for phrase in phrases for token in phrase], dtype=torch.int64)


class NoTracks(NamedTuple):
    """Without rules, nothing needs to be known."""

    def select(self, rows: Tensor) -> NoTracks:
        return self


class NoRules:
    """Every continuation is allowed. What a search asks of its rules, for a batch of B sources:"""

    def limits(self, limits: list[int]) -> list[int]:
        """The maximum lengths, raised where the rules need more."""
        return limits

    def start(self, device: torch.device) -> Rows:
        """What the rules know of the B empty hypotheses, one for each source."""
        return NoTracks()

    def advance(self, tracks: Any, tokens: Tensor) -> Any:
        """What they know of N hypotheses, each continued by one of the tokens (N,)."""
        return tracks

    def best_continuations(self, live: Tensor, logits: Tensor, count: int, may_end: bool, tracks: Any) -> Continuations:
        """As `ops.continuations.best_continuations`, among the continuations that are allowed."""
        return best_continuations(live, logits, count, may_end)

    def extend(
        self, live: Tensor, logits: Tensor, beam_size: int, may_end: bool, tracks: Any, steps_left: Tensor
    ) -> Extended:
        """One step of a beam of K = `beam_size`, from k live hypotheses of each sentence.

        Args:
            live: Their log-probabilities (B, k).
            logits: Of their next tokens (B * k, V).
            beam_size: K.
            may_end: Whether `</s>` is allowed.
            tracks: What the rules know of the hypotheses.
            steps_left: How many tokens may follow this one (B,).
        """
        return _extended(live, self.best_continuations(live, logits, 2 * beam_size, may_end, tracks), beam_size)

    def log_probabilities(self, logits: Tensor, may_end: bool, tracks: Any) -> Tensor:
        """log p (N, V) of the next token of each hypothesis, -inf where it is excluded."""
        return next_log_probabilities(logits, may_end)

    def choose(self, live: Tensor, scores: Tensor, beam_size: int, tracks: Any, steps_left: Tensor) -> Extended:
        """As `extend`, given scores (B * k, V) of the next tokens in place of log p, -inf where one is excluded."""
        return _extended(live, best_of(live, scores, 2 * beam_size), beam_size)

    def allowed(self, logits: Tensor, may_end: bool, tracks: Any) -> Tensor:
        """Logits (N, V) from which a next token may be drawn: -inf where it is excluded."""
        logits = logits.clone()
        logits[:, excluded_tokens(may_end)] = -inf
        return logits


NO_RULES = NoRules()


def _extended(live: Tensor, candidates: Continuations, beam_size: int) -> Extended:
    """The continuations among the best 2K: at most K are `</s>`, one per hypothesis, so at least K continue."""
    kth_best = candidates.scores[:, :beam_size][:, -1:]
    closed = live + candidates.ends
    closed = closed.masked_fill(closed < kth_best, -inf)
    continuing = candidates.scores.masked_fill(candidates.tokens == EOS, -inf)
    live, order = continuing.topk(min(beam_size, continuing.shape[1]))
    return Extended(closed, live, candidates.parents.gather(1, order), candidates.tokens.gather(1, order))


class Tracks(NamedTuple):
    """What the rules need to know of N hypotheses."""

    sentence: Tensor  # (N,) int64: the row of its source in the tables of the rules
    tokens: Tensor  # (N, t) int64: the hypothesis so far
    forbidden: Tensor  # (N, P, L) bool: see `follow`
    met: Any  # Rows, of the phrases that must appear

    def select(self, rows: Tensor) -> Tracks:
        """The record with only these hypotheses (M,), in this order."""
        sentence, tokens, forbidden = (part.index_select(0, rows) for part in self[:-1])
        return Tracks(sentence, tokens, forbidden, self.met.select(rows))


class Rules(NoRules):
    """The rules for a batch of B sources, as tensors.

    >>> rules = Rules([LineRules(prefix=[4, 5])], SearchRules(no_repeat_ngram=2))
    >>> rules.limits([1])  # room for the prefix and `</s>`
    [3]
    """

    def __init__(self, lines: Sequence[LineRules], search: SearchRules, device: torch.device | str = "cpu") -> None:
        self.lines, self.search = lines, search
        self.prefixes = phrase_table([line.prefix for line in lines], device)  # (B, T)
        self.prefix_lengths = torch.tensor([len(line.prefix) for line in lines], device=device)
        self.forbidden = phrase_table(search.forbidden, device)  # (P, L)
        self.forbidden_ends = torch.tensor([len(each) - 1 for each in search.forbidden], device=device)
        self.required: Required | None = None
        if any(line.phrases for line in lines):
            self.required = Required([line.spellings for line in lines], search.begins_word, device)

    def limits(self, limits: list[int]) -> list[int]:
        return [max(limit, line.length) for limit, line in zip(limits, self.lines, strict=True)]

    def start(self, device: torch.device) -> Tracks:
        count = len(self.lines)
        return Tracks(
            torch.arange(count, device=device),
            torch.empty(count, 0, dtype=torch.int64, device=device),
            torch.zeros(count, *self.forbidden.shape, dtype=torch.bool, device=device),
            NoTracks() if self.required is None else self.required.start(),
        )

    def advance(self, tracks: Tracks, tokens: Tensor) -> Tracks:
        return Tracks(
            tracks.sentence,
            torch.cat((tracks.tokens, tokens[:, None]), dim=1),
            follow(self.forbidden, tracks.forbidden, tokens),
            tracks.met if self.required is None else self.required.advance(tracks.met, tokens),
        )

    def best_continuations(
        self, live: Tensor, logits: Tensor, count: int, may_end: bool, tracks: Tracks
    ) -> Continuations:
        return best_of(live, self.log_probabilities(logits, may_end, tracks), count)

    def extend(
        self, live: Tensor, logits: Tensor, beam_size: int, may_end: bool, tracks: Tracks, steps_left: Tensor
    ) -> Extended:
        return self.choose(live, self.log_probabilities(logits, may_end, tracks), beam_size, tracks, steps_left)

    def choose(self, live: Tensor, scores: Tensor, beam_size: int, tracks: Tracks, steps_left: Tensor) -> Extended:
        if self.required is None:
            return super().choose(live, scores, beam_size, tracks, steps_left)
        return self.required.extend(live, scores, tracks.met, beam_size, steps_left)

    def allowed(self, logits: Tensor, may_end: bool, tracks: Tracks) -> Tensor:
        return self.log_probabilities(logits, may_end, tracks)

    def log_probabilities(self, logits: Tensor, may_end: bool, tracks: Tracks) -> Tensor:
        """log p (N, V) of the next token of each hypothesis, -inf where a rule excludes it.

        A hypothesis that may continue with nothing else ends.
        """
        scores = next_log_probabilities(logits, may_end=True)
        end = scores[:, EOS].clone()
        given = self._given(scores, tracks)
        if not may_end:
            scores[:, EOS] = -inf
        self._exclude_repeated(scores, tracks)
        self._exclude_forbidden(scores, tracks)
        nothing_left = scores.amax(dim=1) == -inf
        scores[:, EOS] = torch.where(nothing_left, end, scores[:, EOS])
        if self.required is not None:
            self.required.exclude(scores, tracks.met)
        return scores if given is None else torch.where(given[0], given[1], scores)

    def _given(self, scores: Tensor, tracks: Tracks) -> tuple[Tensor, Tensor] | None:
        """Which hypotheses (N, 1) are within their prefix, and the scores (N, V) of its next token alone."""
        length = tracks.tokens.shape[1]
        if length >= self.prefixes.shape[1]:
            return None
        inside = (length < self.prefix_lengths[tracks.sentence])[:, None]
        token = self.prefixes[tracks.sentence, length, None].clamp(min=0)
        return inside, torch.full_like(scores, -inf).scatter(1, token, scores.gather(1, token))

    def _exclude_repeated(self, scores: Tensor, tracks: Tracks) -> None:
        """Excludes a token y_i with (y_{i-n+1} .. y_i) = (y_{j-n+1} .. y_j) for an earlier j."""
        n, length = self.search.no_repeat_ngram, tracks.tokens.shape[1]
        if n is None or length < n:
            return
        tokens = None if self.required is None else self.required.next_tokens(tracks.met)
        exempt = None if tokens is None else scores.gather(1, tokens)
        ngrams = tracks.tokens.unfold(1, n, 1)  # (N, t - n + 1, n)
        last = tracks.tokens[:, None, length - n + 1 :]
        _exclude(scores, ngrams[:, :, -1], (ngrams[:, :, :-1] == last).all(dim=2))
        if tokens is not None and exempt is not None:
            scores.scatter_(1, tokens, exempt)

    def _exclude_forbidden(self, scores: Tensor, tracks: Tracks) -> None:
        """Excludes the last token of every phrase whose other tokens end the hypothesis."""
        if self.search.forbidden:
            phrases = torch.arange(len(self.forbidden), device=scores.device)
            is_last = shifted(tracks.forbidden)[:, phrases, self.forbidden_ends]
            _exclude(scores, self.forbidden[phrases, self.forbidden_ends].expand_as(is_last), is_last)


def _exclude(scores: Tensor, tokens: Tensor, where: Tensor) -> None:
    """Sets the scores (N, V) of the tokens (N, M) to -inf where it is True (N, M)."""
    scores.scatter_add_(1, tokens, torch.zeros_like(tokens, dtype=scores.dtype).masked_fill(where, -inf))
