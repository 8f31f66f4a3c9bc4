"""Laws of what a decoder sees: a context, or an `Attention` that contains the scorer, normalizer or window.

A context may refuse an option with ValueError, but must not ignore it: a caller who asked for a causal mask would get
weights on later positions, and no error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import SkipTest

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import each_tensor
from seq2seq_attn.testing.scorers import LONG
from seq2seq_attn.testing.subject import Subject, is_close, require, same

_SIZES = SENTENCES, QUERIES, POSITIONS = 2, 5, 5  # as many queries as positions, as in self-attention
_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, True, False, False]])
_UP_TO_ITS_OWN = torch.ones(QUERIES, POSITIONS, dtype=torch.bool).tril()
_TENFOLD = 10.0  # of a random bias, so that normalizers with few weights above 0 are affected as well


@torch.no_grad()
def padding(subject: Subject) -> str | None:
    """Weights on padding are exactly 0, and more padding, with any values on it, changes nothing."""
    context = subject.context()
    for positions in (5, subject.query_size, subject.key_size):  # as many as features: axes could be swapped
        query, keys = subject.sample(positions=positions)
        is_token = torch.arange(positions) < torch.tensor([[positions], [2]])
        shorter = _results(context, query, keys, is_token)
        _require_zero(shorter[1], ~is_token[:, None], "padding gets weights")
        if subject.kind == "scorer":
            rows = shorter[1].sum(dim=-1)
            same(rows, torch.ones_like(rows), "the weights of a row do not sum to 1")
        noise = 100 * subject.sample(positions=positions + 3, seed=1)[1]
        longer_mask = F.pad(is_token, (0, 3))
        longer_keys = torch.where(longer_mask[:, :, None], F.pad(keys, (0, 0, 0, 3)), noise)
        longer = _results(context, query, longer_keys, longer_mask)
        same(longer[1][:, :, :positions], shorter[1], "weights of the tokens change with padding, or with values on it")
        same(longer[0], shorter[0], "contexts change with padding, or with values on it")
    if subject.kind == "scorer":
        scorer, tokens = context.scorer, is_token[:, None].expand_as(shorter[1])
        scores, longer_scores = (scorer(query, scorer.prepare(each)) for each in (keys, longer_keys))
        if not is_close(longer_scores[:, :, :positions][tokens], scores[tokens]):
            return "padding shifts all scores of a row: no effect through softmax, but through sigmoid"
    if subject.kind == "context":
        try:
            context.prepare(keys, is_token=torch.zeros(keys.shape[:2], dtype=torch.bool))
        except ValueError:
            return None
        return "a source without tokens is accepted; `prepare` should raise ValueError"
    return None


@torch.no_grad()
def steps(subject: Subject) -> None:
    """T queries in one call get the contexts and weights of T single steps."""
    context = subject.context()
    for sizes in ((2, 3, 5), (2, 5, 5), (1, LONG, 5)):
        query, keys = subject.sample(*sizes)
        source = context.prepare(keys)
        for at_once, single in zip(context(query, source), _by_steps(context, query, source), strict=True):
            same(at_once, single, f"{sizes[1]} steps in one call differ from single steps")


@torch.no_grad()
def histories(subject: Subject) -> None:
    """Hypotheses of a beam do not affect each other, no history is changed in place, and `needs_history` is right."""
    context = subject.context()
    for beam in (3, 5):  # five hypotheses on five positions: axes of equal size could be swapped
        query, keys = subject.sample(queries=beam)
        source = context.prepare(keys)
        together = _third_step(context, query, source)
        alone = [_third_step(context, one, source) for one in torch.split(query, 1, dim=1)]
        same(together, torch.cat(alone, dim=1), f"{beam} hypotheses in a beam differ from those alone")
        if not context.needs_history:
            first = torch.cat(context(query, source, _beam(context, source, beam))[:2], dim=-1)
            same(together, first, "a step depends on earlier steps, but `needs_history` or `needs_steps` is False")


def _beam(context: Any, source: Any, beam: int) -> Any:
    """The history before the first step, for `beam` hypotheses of each sentence."""
    return each_tensor(lambda one: one.expand(-1, beam, *one.shape[2:]).clone(), context.start(source))


def _third_step(context: Any, query: Tensor, source: Any) -> Tensor:
    """Contexts and weights of every hypothesis in its third step."""
    history = _beam(context, source, query.shape[1])
    for scale in (1.0, -1.0, 1.0):
        kept = each_tensor(torch.clone, history)
        contexts, weights, following = context(scale * query, source, history)
        for before, after in zip(_flat(kept), _flat(history), strict=True):
            same(after, before, "a step changes the history before it in place")
        history = following
    return torch.cat((contexts, weights), dim=-1)


def _flat(history: Any) -> list[Tensor]:
    return [tensor for part in history for tensor in _flat(part)] if isinstance(history, tuple) else [history]


@torch.no_grad()
def select(subject: Subject) -> None:
    """`source.select(rows)` holds these sentences, in any order, repeated or omitted."""
    context = subject.context()
    query, keys = subject.sample(sentences=4)
    source = context.prepare(keys, is_token=torch.arange(keys.shape[1]) < torch.tensor([[5], [3], [2], [4]]))
    expected = context(query, source)
    for chosen in ([2, 0, 3, 1], [1], [3, 3, 0]):
        order = torch.tensor(chosen)
        selected = source.select(order)
        sentences = selected.sentences
        require(sentences == len(chosen), f"select({chosen}) gives a source with sentences = {sentences}")
        for got, whole in zip(context(query[order], selected), expected, strict=True):
            same(got, whole[order], f"results of select({chosen}) differ from those of these sentences")
    for again, before in zip(context(query, source), expected, strict=True):
        same(again, before, "select changes its source")


@torch.no_grad()
def reads_query(subject: Subject) -> str | None:
    """The results of a context depend on the query if, and only if, `reads_query` is True."""
    context = subject.context()
    query, keys = subject.sample()
    source = context.prepare(keys)
    pairs = zip(context(query, source), context(subject.sample(seed=1)[0], source), strict=True)
    moves = not all(is_close(*pair) for pair in pairs)
    require(context.reads_query or not moves, "another query changes the results, but reads_query is False")
    return "reads_query is True, but the query has no effect" if context.reads_query and not moves else None


# What a caller may ask for


def _asked(option: str, call: Callable[[], Any]) -> Any:
    """The result of a call with the option. SkipTest: the context refuses it with ValueError, or does not have it."""
    try:
        return call()
    except ValueError as refusal:
        raise SkipTest(f"it refuses {option}: {str(refusal).strip().partition(chr(10))[0]}") from None
    except TypeError as unknown:
        if f"'{option}'" not in str(unknown):
            raise
        raise SkipTest(f"it has no {option}; calls with it end in a TypeError") from None


@torch.no_grad()
def values(subject: Subject) -> None:
    """Contexts are computed from the values that `prepare` gets; weights are not."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)
    default = _results(context, query, keys, _IS_TOKEN)
    source = _asked("values", lambda: context.prepare(keys, values=keys, is_token=_IS_TOKEN))
    for got, expected in zip(context(query, source), default, strict=True):
        same(got, expected, "with the keys as values, results differ from those without values")
    given = subject.sample(positions=POSITIONS, seed=1)[1]
    contexts, weights = context(query, context.prepare(keys, values=given, is_token=_IS_TOKEN))
    same(weights, default[1], "weights change with the values")
    is_ignored = is_close(contexts, default[0]) and context.reads_source and context.value_size
    require(not is_ignored, "contexts do not change with the values that prepare gets")


