"""Laws of what a caller may ask of a context: values, `may_read`, `causal`, `bias`, `need_weights`, `extend`.

A context may refuse an option with ValueError, but must not ignore it: a caller who asked for a causal mask would get
weights on later positions, and no error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from seq2seq_attn.doctor.subject import Finding, Law, Subject, is_close, max_error, note, ok, warning, wrong

SENTENCES, QUERIES, POSITIONS = 2, 5, 5  # as many queries as positions, as in self-attention
_SIZES = SENTENCES, QUERIES, POSITIONS
_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])
_UP_TO_ITS_OWN = torch.ones(QUERIES, POSITIONS, dtype=torch.bool).tril()
_TENFOLD = 10.0  # of a random bias, so that normalizers with few weights above 0 are affected as well


class _Refused(Exception):  # noqa: N818 - no error: the finding of a law that cannot be checked
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def _asked(option: str, call: Callable[[], Any]) -> Any:
    """The result of a call with the option. _Refused: the context refuses it with ValueError, or does not have it."""
    try:
        return call()
    except ValueError as refusal:
        raise _Refused(ok(f"refused: {_first_line(refusal)}")) from None
    except TypeError as unknown:
        if f"'{option}'" not in str(unknown):
            raise
        raise _Refused(note(f"the context has no {option}; calls with it end in a TypeError")) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _law(law: Law) -> Law:
    """Decorator: without gradients, and what a context refuses breaks no law."""

    @wraps(law)
    @torch.no_grad()
    def checked(subject: Subject) -> Finding:
        try:
            return law(subject)
        except _Refused as refused:
            return refused.finding

    return checked


@_law
def values(subject: Subject) -> Finding:
    """Contexts are computed from the values that `prepare` gets; weights are not."""
    context = subject.fresh()
    query, keys = subject.sample(*_SIZES)
    default = context(query, context.prepare(keys, is_token=_IS_TOKEN))
    source = _asked("values", lambda: context.prepare(keys, values=keys, is_token=_IS_TOKEN))
    error = max(map(max_error, context(query, source), default))
    if not is_close(error):
        return wrong(f"with the keys as values, results differ by {error:.2g} from those without values")
    given = subject.sample(positions=POSITIONS, seed=1)[1]
    other = context(query, context.prepare(keys, values=given, is_token=_IS_TOKEN))
    changed, moved = map(max_error, other, default)
    if not is_close(moved):
        return wrong(f"weights change by {moved:.2g} with the values")
    if is_close(changed) and context.reads_source and context.value_size:
        return wrong("contexts do not change with the values that prepare gets")
    return ok(f"other values change contexts by {changed:.1g} and weights by {moved:.1g}")


@_law
def may_read(subject: Subject) -> Finding:
    """A position that a query may not read is padding for this query."""
    context = subject.fresh()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys)
    _asked("may_read", lambda: context(query, source, may_read=_UP_TO_ITS_OWN))
    everything, tokens = torch.ones_like(_UP_TO_ITS_OWN), _IS_TOKEN[:, None]
    cases = {
        "True everywhere": (everything, context(query, source)),
        "False on padding": (tokens, context(query, context.prepare(keys, is_token=_IS_TOKEN))),
        "a mask per query": (_UP_TO_ITS_OWN, _by_steps(context, query, source, may_read=_UP_TO_ITS_OWN)),
    }
    error = 0.0
    for description, (mask, expected) in cases.items():
        got = context(query, source, may_read=mask)
        if (weight := _most(got[1], ~mask)) != 0:
            return wrong(f"with may_read {description}, excluded positions get weights up to {weight:.2g}")
        error = max([error, *map(max_error, got, expected)])
        if not is_close(error):
            return wrong(f"with may_read {description}, results are wrong by {error:.2g}")
    return ok(f"masks agree with padding, and in one call with single steps, up to {error:.1g}")


@_law
def causal(subject: Subject) -> Finding:
    """Causal queries are the last ones, and each reads the positions up to its own."""
    context = subject.fresh()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys)
    got = _asked("causal", lambda: context(query, source, causal=True))
    last = _asked("causal", lambda: context(query[:, -2:], source, causal=True))
    for weights in (got[1], last[1]):
        queries = weights.shape[1]
        if (weight := _most(weights, ~_UP_TO_ITS_OWN[-queries:])) != 0:
            return wrong(
                f"{queries} causal queries on {POSITIONS} positions give later ones weights up to {weight:.2g}"
            )
    error = _error_of_growing_sources(context, query, keys, got)
    if not is_close(error):
        return wrong(f"causal results differ by {error:.2g} from those on the positions up to each query")
    return ok(f"causal results differ by {error:.1g} from those on the positions up to each query")


@_law
def bias(subject: Subject) -> Finding:
    """A bias changes the weights, in one call as in single steps, and -inf excludes a position as padding does."""
    context = subject.fresh()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys)
    closed = torch.zeros(_UP_TO_ITS_OWN.shape).masked_fill(~_UP_TO_ITS_OWN, -torch.inf)
    got = _asked("bias", lambda: context(query, source, bias=closed))
    if (weight := _most(got[1], ~_UP_TO_ITS_OWN)) != 0:
        return wrong(f"positions with a bias of -inf get weights up to {weight:.2g}")
    error = _error_of_growing_sources(context, query, keys, got)
    if not is_close(error):
        return wrong(f"with a bias of -inf, results differ by {error:.2g} from those on the other positions")
    random = _TENFOLD * torch.randn(_SIZES, generator=torch.Generator().manual_seed(2))
    free, biased = context(query, source), context(query, source, bias=random)
    reads_one = bool(((free[1] != 0).sum(dim=-1) <= 1).all())  # as some windows do, whatever the scores are
    if is_close(max_error(biased[1], free[1])) and not reads_one:
        return wrong("a bias does not change the weights")
    error = max([error, *map(max_error, biased, _by_steps(context, query, source, bias=random))])
    if not is_close(error):
        return wrong(f"with a bias, steps in one call differ by {error:.2g} from single steps")
    return ok(f"a bias of -inf excludes positions; steps in one call and single steps differ by {error:.1g}")


@_law
def need_weights(subject: Subject) -> Finding:
    """`need_weights=False` gives the same contexts, and None in place of the weights."""
    context = subject.fresh()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys, is_token=_IS_TOKEN)
    alone, nothing = _asked("need_weights", lambda: context(query, source, need_weights=False))
    error = max_error(alone, context(query, source)[0])
    if not is_close(error):
        return wrong(f"contexts change by {error:.2g} with need_weights=False")
    if nothing is not None:
        return warning("need_weights=False returns weights; None tells a caller that there are none")
    return ok(f"contexts change by {error:.1g} with need_weights=False, and the weights are None")


@_law
def extend(subject: Subject) -> Finding:
    """A source that is extended by more positions equals the source of all positions."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)

    def results(source: Any) -> Tensor:
        return torch.cat(context(query.clone(), source), dim=-1)

    error = 0.0
    for mask in (None, _IS_TOKEN):
        whole = results(context.prepare(keys.clone(), is_token=mask))
        for known in (2, 3):
            first, more = (None, None) if mask is None else (mask[:, :known], mask[:, known:])
            source = context.prepare(keys[:, :known].clone(), is_token=first)
            before = results(source)
            try:
                longer = _asked("extend", partial(context.extend, source, keys[:, known:].clone(), is_token=more))
            except _Refused as refused:
                if mask is None:
                    raise
                return wrong(f"extend takes more tokens, but not with padding: {refused}")
            error = max(error, max_error(results(longer), whole))
            if not is_close(error):
                way_out = "raise ValueError in extend" if subject.kind == "context" else "set can_extend = False"
                return wrong(
                    f"{known} of {POSITIONS} positions, extended by the others, give results that differ by "
                    f"{error:.2g} from those of all at once; {way_out} if that is intended"
                )
            if not is_close(max_error(results(source), before)):
                return wrong("extend modifies the source in place; return a new one")
    return ok(f"a source extended by more positions differs by {error:.1g} from that of all of them")


