"""What is examined, the numbers it is examined with, and what a law says about it.

A `Subject` is a scorer, normaliser, window or context that can be constructed as often as a law needs a fresh one.
`inputs` and `call` give laws one view of all four kinds: tensors with the sentences in their first dimension go in, one
tensor of numbers comes out. A law is a function of a `Subject` that returns a `Finding`.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Attention,
    Context,
    General,
    MeanState,
    Normaliser,
    Scorer,
    Window,
    own_options,
)
from seq2seq_attn.errors import UserError

Kind = Literal["scorer", "normaliser", "window", "context"]
BASES: dict[Kind, type[nn.Module]] = {
    "scorer": Scorer,
    "normaliser": Normaliser,
    "window": Window,
    "context": Context,
}

# Pairwise different, and different from the sentences, queries and positions of a sample, so that swapped axes show;
# multiples of 8, as heads divide them.
QUERY_SIZE, KEY_SIZE = 16, 24
SATURATION_SIZES = (64, 256, 1024)

TOLERANCE = 1e-4  # of `apart`: far above the rounding of float32, far below what a defect moves
_STIR = 0.02  # standard deviation of what is added to every parameter

# ok: the law holds. note: it holds, and something is worth knowing. warning: allowed, and seldom meant. wrong: broken.
Verdict = Literal["ok", "note", "warning", "wrong"]


class Finding(NamedTuple):
    verdict: Verdict
    says: str  # one line, with its figures


def ok(says: str) -> Finding:
    return Finding("ok", says)


def note(says: str) -> Finding:
    return Finding("note", says)


def warning(says: str) -> Finding:
    return Finding("warning", says)


def wrong(says: str) -> Finding:
    return Finding("wrong", says)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest |a - b|, in units of the largest |b| where that is above 1.

    0 where both are the same infinity; infinite where there is a NaN or the shapes differ.
    """
    if one.shape != other.shape:
        return math.inf
    if not other.numel():
        return 0.0
    gap = torch.where(one == other, 0.0, one.double() - other.double()).abs()
    unit = torch.where(other.isfinite(), other, 0.0).double().abs().amax().clamp(min=1)
    return (gap.amax() / unit).nan_to_num(nan=math.inf, posinf=math.inf).item()


def is_same(distance: float) -> bool:
    """Whether two tensors this far `apart` count as equal."""
    return distance <= TOLERANCE