@torch.no_grad()
def may_read(subject: Subject) -> None:
    """A position that a query may not read is padding for this query."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys)
    _asked("may_read", lambda: context(query, source, may_read=_UP_TO_ITS_OWN))
    cases = {
        "True everywhere": (torch.ones_like(_UP_TO_ITS_OWN), context(query, source)),
        "False on padding": (_IS_TOKEN[:, None], _results(context, query, keys, _IS_TOKEN)),
        "a mask per query": (_UP_TO_ITS_OWN, _by_steps(context, query, source, may_read=_UP_TO_ITS_OWN)),
    }
    for name, (mask, expected) in cases.items():
        got = context(query, source, may_read=mask)
        _require_zero(got[1], ~mask, f"with may_read {name}, excluded positions get weights")
        for one, other in zip(got, expected, strict=True):
            same(one, other, f"with may_read {name}, results are wrong")


@torch.no_grad()
def causal(subject: Subject) -> None:
    """Causal queries are the last ones, and each reads the positions up to its own."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys)
    got = _asked("causal", lambda: context(query, source, causal=True))
    last = context(query[:, -2:], source, causal=True)
    for weights in (got[1], last[1]):
        _require_zero(weights, ~_UP_TO_ITS_OWN[-weights.shape[1] :], "positions after a causal query get weights")
    _require_growing(context, query, keys, got, "causal results differ from those on the positions up to each query")