def _most(weights: Tensor, where: Tensor) -> float:
    """The largest weight at these positions; 0 if there are none, NaN if any weight is NaN."""
    return float(torch.where(where.expand_as(weights) | weights.isnan(), weights, 0.0).max())


def _error_of_growing_sources(context: Any, query: Tensor, keys: Tensor, got: Any) -> float:
    """How far results in which query t reads t + 1 positions are from those on a source of these positions alone.

    Only that of the first query is compared if a step depends on earlier ones.
    """
    error = 0.0
    for t in range(1 if context.needs_history else QUERIES):
        contexts, weights = context(query[:, t : t + 1], context.prepare(keys[:, : t + 1].clone()))
        error = max(error, max_error(got[0][:, t : t + 1], contexts), max_error(got[1][:, t : t + 1, : t + 1], weights))
    return error


def _by_steps(context: Any, query: Tensor, source: Any, **options: Tensor) -> list[Tensor]:
    """Contexts and weights of single steps, each with its part of the options."""
    state, results = context.start(source), []
    for t, one in enumerate(torch.split(query, 1, dim=1)):
        own = {name: option.expand(_SIZES)[:, t : t + 1] for name, option in options.items()}
        contexts, weights, state = context(one, source, state, **own)
        results.append((contexts, weights))
    return [torch.cat(part, dim=1) for part in zip(*results, strict=True)]
