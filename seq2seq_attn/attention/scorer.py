"""The base class of all scorers: F(query, key), how relevant a key is to a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from seq2seq_attn.attention.checks import need_positive, unfit
from seq2seq_attn.attention.registry import Registry, kept_arguments
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores, Weights
from seq2seq_attn.attention.source import NOTHING, History


class Scorer(nn.Module, ABC):
    """One scoring equation. It neither masks nor normalizes, and keeps no state between calls.

    A concrete subclass can be named in a configuration once it is imported, unless it is defined with
    `class MyScorer(Scorer, registered=False)`. The parameters of its constructor beyond the two sizes are its options;
    they need defaults, so that the name alone is a complete configuration.

    Args:
        query_size: The width of a query.
        key_size: The width of a key.

    Raises:
        ValueError: A size is not above 0, or they differ in a scorer that needs query and key in the same space.
    """

    equation: ClassVar[str] = ""  # for the listing: q is the query, k the key
    source: ClassVar[str] = ""  # paper and equation number
    needs_equal_sizes: ClassVar[bool] = False  # True if query and key must be in the same space
    needs_history: ClassVar[bool] = False  # True in a HistoryScorer

    def __init_subclass__(cls, *, registered: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if registered:
            _scorers.add(cls)

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        need_positive(self, query_size=query_size, key_size=key_size)
        if self.needs_equal_sizes and query_size != key_size:
            raise unfit(self, "query_size == key_size", f"{query_size} and {key_size}", "use General")
        self.query_size = query_size
        self.key_size = key_size

    def extra_repr(self) -> str:
        return kept_arguments(self)

    @abstractmethod
    def prepare(self, keys: Keys) -> Prepared:
        """Computes everything that does not depend on the query, once per sentence.

        Args:
            keys: k (B, S, key_size).

        Returns:
            What `forward` needs of them (B, S, ...).
        """

    @abstractmethod
    def forward(self, query: Query, prepared: Prepared) -> Scores:
        """Scores T queries at once; a score does not depend on the other queries.

        Args:
            query: q (B, T, query_size).
            prepared: What `prepare` returned.

        Returns:
            F(q, k) (B, T, S): any real number; -inf for a position that is never read.
        """

    @property
    def can_extend(self) -> bool:
        """Whether a prepared source may be extended: False if `prepare` uses other keys or the position of a key.

        False also if the history has an entry for each position.
        """
        return True

    def start(self, prepared: Prepared) -> History:
        """Returns the history before the first step, for one hypothesis per sentence: tensors (B, 1, ...)."""
        return NOTHING

    def after(self, history: History, query: Query, prepared: Prepared) -> Scores:
        """Returns the scores (B, K, S) of a query of each of K hypotheses, each after its own history."""
        return self(query, prepared)

    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History:
        """Returns the history after a step, without changing the one before.

        Args:
            history: That before the step: tensors (B, K, ...).
            query: The queries of the step (B, K, query_size).
            prepared: What `prepare` returned.
            weights: Those under which the step read the source (B, K, S).
        """
        return history

    def ahead(self, history: History, steps: int) -> History | None:
        """Returns the histories (B, steps, ...) of the next steps, if only the number of a step matters.

        Args:
            history: That before the first of them: tensors (B, 1, ...).
            steps: How many steps.

        Returns:
            The histories; None if they depend on weights, so that the steps must be taken one after another.
        """
        return history


_scorers: Registry[Scorer] = Registry("scorer", Scorer)


class HistoryScorer(Scorer, ABC):
    """A scorer that depends on earlier steps: on their weights, or on their number.

    The history is explicit (`source.py`): `start` creates it, `forward` reads it, `advance` returns the next one. Its
    tensors (B, K, ...) are never modified: the K queries of a sentence are K hypotheses, each with its own history;
    None in its place means before the first step.
    """

    needs_history = True

    @property
    def can_extend(self) -> bool:
        return False

    @abstractmethod
    def start(self, prepared: Prepared) -> History: ...

    @abstractmethod
    def forward(self, query: Query, prepared: Prepared, history: History | None = None) -> Scores: ...

    def after(self, history: History, query: Query, prepared: Prepared) -> Scores:
        return self(query, prepared, history)

    @abstractmethod
    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History: ...

    def ahead(self, history: History, steps: int) -> History | None:
        return None


@runtime_checkable
class ScorerFactory(Protocol):
    """Creates the scorer inside another part: a class, or `partial(Additive, hidden_size=64)`."""

    def __call__(self, query_size: int, key_size: int) -> Scorer:
        """Returns a scorer of these sizes."""


def new_scorer(owner: nn.Module, factory: ScorerFactory, query_size: int, key_size: int) -> Scorer:
    """The scorer that a part creates with its own sizes; TypeError for one that already has sizes, and for a name."""
    if isinstance(factory, Scorer) or not callable(factory):
        got = f"an instance of {type(factory).__name__}" if isinstance(factory, Scorer) else f"{factory!r}"
        raise TypeError(
            f"{type(owner).__name__} creates its scorer, for queries of size {query_size} and keys of size {key_size}; "
            f"give the class, as in scorer=Additive or scorer=partial(Additive, hidden_size=64), got {got}"
        )
    return factory(query_size=query_size, key_size=key_size)


def hidden_size_of(scorer: Scorer, hidden_size: int | None) -> int:
    """The width of a hidden layer; None takes that of the query, as the alignment network of Bahdanau et al. has."""
    size = scorer.query_size if hidden_size is None else hidden_size
    need_positive(scorer, hidden_size=size)
    return size


def output_vector(size: int) -> Tensor:
    """v (size,), uniform in ±1/√size, as `nn.Linear` initializes a row of its weight."""
    return torch.empty(size).uniform_(-1, 1) * size**-0.5


def scorer_class(name: str) -> type[Scorer]:
    """Finds the scorer that a configuration names.

    Args:
        name: A registered name such as "scaled_dot", my_file.py:MyScorer, or package.module:MyScorer.

    Raises:
        ValueError: There is no such scorer, in one line that names the nearest one.
    """
    return _scorers.find(name)


def scorer_classes() -> dict[str, type[Scorer]]:
    """Returns all scorers by configuration name."""
    return _scorers.classes()