@torch.no_grad()
def bias(subject: Subject) -> None:
    """A bias changes the weights, in one call as in single steps, and -inf excludes a position as padding does."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys)
    closed = torch.zeros(_UP_TO_ITS_OWN.shape).masked_fill(~_UP_TO_ITS_OWN, -torch.inf)
    got = _asked("bias", lambda: context(query, source, bias=closed))
    _require_zero(got[1], ~_UP_TO_ITS_OWN, "positions with a bias of -inf get weights")
    _require_growing(context, query, keys, got, "with a bias of -inf, results differ from those on the other positions")
    random = _TENFOLD * torch.randn(_SIZES, generator=torch.Generator().manual_seed(2))
    free, biased = context(query, source), context(query, source, bias=random)
    reads_one = ((free[1] != 0).sum(dim=-1) <= 1).all()  # as some windows do, whatever the scores are
    require(reads_one or not is_close(biased[1], free[1]), "a bias does not change the weights")
    for one, other in zip(biased, _by_steps(context, query, source, bias=random), strict=True):
        same(one, other, "with a bias, steps in one call differ from single steps")


@torch.no_grad()
def need_weights(subject: Subject) -> str | None:
    """`need_weights=False` gives the same contexts, and None in place of the weights."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)
    source = context.prepare(keys, is_token=_IS_TOKEN)
    alone, nothing = _asked("need_weights", lambda: context(query, source, need_weights=False))
    same(alone, context(query, source)[0], "contexts change with need_weights=False")
    return None if nothing is None else "need_weights=False returns weights; None tells a caller that there are none"


@torch.no_grad()
def extend(subject: Subject) -> None:
    """A source that is extended by more positions equals the source of all positions."""
    context = subject.context()
    query, keys = subject.sample(*_SIZES)
    for mask in (None, _IS_TOKEN):
        whole = torch.cat(_results(context, query, keys, mask), dim=-1)
        for known in (2, 3):
            first, more = (None, None) if mask is None else (mask[:, :known], mask[:, known:])
            source = context.prepare(keys[:, :known].clone(), is_token=first)
            before = torch.cat(context(query, source), dim=-1)
            extended = partial(context.extend, source, keys[:, known:].clone(), is_token=more)
            try:
                longer = _asked("extend", extended)
            except SkipTest as refusal:
                require(mask is None, f"extend takes more tokens, but not with padding: {refusal}")
                raise
            way_out = "raise ValueError in extend" if subject.kind == "context" else "set can_extend = False"
            same(
                torch.cat(context(query, longer), dim=-1),
                whole,
                f"a source of {known} positions that is extended differs from that of all {POSITIONS}; if that is "
                f"intended, {way_out}",
            )
            after = torch.cat(context(query, source), dim=-1)
            same(after, before, "extend changes the source in place; return a new one")


def _results(context: Any, query: Tensor, keys: Tensor, is_token: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Contexts and weights; the arguments are copied."""
    contexts, weights = context(query.clone(), context.prepare(keys.clone(), is_token=is_token))
    return contexts, weights


def _require_zero(weights: Tensor, where: Tensor, sentence: str) -> None:
    """Raises BrokenLawError if a weight at these positions is not exactly 0, or any weight is NaN."""
    largest = torch.where(where.expand_as(weights) | weights.isnan(), weights, 0.0).max()
    require(largest == 0, f"{sentence} up to {largest:.2g}")


def _require_growing(context: Any, query: Tensor, keys: Tensor, got: Any, sentence: str) -> None:
    """Raises BrokenLawError if results in which query t reads t + 1 positions are not those of a source of these alone.

    Only that of the first query is compared if a step depends on earlier ones.
    """
    for t in range(1 if context.needs_history else QUERIES):
        contexts, weights = _results(context, query[:, t : t + 1], keys[:, : t + 1])
        same(got[0][:, t : t + 1], contexts, sentence)
        same(got[1][:, t : t + 1, : t + 1], weights, sentence)


def _by_steps(context: Any, query: Tensor, source: Any, **options: Tensor) -> list[Tensor]:
    """Contexts and weights of single steps, each with its part of the options."""
    history, results = context.start(source), []
    for t, one in enumerate(torch.split(query, 1, dim=1)):
        own = {name: option.expand(_SIZES)[:, t : t + 1] for name, option in options.items()}
        contexts, weights, history = context(one, source, history, **own)
        results.append((contexts, weights))
    return [torch.cat(part, dim=1) for part in zip(*results, strict=True)]
