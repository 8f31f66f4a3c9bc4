"""Laws of scorers alone: a score belongs to one query and one key, at any position of a source of any length."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_attn.attention import Scorer
from seq2seq_attn.testing.subject import TOLERANCE, BrokenLawError, Subject, is_close, max_error, require, same

LONG = 200  # positions, and steps


@torch.no_grad()
def positions(subject: Subject) -> str | None:
    """Score j depends on key j, and on no other key."""
    scorer = subject.fresh()
    query, keys = subject.sample(sentences=1, queries=4)
    other = subject.sample(sentences=1, queries=4, seed=1)[1]
    expected = _scores(scorer, query, keys)
    moves = []
    for position in range(keys.shape[1]):
        changed = keys.clone()
        changed[:, position] = other[:, position]
        moves.append((_scores(scorer, query, changed) - expected).nan_to_num().abs()[0])
    by_query = torch.stack(moves)  # (S, T, S): by how much key i changes score j of each query
    by_key = by_query.amax(dim=1)
    own = by_key.diagonal()
    others = (by_key - own.diag()).amax().item()
    if by_key.amax() <= TOLERANCE:
        return None  # the law `reads_keys` says so
    if own.amin() <= TOLERANCE < others:
        lost = int(own.argmin())
        found = int(by_key[lost].argmax())
        raise BrokenLawError(f"key {lost} changes score {found} by {by_key[lost, found]:.2g}, but not score {lost}")
    still = int((by_query.diagonal(dim1=0, dim2=2) <= TOLERANCE).sum())
    if still:
        return f"{still} of {expected.numel()} scores do not depend on their keys; are they clipped?"
    if others > TOLERANCE:
        return f"a score also depends on other keys, which change it by up to {others:.2g}"
    return None


@torch.no_grad()
def long_source(subject: Subject) -> None:
    """A source of 200 positions, and 200 steps, are scored as short ones are.

    The score of every position depends on the query or its key, unless it is -inf: such a position is never read.
    """
    scorer = subject.fresh()
    query, keys = subject.sample(sentences=1, queries=2, positions=LONG)
    scores = _scores(scorer, query, keys)
    require(tuple(scores.shape) == (1, 2, LONG), f"scores of {LONG} positions have shape {tuple(scores.shape)}")
    require(not scores.isnan().any(), f"scores of {LONG} positions are NaN")
    others = _scores(scorer, *subject.sample(sentences=1, queries=2, positions=LONG, seed=1))
    still = ((scores == others) & scores.isfinite()).flatten(0, 1).all(dim=0)
    # At least the last ten positions: a few may be equal by chance, such as scores clipped at 0.
    if still[-10:].all() and not still.all():
        first = int((~still).nonzero()[-1]) + 1
        raise BrokenLawError(f"from position {first} on, scores depend neither on the query nor on the keys")
    attention = subject.context(scorer)
    short = attention(query, attention.prepare(keys[:, :5]))[1]
    padded = attention(query, attention.prepare(keys, is_token=(torch.arange(LONG) < 5)[None]))[1]
    same(padded[:, :, :5], short, f"weights of 5 tokens change with {LONG - 5} more positions of padding")
    query, keys = subject.sample(sentences=1, queries=LONG)
    steps = subject.run(scorer, {"query": query, "keys": keys})
    shape = tuple(steps.shape)
    require(shape == (1, LONG, 5) and not steps.isnan().any(), f"scores of {LONG} steps are NaN or of shape {shape}")
    if not scorer.needs_history:
        alone = _scores(scorer, query[:, -1:], keys)
        same(steps[:, -1:], alone, f"the scores of query {LONG} differ from those of this query alone")


@torch.no_grad()
def features(subject: Subject) -> None:
    """Scores depend on all features of a query and of a key, or on none of them, which other laws report."""
    scorer = subject.fresh()
    inputs, others = subject.inputs(), subject.inputs(seed=1)
    expected = subject.run(scorer, inputs)
    for name, tensor in inputs.items():
        ignored = []
        for feature in range(tensor.shape[-1]):
            changed = tensor.clone()
            changed[..., feature] = others[name][..., feature]
            if max_error(subject.run(scorer, inputs | {name: changed}), expected) <= 1e-7:
                ignored.append(feature)
        size = tensor.shape[-1]
        ignores_some = 0 < len(ignored) < size
        require(not ignores_some, f"no score depends on {len(ignored)} of {size} features of {name}: {ignored}")


@torch.no_grad()
def reads_query(subject: Subject) -> str | None:
    """The weights depend on the query."""
    if _moves(subject, "query"):
        return None
    return "the weights do not depend on the query: all steps attend to the same positions"


@torch.no_grad()
def reads_keys(subject: Subject) -> str | None:
    """The weights depend on the keys."""
    return None if _moves(subject, "keys") else "the weights do not depend on the keys, but only on positions"


def _moves(subject: Subject, name: str) -> bool:
    """Whether other values of this input change the weights."""
    scorer, inputs, others = subject.fresh(), subject.inputs(), subject.inputs(seed=1)
    weights = subject.run(scorer, inputs).softmax(dim=-1)
    return not is_close(subject.run(scorer, inputs | {name: others[name]}).softmax(dim=-1), weights)


def _scores(scorer: Scorer, query: Tensor, keys: Tensor) -> Tensor:
    """The scores (B, T, S) of first steps; the arguments are copied."""
    scores: Tensor = scorer(query.clone(), scorer.prepare(keys.clone()))
    return scores