@dataclass(frozen=True)
class Subject:
    """A part that can be constructed as often as a law needs a fresh one."""

    kind: Kind
    part: type[nn.Module]
    make: Callable[[int, int], Any]  # of query_size and key_size
    query_size: int
    key_size: int
    sizes: tuple[tuple[int, int], ...]  # of query and key: where saturation is measured
    backend: str  # of torch.compile

    @property
    def name(self) -> str:
        sizes = {
            "normaliser": "",
            "window": f"query_size={self.query_size}",
        }.get(self.kind, f"query_size={self.query_size}, key_size={self.key_size}")
        return f"{self.part.__name__}({sizes})"

    def fresh(self, seed: int | None = None) -> Any:
        """A new one in eval mode, its parameters moved a little: many start at 0, where every law holds.

        With the same seed it has the same parameters.
        """
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        part = self.make(self.query_size, self.key_size).eval()
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.add_(_STIR * torch.randn_like(parameter))
        return part

    def context(self, part: Any = None) -> Any:
        """The context that a decoder reads through: the part itself, or an `Attention` with the part in it."""
        part = self.fresh() if part is None else part
        if self.kind == "context":
            return part
        if self.kind == "scorer":
            return Attention(part)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1)
            scorer = General(self.query_size, self.key_size).eval()
        return Attention(scorer, part) if self.kind == "normaliser" else Attention(scorer, window=part)

    def sample(self, sentences: int = 2, queries: int = 3, positions: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
        """A query (B, T, query_size) and keys (B, S, key_size), normal with variance 1."""
        draw = torch.Generator().manual_seed(seed)
        return (
            torch.randn(sentences, queries, self.query_size, generator=draw),
            torch.randn(sentences, positions, self.key_size, generator=draw),
        )

    def inputs(
        self, sentences: int = 2, queries: int = 3, positions: int | None = None, seed: int = 0
    ) -> dict[str, Tensor]:
        """What this kind of part is called with, by name; the sentences are the first dimension of each.

        There are 5 positions unless given, of a window 30: it shows nothing where it leaves all of them open.
        """
        positions = positions or (30 if self.kind == "window" else 5)
        query, keys = self.sample(sentences, queries, positions, seed)
        if self.kind == "normaliser":
            draw = torch.Generator().manual_seed(seed)
            return {"scores": 2 * torch.randn(sentences, queries, positions, generator=draw)}
        if self.kind == "window":
            steps = torch.arange(queries).expand(sentences, -1).clone()
            return {"query": query, "is_token": torch.ones(sentences, 1, positions, dtype=torch.bool), "steps": steps}
        return {"query": query, "keys": keys}

    def call(self, part: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        """All numbers that the part computes from these inputs, the T queries being consecutive steps.

        Scores of a scorer (B, T, S), weights of a normaliser (B, T, S), weights that a window leaves of weights 1
        (B, T, S), contexts beside weights of a context (B, T, value_size + S).
        """
        return _CALLS[self.kind](part, **inputs)

    def run(self, part: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        """`call` on copies: a part that changes its arguments in place is reported by the law on that alone."""
        return self.call(part, {name: tensor.clone() for name, tensor in inputs.items()})


def scores_of(scorer: Scorer, query: Tensor, keys: Tensor) -> Tensor:
    """Scores (B, T, S) of freshly prepared keys, for queries with no earlier step; computed from copies."""
    scores: Tensor = scorer(query.clone(), scorer.prepare(keys.clone()))
    return scores


def weights_of(context: Context, query: Tensor, keys: Tensor, is_token: Tensor | None = None) -> Tensor:
    """Weights (B, T, S) of T consecutive steps; computed from copies."""
    weights: Tensor
    _, weights = context(query.clone(), context.prepare(keys.clone(), is_token=is_token))
    return weights


def _scores_over_steps(scorer: Scorer, query: Tensor, keys: Tensor) -> Tensor:
    prepared = scorer.prepare(keys)
    if not scorer.needs_history:
        at_once: Tensor = scorer(query, prepared)
        return at_once
    history, scores = scorer.start(prepared), []
    for one in torch.split(query, 1, dim=1):
        scores.append(scorer.after(history, one, prepared))
        history = scorer.advance(history, one, prepared, scores[-1].softmax(dim=-1))
    return torch.cat(scores, dim=1)


def _weights_over_steps(normaliser: Normaliser, scores: Tensor) -> Tensor:
    if not normaliser.needs_history:
        at_once: Tensor = normaliser(scores)
        return at_once
    history, weights = normaliser.start(scores[:, :1]), []
    for one in torch.split(scores, 1, dim=1):
        weights.append(normaliser.after(history, one))
        history = normaliser.advance(history, weights[-1])
    return torch.cat(weights, dim=1)


def _share_left(window: Window, query: Tensor, is_token: Tensor, steps: Tensor) -> Tensor:
    view = window(query, is_token, steps)
    shape = (*query.shape[:2], is_token.shape[-1])
    left = query.new_ones(shape) if view.factor is None else view.factor.expand(shape)
    return left if view.is_open is None else torch.where(view.is_open, left, 0.0)


def _seen(context: Context, query: Tensor, keys: Tensor) -> Tensor:
    return torch.cat(context(query, context.prepare(keys)), dim=-1)


_CALLS: dict[Kind, Callable[..., Tensor]] = {
    "scorer": _scores_over_steps,
    "normaliser": _weights_over_steps,
    "window": _share_left,
    "context": _seen,
}

Law: TypeAlias = Callable[[Subject], Finding]


def subject_of(
    part: Any,
    query_size: int | None = None,
    key_size: int | None = None,
    options: Mapping[str, Any] | None = None,
    full: bool = False,
) -> Subject:
    """The part to be examined, given as for `check_part`. UserError: it is of no kind, or cannot be constructed."""
    backend = "inductor" if full else "aot_eager"
    cls = part if isinstance(part, type) else type(part)
    kind = next((kind for kind, base in BASES.items() if issubclass(cls, base)), None)
    if kind is None:
        raise UserError(
            f"{getattr(part, '__name__', part)} is no scorer, normaliser, window or context; "
            f"give it Scorer, Normaliser, Window or Context as its base class"
        )
    if not isinstance(part, type):
        own = [getattr(part, name, None) for name in ("query_size", "key_size")]
        if options or (query_size and own[0]) or (key_size and own[1]):
            raise UserError(f"the {cls.__name__} has its sizes and options; give its class to choose others")
        sizes = (own[0] or query_size or QUERY_SIZE, own[1] or key_size or KEY_SIZE)
        return Subject(kind, cls, lambda *_: _copy(part), *sizes, sizes=(sizes,), backend=backend)
    options = options or {}
    _refuse(kind, cls, options)
    query_size = query_size or QUERY_SIZE
    key_size = key_size or (query_size if getattr(cls, "needs_equal_sizes", False) else KEY_SIZE)
    subject = Subject(
        kind=kind,
        part=cls,
        make=lambda query_size, key_size: cls(**_arguments(kind, cls, query_size, key_size, options), **options),
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


def _arguments(kind: Kind, cls: type, query_size: int, key_size: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the examination gives to a constructor, beside the options that were chosen.

    A context may ask for sizes, a summary, a scorer or an attention to stand around, each by its usual name.
    """
    if kind == "scorer":
        return {"query_size": query_size, "key_size": key_size}
    if kind == "window":
        return {"query_size": query_size}
    if kind == "normaliser":
        return {}
    known: dict[str, Callable[[], Any]] = {
        "query_size": lambda: query_size,
        "key_size": lambda: key_size,
        "value_size": lambda: key_size,
        "heads": lambda: 2,
        "scorer": lambda: General(query_size, key_size),
        "attention": lambda: Attention(General(query_size, key_size)),
        "context": lambda: Attention(General(query_size, key_size)),
        "summary": MeanState,
    }
    parameters = inspect.signature(cls).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.name not in options]
    named = [name for name in needed if name not in ("args", "kwargs")]
    unknown = [name for name in named if name not in known]
    if unknown:
        raise TypeError(f"its constructor needs {', '.join(unknown)}; give an object, made with what it needs")
    return {name: known[name]() for name in named}


def _refuse(kind: Kind, cls: type[nn.Module], options: Mapping[str, Any]) -> None:
    """UserError for a class that lacks a method, and for an option that it does not have."""
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise UserError(f"{cls.__name__} is no whole {kind}; it still needs {missing}")
    own = list(own_options(cls))
    for name in options:
        if name not in own:
            raise UserError(f"{cls.__name__} has no option {name!r}; it has: {', '.join(own) or 'none'}")


def _copy(part: nn.Module) -> nn.Module:
    """A copy in float32 on the CPU.

    `torch.nn.utils.weight_norm` keeps a computed weight as an attribute, which `deepcopy` alone refuses to copy.
    """
    computed = [
        value for module in part.modules() for value in vars(module).values() if isinstance(value, Tensor)
    ]  # parameters and buffers are in dictionaries of their own
    memo = {id(value): value.detach().clone() for value in computed if not value.is_leaf}
    return copy.deepcopy(part, memo).to("cpu", torch.float32)
