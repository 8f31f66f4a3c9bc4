"""Laws of shapes and positions: a score of a scorer belongs to one sentence, one query and one key."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import Attention, History, Scorer, each_tensor
from seq2seq_attn.doctor.subject import (
    TOLERANCE,
    Finding,
    Subject,
    compute_scores,
    compute_weights,
    is_close,
    max_error,
    note,
    ok,
    warning,
    wrong,
)

_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, False, False, False]])
LONG, VERY_LONG = 200, 1100  # positions, and steps


def shapes(subject: Subject) -> Finding:
    """`prepare` returns (B, S, ...) and `forward` (B, T, S), without NaN."""
    scorer = subject.fresh()
    query, keys = subject.sample()
    sentences, queries, positions = len(query), query.shape[1], keys.shape[1]
    prepared = scorer.prepare(keys.clone())
    if not (isinstance(prepared, Tensor) and prepared.shape[:2] == keys.shape[:2]):
        expected = f"(B, S, ...) = ({sentences}, {positions}, ...)"
        return wrong(f"prepare returns {describe_shape(prepared)}, expected {expected}")
    scores = scorer(query.clone(), prepared)
    shape = (sentences, queries, positions)
    if not (isinstance(scores, Tensor) and tuple(scores.shape) == shape and scores.dtype == keys.dtype):
        return wrong(f"scores are {describe_shape(scores)}, expected (B, T, S) = {shape} of {keys.dtype}")
    if scores.isnan().any():
        return wrong("scores of standard normal queries and keys are NaN")
    return ok(f"keys {tuple(keys.shape)} are prepared to {tuple(prepared.shape)}; scores are (B, T, S) = {shape}")


def singleton_dims(subject: Subject) -> Finding:
    """No dimension of size 1 is squeezed: one sentence, one query or one position."""
    scorer = subject.fresh()
    for sizes in ((1, 3, 5), (2, 1, 5), (2, 3, 1), (1, 1, 1)):
        scores = compute_scores(scorer, *subject.sample(*sizes))
        if tuple(scores.shape) != sizes:
            return wrong(f"scores are {describe_shape(scores)}, expected (B, T, S) = {sizes}; squeeze no dimension")
    return ok("dimensions of size 1 are kept: one sentence, one query, one position")


def describe_shape(result: object) -> str:
    return f"{tuple(result.shape)} of {result.dtype}" if isinstance(result, Tensor) else f"a {type(result).__name__}"


@torch.no_grad()
def padding(subject: Subject) -> Finding:
    """Weights on padding are exactly 0, and every row sums to 1."""
    weights = compute_weights(subject.context(), *subject.sample(), _IS_TOKEN)
    on_padding = weights[~_IS_TOKEN[:, None].expand_as(weights)]
    if not (on_padding == 0).all():
        return wrong(f"padding gets weights up to {on_padding.abs().max():.2g}")
    error = (weights.sum(dim=-1) - 1).abs().max().item()
    if not error <= 1e-5:
        return wrong(f"the weights of a row should sum to 1, and are off by {error:.2g}")
    return ok(f"{on_padding.numel()} weights on padding are exactly 0; rows sum to 1 within {error:.1g}")


@torch.no_grad()
def more_padding(subject: Subject) -> Finding:
    """Additional padding, with any values on it, changes nothing."""
    scorer = subject.fresh()
    attention = Attention(scorer)
    query, keys = subject.sample()
    positions = keys.shape[1]
    shorter = compute_weights(attention, query, keys, _IS_TOKEN)
    noise = 100 * subject.sample(positions=positions + 3, seed=1)[1]
    is_token = F.pad(_IS_TOKEN, (0, 3))
    longer_keys = torch.where(is_token[:, :, None], F.pad(keys, (0, 0, 0, 3)), noise)
    longer = compute_weights(attention, query, longer_keys, is_token)
    error = max_error(longer[:, :, :positions], shorter)
    if not is_close(error):
        return wrong(f"weights of the tokens change by {error:.2g} with 3 additional positions of padding")
    same = _IS_TOKEN[:, None].expand_as(shorter)
    raw = max_error(
        compute_scores(scorer, query, longer_keys)[:, :, :positions][same], compute_scores(scorer, query, keys)[same]
    )
    if not is_close(raw):
        return warning(
            f"padding shifts all scores of a row by {raw:.2g}: no effect through softmax, but through sigmoid"
        )
    return ok(f"weights change by {error:.1g} with 3 additional positions of padding, with other values on them")


@torch.no_grad()
def batch(subject: Subject) -> Finding:
    """Permuting a batch permutes its weights, and a sentence alone gets the same weights as in a batch."""
    attention = subject.context()
    query, keys = subject.sample(sentences=4)
    weights = compute_weights(attention, query, keys)
    order = torch.tensor([2, 0, 3, 1])
    permuted = max_error(compute_weights(attention, query[order], keys[order]), weights[order])
    if not is_close(permuted):
        return wrong(f"weights of a sentence change by {permuted:.2g} with the order of the batch")
    alone = max_error(compute_weights(attention, query[:1], keys[:1]), weights[:1])
    if not is_close(alone):
        return wrong(f"weights of a sentence change by {alone:.2g} when it is alone: sentences of a batch are mixed")
    return ok(f"weights of a sentence change by {permuted:.1g} in another order of the batch, by {alone:.1g} alone")


@torch.no_grad()
def positions(subject: Subject) -> Finding:
    """Score j depends on key j, and on no other key."""
    scorer = subject.fresh()
    query, keys = subject.sample(sentences=1, queries=4)
    other = subject.sample(sentences=1, queries=4, seed=1)[1]
    expected = compute_scores(scorer, query, keys)
    moves = []
    for position in range(keys.shape[1]):
        changed = keys.clone()
        changed[:, position] = other[:, position]
        moves.append((compute_scores(scorer, query, changed) - expected).nan_to_num().abs()[0])
    by_query = torch.stack(moves)  # (S, T, S): by how much key i changes score j of each query
    by_key = by_query.amax(dim=1)
    own = by_key.diagonal()
    of_others = (by_key - own.diag()).amax().item()
    if by_key.amax() <= TOLERANCE:
        return ok("no score depends on any key")
    if own.amin() <= TOLERANCE < of_others:
        lost = int(own.argmin())
        found = int(by_key[lost].argmax())
        return wrong(f"key {lost} changes score {found} by {by_key[lost, found]:.2g}, but not score {lost}")
    own_by_query = by_query.diagonal(dim1=0, dim2=2)
    still = int((own_by_query <= TOLERANCE).sum())
    if still:
        return warning(f"{still} of {own_by_query.numel()} scores do not depend on their keys; are they clipped?")
    if of_others > TOLERANCE:
        return note(f"a score also depends on other keys, which change it by up to {of_others:.2g}")
    return ok(f"key j changes score j by {own.amin():.2g} or more, and no other score")


@torch.no_grad()
def queries(subject: Subject) -> Finding:
    """T queries in one call get the scores of T single steps, and the number of queries changes no score.

    This includes T or B equal to S, or to the size of a query or key: dimensions of equal size can be swapped without
    an exception.
    """
    scorer = subject.fresh()
    error = 0.0
    for sizes in _equal_sizes(subject):
        query, keys = subject.sample(*sizes)
        at_once = compute_scores(scorer, query, keys)
        rows = [
            [compute_scores(scorer, query[b : b + 1, t : t + 1], keys[b : b + 1]) for t in range(sizes[1])]
            for b in range(sizes[0])
        ]
        singles = torch.cat([torch.cat(row, dim=1) for row in rows])
        error = max(error, max_error(at_once, singles))
        if not is_close(error):
            difference = f"scores of {sizes[1]} queries in one call differ by {error:.2g} from those of single queries"
            return wrong(f"{difference}, for (B, T, S) = {sizes}")
    attention = Attention(scorer)
    for positions in (subject.query_size, subject.key_size):
        query, keys = subject.sample(positions=positions + 1)
        is_token = (torch.arange(positions + 1) < positions).expand(len(keys), -1)
        padded = compute_weights(attention, query, keys, is_token)[:, :, :positions]
        gap = max_error(compute_weights(attention, query, keys[:, :positions]), padded)
        if not is_close(gap):
            return wrong(f"weights of {positions} positions, as many as there are features, are wrong by {gap:.2g}")
    query, keys = subject.sample()
    source = attention.prepare(keys.clone())
    steps, history = [], attention.start(source)
    for one in torch.split(query, 1, dim=1):
        _, weights, history = attention(one.clone(), source, history)
        steps.append(weights)
    error = max(error, max_error(attention(query.clone(), source)[1], torch.cat(steps, dim=1)))
    if not is_close(error):
        return wrong(f"weights of {query.shape[1]} steps in one call differ by {error:.2g} from those of single steps")
    return ok(f"{query.shape[1]} queries in one call and in single steps differ by {error:.1g}, also if T = S")


def _equal_sizes(subject: Subject) -> list[tuple[int, int, int]]:
    """(B, T, S): first pairwise different, then with some dimensions of equal size."""
    return [
        (2, 3, 5),
        (2, 5, 5),
        (3, 3, 5),
        (5, 3, 5),
        (4, 4, 4),
        (2, 3, subject.query_size),
        (2, 3, subject.key_size),
        (2, subject.query_size, 5),
        (1, subject.key_size, subject.key_size),
    ]


@torch.no_grad()
def hypotheses(subject: Subject) -> Finding:
    """Hypotheses of a beam do not affect each other, and no history is modified in place."""
    scorer = subject.fresh()
    if not scorer.needs_history:
        return ok("the scorer has no history")
    query, keys = subject.sample()
    together, changed = _three_steps(scorer, query, keys)
    if not is_close(changed):
        return wrong(f"a step modifies the previous history in place, by {changed:.2g}")
    alone = torch.cat([_three_steps(scorer, one, keys)[0] for one in torch.split(query, 1, dim=1)], dim=1)
    error = max_error(together, alone)
    if not is_close(error):
        return wrong(f"scores of {query.shape[1]} hypotheses in a beam differ by {error:.2g} from those alone")
    return ok(f"{query.shape[1]} hypotheses in a beam and alone differ by {error:.1g} after 3 steps")


def _three_steps(scorer: Scorer, query: Tensor, keys: Tensor) -> tuple[Tensor, float]:
    """The scores of each hypothesis in its third step, and the change that the steps made to a history in place."""
    prepared = scorer.prepare(keys.clone())
    history = each_tensor(lambda one: one.expand(-1, query.shape[1], *one.shape[2:]).clone(), scorer.start(prepared))
    changed = 0.0
    for scale in (1.0, -1.0):
        before = each_tensor(torch.clone, history)
        weights = scorer.after(history, scale * query, prepared).softmax(dim=-1)
        following = scorer.advance(history, scale * query, prepared, weights)
        changed = max([changed, *map(max_error, history_tensors(history), history_tensors(before))])
        history = following
    return scorer.after(history, query, prepared), changed


def history_tensors(history: History) -> list[Tensor]:
    return [tensor for part in history for tensor in history_tensors(part)] if isinstance(history, tuple) else [history]


@torch.no_grad()
def long_source(subject: Subject) -> Finding:
    """A source of 200 positions, and 200 steps, are scored as short ones are.

    The score of every position depends on query and key, unless it is -inf: such a position is never read.
    """
    scorer = subject.fresh()
    query, keys = subject.sample(sentences=1, queries=2, positions=LONG)
    scores = compute_scores(scorer, query, keys)
    if tuple(scores.shape) != (1, 2, LONG):
        return wrong(f"scores are {describe_shape(scores)}, expected (B, T, S) = (1, 2, {LONG})")
    if scores.isnan().any():
        return wrong(f"scores of {LONG} positions are NaN")
    others = subject.sample(sentences=1, queries=2, positions=LONG, seed=1)
    constant_from = _constant_from(scores, compute_scores(scorer, *others))
    if constant_from is not None:
        return wrong(f"from position {constant_from} on, scores depend neither on the query nor on the keys")
    attention = Attention(scorer)
    is_token = torch.arange(LONG) < torch.tensor([[5]])
    error = max_error(
        compute_weights(attention, query, keys, is_token)[:, :, :5], compute_weights(attention, query, keys[:, :5])
    )
    if not is_close(error):
        return wrong(f"weights of 5 tokens change by {error:.2g} with {LONG - 5} additional positions of padding")
    steps = subject.sample(sentences=1, queries=LONG)
    over_steps = subject.run(scorer, {"query": steps[0], "keys": steps[1]})
    if tuple(over_steps.shape) != (1, LONG, 5) or over_steps.isnan().any():
        return wrong(f"scores of {LONG} steps are {describe_shape(over_steps)}, expected (1, {LONG}, 5), or are NaN")
    if not scorer.needs_history:
        error = max_error(over_steps[:, -1:], compute_scores(scorer, steps[0][:, -1:], steps[1]))
        if not is_close(error):
            return wrong(f"the scores of query {LONG} differ by {error:.2g} from those of this query alone")
    error = _permutation_error(scorer, *subject.sample(sentences=1, positions=10))
    if is_close(error):  # if scores of 10 keys do not depend on positions, those of many must not either
        error = _permutation_error(scorer, query, keys)
        if not is_close(error):
            return wrong(
                f"permuting {LONG} keys changes their scores by {error:.2g}, but permuting 10 keys permutes the scores"
            )
    return _very_long(subject, scorer, int((scores == -torch.inf).all(dim=1).sum()))


def _permutation_error(scorer: Scorer, query: Tensor, keys: Tensor) -> float:
    """The error between scores of permuted keys and permuted scores."""
    order = torch.randperm(keys.shape[1], generator=torch.Generator().manual_seed(2))
    return max_error(compute_scores(scorer, query, keys[:, order]), compute_scores(scorer, query, keys)[:, :, order])


def _constant_from(scores: Tensor, others: Tensor) -> int | None:
    """The position from which on finite scores equal those of other queries and keys; None if there is none.

    At least the last ten positions must be equal: a few may be by chance, such as scores clipped at 0.
    """
    is_equal = ((scores == others) & scores.isfinite()).flatten(0, 1).all(dim=0)
    if is_equal.all() or not is_equal[-10:].all():
        return None
    return int((~is_equal).nonzero()[-1]) + 1


def _very_long(subject: Subject, scorer: Scorer, never_read: int) -> Finding:
    query, keys = subject.sample(sentences=1, queries=1, positions=VERY_LONG)
    try:
        scores = compute_scores(scorer, query, keys)
    except (IndexError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).splitlines()[:1])
        return warning(f"{VERY_LONG} positions cannot be scored: {type(error).__name__}: {reason}")
    others = subject.sample(sentences=1, queries=1, positions=VERY_LONG, seed=1)
    constant_from = _constant_from(scores, compute_scores(scorer, *others))
    if constant_from is not None:
        return warning(f"from position {constant_from} on, scores depend neither on the query nor on the keys")
    if never_read:
        return ok(f"{LONG} positions and {LONG} steps are scored; {never_read} positions are never read (-inf)")
    return ok(f"{LONG} positions and {LONG} steps are scored as 5 are")


@torch.no_grad()
def reads_query(subject: Subject) -> Finding:
    """The weights depend on the query."""
    moved = _moved(subject, other_query=True)
    if is_close(moved):
        return warning("the weights do not depend on the query: all steps attend to the same positions")
    return ok(f"another query moves {moved:.0%} of the weight to other positions")


@torch.no_grad()
def reads_keys(subject: Subject) -> Finding:
    """The weights depend on the keys."""
    moved = _moved(subject, other_query=False)
    if is_close(moved):
        return note("the weights do not depend on the keys, but only on positions")
    return ok(f"other keys move {moved:.0%} of the weight to other positions")


def _moved(subject: Subject, other_query: bool) -> float:
    """The mean total variation distance between rows of weights: ½ Σ_j |a_j - b_j|."""
    attention = subject.context()
    query, keys = subject.sample()
    others = subject.sample(seed=1)
    changed = (others[0], keys) if other_query else (query, others[1])
    gap = compute_weights(attention, *changed) - compute_weights(attention, query, keys)
    return gap.abs().sum(dim=-1).mean().item() / 2


@torch.no_grad()
def features(subject: Subject) -> Finding:
    """Scores depend on all features of a query and of a key, or on none of them, which other laws report."""
    scorer = subject.fresh()
    inputs = subject.inputs()
    expected = subject.run(scorer, inputs)
    ignored = {}
    for name, tensor in inputs.items():
        moved = []
        for feature in range(tensor.shape[-1]):
            changed = tensor.clone()
            changed[..., feature] = subject.inputs(seed=1)[name][..., feature]
            moved.append(max_error(subject.run(scorer, inputs | {name: changed}), expected) > 1e-7)
        if any(moved) and not all(moved):
            ignored[name] = [feature for feature, moves in enumerate(moved) if not moves]
    if ignored:
        found = "; ".join(
            f"{len(each)} of {inputs[name].shape[-1]} features of {name}, the first of which is {each[0]}"
            for name, each in ignored.items()
        )
        return wrong(f"no score depends on {found}")
    return ok("scores depend on all features of the query and the keys that they read")
