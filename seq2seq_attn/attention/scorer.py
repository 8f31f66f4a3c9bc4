"""The base class of all scorers: F(query, key), how relevant a key is to a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import nn

from seq2seq_attn.attention.history import NOTHING, History
from seq2seq_attn.attention.registry import Registry, need_positive
from seq2seq_attn.attention.shapes import Keys, Prepared, Query, Scores, Weights


class Scorer(nn.Module, ABC):
    """One scoring equation. It neither masks nor normalizes, and keeps no state between calls.

    A concrete subclass can be named in a configuration once it is imported, unless it is defined with
    `class MyScorer(Scorer, registered=False)`. The parameters of its constructor beyond the two sizes are its options;
    they need defaults, so that the name alone is a complete configuration.
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
            raise ValueError(
                f"{type(self).__name__} needs query_size == key_size, got {query_size} and {key_size}; use General"
            )
        self.query_size = query_size
        self.key_size = key_size

    @abstractmethod
    def prepare(self, keys: Keys) -> Prepared:
        """Everything that does not depend on the query, once per sentence: (B, S, key_size) -> (B, S, ...)."""

    @abstractmethod
    def forward(self, query: Query, prepared: Prepared) -> Scores:
        """Scores (B, T, S) of T queries at once; a score does not depend on the other queries."""

    @property
    def can_extend(self) -> bool:
        """Whether a prepared source may be extended: False if `prepare` uses other keys or the position of a key.

        False also if the history has an entry for each position.
        """
        return True

    def start(self, prepared: Prepared) -> History:
        """The history before the first step, for one hypothesis per sentence: tensors (B, 1, ...)."""
        return NOTHING

    def after(self, history: History, query: Query, prepared: Prepared) -> Scores:
        """Scores (B, K, S) of the queries of K hypotheses, each after its own history."""
        scores: Scores = self(query, prepared)
        return scores

    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History:
        """The history after a step in which `query` (B, K, query_size) read the source under `weights` (B, K, S)."""
        return history

    def ahead(self, history: History, steps: int) -> History | None:
        """The histories (B, steps, ...) of the next steps, from one history (B, 1, ...), if only step numbers matter.

        None if they depend on the weights of these steps, which must then be taken one after another.
        """
        return history


_scorers: Registry[Scorer] = Registry("scorer", Scorer)


class HistoryScorer(Scorer, ABC):
    """A scorer that depends on earlier steps: on their weights, or on their number.

    The history is explicit (`history.py`): `start` creates it, `forward` reads it, `advance` returns the next one. Its
    tensors (B, K, ...) are never modified: the K queries of a sentence are K hypotheses, each with its own history.
    """

    needs_history = True

    @property
    def can_extend(self) -> bool:
        return False

    @abstractmethod
    def start(self, prepared: Prepared) -> History: ...

    @abstractmethod
    def forward(self, query: Query, prepared: Prepared, history: History | None = None) -> Scores:
        """Scores (B, K, S) of the queries of K hypotheses, each with its history; None means before the first step."""

    def after(self, history: History, query: Query, prepared: Prepared) -> Scores:
        scores: Scores = self(query, prepared, history)
        return scores

    @abstractmethod
    def advance(self, history: History, query: Query, prepared: Prepared, weights: Weights) -> History: ...

    def ahead(self, history: History, steps: int) -> History | None:
        return None


@runtime_checkable
class ScorerFactory(Protocol):
    """Creates the scorer inside another part: a class, or `partial(Additive, hidden_size=64)`."""

    def __call__(self, query_size: int, key_size: int) -> Scorer: ...


def new_scorer(owner: nn.Module, factory: ScorerFactory, query_size: int, key_size: int) -> Scorer:
    """The scorer that a part creates with its own sizes; TypeError for one that already has sizes, and for a name."""
    if isinstance(factory, Scorer) or not callable(factory):
        got = f"an instance of {type(factory).__name__}" if isinstance(factory, Scorer) else f"{factory!r}"
        raise TypeError(
            f"{type(owner).__name__} creates its scorer, for queries of size {query_size} and keys of size {key_size}; "
            f"give the class, as in scorer=Additive or scorer=partial(Additive, hidden_size=64), got {got}"
        )
    return factory(query_size=query_size, key_size=key_size)


def scorer_class(name: str) -> type[Scorer]:
    """The scorer named in a configuration, by its name or its file; errors as for `Registry.find`."""
    return _scorers.find(name)


def scorer_classes() -> dict[str, type[Scorer]]:
    """All scorers by configuration name."""
    return _scorers.classes()
