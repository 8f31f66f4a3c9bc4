"""Who is examined, and the numbers that it is examined with."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2seq_attn.attention import Scorer, ScorerFactory, own_options
from seq2seq_attn.errors import UserError

# Pairwise different, and different from the sentences, queries and positions of a sample, so that swapped axes show;
# multiples of 8, as heads divide them.
QUERY_SIZE, KEY_SIZE = 16, 24
SATURATION_SIZES = (64, 256, 1024)

_STIR = 0.02  # standard deviation of what is added to every parameter


@dataclass(frozen=True)
class Subject:
    """A scorer that can be made as often as a law needs a fresh one."""

    kind: type[Scorer]
    make: ScorerFactory
    query_size: int
    key_size: int
    sizes: tuple[tuple[int, int], ...]  # of query and key: where saturation is looked at
    backend: str  # of torch.compile

    @property
    def name(self) -> str:
        return f"{self.kind.__name__}(query_size={self.query_size}, key_size={self.key_size})"

    def scorer(self) -> Scorer:
        """A fresh one in eval mode, its parameters moved a little: many start at 0, where every law holds."""
        scorer = self.make(self.query_size, self.key_size).eval()
        with torch.no_grad():
            for parameter in scorer.parameters():
                parameter.add_(_STIR * torch.randn_like(parameter))
        return scorer

    def sample(self, sentences: int = 2, queries: int = 3, positions: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
        """A query (B, T, query_size) and keys (B, S, key_size), normal with variance 1."""
        draw = torch.Generator().manual_seed(seed)
        return (
            torch.randn(sentences, queries, self.query_size, generator=draw),
            torch.randn(sentences, positions, self.key_size, generator=draw),
        )


def subject_of(
    scorer: Scorer | type[Scorer],
    query_size: int | None = None,
    key_size: int | None = None,
    options: Mapping[str, Any] | None = None,
    full: bool = False,
) -> Subject:
    """The scorer to be examined, given as for `check_scorer`. UserError: it is no scorer, or cannot be made."""
    backend = "inductor" if full else "aot_eager"
    if isinstance(scorer, Scorer):
        if query_size or key_size or options:
            raise UserError(f"the {type(scorer).__name__} has its sizes and options; give its class to choose others")
        own = (scorer.query_size, scorer.key_size)
        return Subject(type(scorer), lambda *_: _copy(scorer), *own, sizes=(own,), backend=backend)
    if not (isinstance(scorer, type) and issubclass(scorer, Scorer)):
        raise UserError(f"{getattr(scorer, '__name__', scorer)} is no scorer; give it Scorer as its base class")
    _refuse(scorer, options or {})
    query_size = query_size or QUERY_SIZE
    key_size = key_size or (query_size if scorer.needs_equal_sizes else KEY_SIZE)
    subject = Subject(
        kind=scorer,
        make=lambda query_size, key_size: scorer(query_size, key_size, **options or {}),
        query_size=query_size,
        key_size=key_size,
        sizes=tuple((size, size) for size in SATURATION_SIZES),
        backend=backend,
    )
    try:
        with torch.random.fork_rng(devices=[]):
            subject.make(query_size, key_size)
    except (TypeError, ValueError) as error:
        raise UserError(f"{subject.name} cannot be made: {error}") from error
    return subject


def _copy(scorer: Scorer) -> Scorer:
    return copy.deepcopy(scorer).to("cpu", torch.float32)


def _refuse(scorer: type[Scorer], options: Mapping[str, Any]) -> None:
    """UserError for a class that lacks a method, and for an option that it does not have."""
    if inspect.isabstract(scorer):
        missing = ", ".join(sorted(scorer.__abstractmethods__))
        raise UserError(f"{scorer.__name__} is no whole scorer; it still needs {missing}")
    own = list(own_options(scorer))
    for name in options:
        if name not in own:
            raise UserError(f"{scorer.__name__} has no option {name!r}; it has: {', '.join(own) or 'none'}")
