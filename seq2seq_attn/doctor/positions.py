"""Laws of shapes and positions: every score of a scorer belongs to one sentence, one query and one key."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import Attention, History, Scorer, each_tensor
from seq2seq_attn.doctor.subject import (
    TOLERANCE,
    Finding,
    Subject,
    apart,
    is_same,
    note,
    ok,
    scores_of,
    warning,
    weights_of,
    wrong,
)

_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, False, False, False]])
LONG, VERY_LONG = 200, 1100  # positions, and steps


def shapes(subject: Subject) -> Finding:
    """prepare gives (B, S, ...), scores are (B, T, S), and numbers."""
    scorer = subject.fresh()
    query, keys = subject.sample()
    sentences, queries, positions = len(query), query.shape[1], keys.shape[1]
    prepared = scorer.prepare(keys.clone())
    if not (isinstance(prepared, Tensor) and prepared.shape[:2] == keys.shape[:2]):
        return wrong(f"prepare gives {shape_of(prepared)}, wanted is (B, S, ...) = ({sentences}, {positions}, ...)")
    scores = scorer(query.clone(), prepared)
    wanted = (sentences, queries, positions)
    if not (isinstance(scores, Tensor) and tuple(scores.shape) == wanted and scores.dtype == keys.dtype):
        return wrong(f"scores are {shape_of(scores)}, wanted is (B, T, S) = {wanted} of {keys.dtype}")
    if scores.isnan().any():
        return wrong("scores of random queries and keys of variance 1 are NaN")
    return ok(f"keys {tuple(keys.shape)} prepared to {tuple(prepared.shape)}; (B, T, S) scores {wanted}")


def sizes_of_one(subject: Subject) -> Finding:
    """No axis disappears where there is one sentence, one query or one position: `squeeze` is how it happens."""
    scorer = subject.fresh()
    for sizes in ((1, 3, 5), (2, 1, 5), (2, 3, 1), (1, 1, 1)):
        scores = scores_of(scorer, *subject.sample(*sizes))
        if tuple(scores.shape) != sizes:
            return wrong(f"scores are {shape_of(scores)} where (B, T, S) = {sizes}")
    return ok("one sentence, one query, one position: every axis stays")


def shape_of(result: object) -> str:
    return f"{tuple(result.shape)} of {result.dtype}" if isinstance(result, Tensor) else f"a {type(result).__name__}"


@torch.no_grad()
def padding(subject: Subject) -> Finding:
    """Weights on padding are exactly 0, and the others sum to 1."""
    weights = weights_of(subject.context(), *subject.sample(), _IS_TOKEN)
    on_padding = weights[~_IS_TOKEN[:, None].expand_as(weights)]
    if not (on_padding == 0).all():
        return wrong(f"padding gets weights up to {on_padding.abs().max():.2g}")
    off = (weights.sum(dim=-1) - 1).abs().max().item()
    if not off <= 1e-5:
        return wrong(f"weights of the tokens miss a sum of 1 by {off:.2g}")
    return ok(f"{on_padding.numel()} weights on padding are exactly 0, rows sum to 1 within {off:.1g}")


@torch.no_grad()
def more_padding(subject: Subject) -> Finding:
    """More padding, whatever stands on it, changes nothing."""
    scorer = subject.fresh()
    attention = Attention(scorer)
    query, keys = subject.sample()
    positions = keys.shape[1]
    shorter = weights_of(attention, query, keys, _IS_TOKEN)
    noise = 100 * subject.sample(positions=positions + 3, seed=1)[1]
    is_token = F.pad(_IS_TOKEN, (0, 3))
    longer_keys = torch.where(is_token[:, :, None], F.pad(keys, (0, 0, 0, 3)), noise)
    longer = weights_of(attention, query, longer_keys, is_token)
    distance = apart(longer[:, :, :positions], shorter)
    if not is_same(distance):
        return wrong(f"weights of the tokens move by {distance:.2g} with 3 positions of padding more")
    same = _IS_TOKEN[:, None].expand_as(shorter)
    raw = apart(scores_of(scorer, query, longer_keys)[:, :, :positions][same], scores_of(scorer, query, keys)[same])
    if not is_same(raw):
        return warning(f"scores shift by {raw:.2g} with padding, alike in a row: softmax does not see it, sigmoid does")
    return ok(f"3 positions of padding more, with other numbers on them: weights move by {distance:.1g}")


@torch.no_grad()
def batch(subject: Subject) -> Finding:
    """A sentence is read alike in another order of the batch, and alone."""
    attention = subject.context()
    query, keys = subject.sample(sentences=4)
    weights = weights_of(attention, query, keys)
    order = torch.tensor([2, 0, 3, 1])
    permuted = apart(weights_of(attention, query[order], keys[order]), weights[order])
    if not is_same(permuted):
        return wrong(f"weights move by {permuted:.2g} with the order of the sentences in a batch")
    alone = apart(weights_of(attention, query[:1], keys[:1]), weights[:1])
    if not is_same(alone):
        return wrong(f"weights of a sentence move by {alone:.2g} when it is alone: sentences of a batch are mixed")
    return ok(f"weights move by {permuted:.1g} in another order of the batch, by {alone:.1g} alone")


@torch.no_grad()
def positions(subject: Subject) -> Finding:
    """Score j belongs to key j: with that key it moves, with another it does not."""
    scorer = subject.fresh()
    query, keys = subject.sample(sentences=1, queries=4)
    other = subject.sample(sentences=1, queries=4, seed=1)[1]
    expected = scores_of(scorer, query, keys)
    moves = []
    for position in range(keys.shape[1]):
        changed = keys.clone()
        changed[:, position] = other[:, position]
        moves.append((scores_of(scorer, query, changed) - expected).nan_to_num().abs()[0])
    by_query = torch.stack(moves)  # (S, T, S): how far key i moves score j of each query
    by_key = by_query.amax(dim=1)
    own = by_key.diagonal()
    of_others = (by_key - own.diag()).amax().item()
    if by_key.amax() <= TOLERANCE:
        return ok("no score depends on any key")
    if own.amin() <= TOLERANCE < of_others:
        lost = int(own.argmin())
        found = int(by_key[lost].argmax())
        return wrong(f"key {lost} leaves score {lost} alone and moves score {found} by {by_key[lost, found]:.2g}")
    own_by_query = by_query.diagonal(dim1=0, dim2=2)
    still = int((own_by_query <= TOLERANCE).sum())
    if still:
        return warning(f"{still} of {own_by_query.numel()} scores do not move with their keys: what cuts them off?")
    if of_others > TOLERANCE:
        return note(f"a score also depends on other keys, which move it by up to {of_others:.2g}")
    return ok(f"key j moves score j, by {own.amin():.2g} or more, and no other")


@torch.no_grad()
def queries(subject: Subject) -> Finding:
    """T queries at once get what T steps get, one after another; how many there are changes the score of none.

    So, too, where T or B are S, or the size of a query or a key: axes that are as long as each other can be swapped
    without an error.
    """
    scorer = subject.fresh()
    distance = 0.0
    for sizes in _equal_sizes(subject):
        query, keys = subject.sample(*sizes)
        at_once = scores_of(scorer, query, keys)
        rows = [
            [scores_of(scorer, query[b : b + 1, t : t + 1], keys[b : b + 1]) for t in range(sizes[1])]
            for b in range(sizes[0])
        ]
        singles = torch.cat([torch.cat(row, dim=1) for row in rows])
        distance = max(distance, apart(at_once, singles))
        if not is_same(distance):
            moved = f"scores of {sizes[1]} queries at once move by {distance:.2g} from those of one by one"
            return wrong(f"{moved}, where (B, T, S) = {sizes}")
    attention = Attention(scorer)
    for positions in (subject.query_size, subject.key_size):
        query, keys = subject.sample(positions=positions + 1)
        is_token = (torch.arange(positions + 1) < positions).expand(len(keys), -1)
        padded = weights_of(attention, query, keys, is_token)[:, :, :positions]
        gap = apart(weights_of(attention, query, keys[:, :positions]), padded)
        if not is_same(gap):
            return wrong(f"weights of {positions} positions, as many as there are features, are {gap:.2g} away")
    query, keys = subject.sample()
    source = attention.prepare(keys.clone())
    steps, history = [], attention.start(source)
    for one in torch.split(query, 1, dim=1):
        _, weights, history = attention(one.clone(), source, history)
        steps.append(weights)
    distance = max(distance, apart(attention(query.clone(), source)[1], torch.cat(steps, dim=1)))
    if not is_same(distance):
        return wrong(f"weights of {query.shape[1]} steps in one call move by {distance:.2g} from those of one by one")
    return ok(f"{query.shape[1]} queries at once and one by one differ by {distance:.1g}, also where T = S")


def _equal_sizes(subject: Subject) -> list[tuple[int, int, int]]:
    """(B, T, S), the first pairwise different, in each of the others some alike."""
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
    """Hypotheses side by side do not meet, and no history is changed in place."""
    scorer = subject.fresh()
    if not scorer.needs_history:
        return ok("no history is needed")
    query, keys = subject.sample()
    together, changed = _three_steps(scorer, query, keys)
    if not is_same(changed):
        return wrong(f"a step changes the history before it in place, by {changed:.2g}")
    alone = torch.cat([_three_steps(scorer, one, keys)[0] for one in torch.split(query, 1, dim=1)], dim=1)
    distance = apart(together, alone)
    if not is_same(distance):
        return wrong(f"scores of {query.shape[1]} hypotheses side by side move by {distance:.2g} from those alone")
    return ok(f"{query.shape[1]} hypotheses side by side and alone differ by {distance:.1g} after 3 steps")


def _three_steps(scorer: Scorer, query: Tensor, keys: Tensor) -> tuple[Tensor, float]:
    """The scores of each query as a hypothesis in its third step, and how far a history was moved on the way."""
    prepared = scorer.prepare(keys.clone())
    history = each_tensor(lambda one: one.expand(-1, query.shape[1], *one.shape[2:]).clone(), scorer.start(prepared))
    changed = 0.0
    for scale in (1.0, -1.0):
        before = each_tensor(torch.clone, history)
        weights = scorer.after(history, scale * query, prepared).softmax(dim=-1)
        following = scorer.advance(history, scale * query, prepared, weights)
        changed = max([changed, *map(apart, history_tensors(history), history_tensors(before))])
        history = following
    return scorer.after(history, query, prepared), changed


def history_tensors(history: History) -> list[Tensor]:
    return [tensor for part in history for tensor in history_tensors(part)] if isinstance(history, tuple) else [history]


@torch.no_grad()
def long_source(subject: Subject) -> Finding:
    """A source of 200 positions, and 200 steps, are scored as short ones are.

    No position loses its query and key; a score that is -inf says openly that its position is never read.
    """
    scorer = subject.fresh()
    query, keys = subject.sample(sentences=1, queries=2, positions=LONG)
    scores = scores_of(scorer, query, keys)
    if tuple(scores.shape) != (1, 2, LONG):
        return wrong(f"scores are {shape_of(scores)} where (B, T, S) = (1, 2, {LONG})")
    if scores.isnan().any():
        return wrong(f"scores of {LONG} positions are NaN")
    others = subject.sample(sentences=1, queries=2, positions=LONG, seed=1)
    dead = _dead_from(scores, scores_of(scorer, *others))
    if dead is not None:
        return wrong(f"from position {dead} on, scores depend neither on the query nor on the keys")
    attention = Attention(scorer)
    is_token = torch.arange(LONG) < torch.tensor([[5]])
    distance = apart(weights_of(attention, query, keys, is_token)[:, :, :5], weights_of(attention, query, keys[:, :5]))
    if not is_same(distance):
        return wrong(f"weights of 5 tokens move by {distance:.2g} with {LONG - 5} positions of padding more")
    steps = subject.sample(sentences=1, queries=LONG)
    over_steps = subject.run(scorer, {"query": steps[0], "keys": steps[1]})
    if tuple(over_steps.shape) != (1, LONG, 5) or over_steps.isnan().any():
        return wrong(f"scores of {LONG} steps are {shape_of(over_steps)}, or NaN")
    if not scorer.needs_history:
        distance = apart(over_steps[:, -1:], scores_of(scorer, steps[0][:, -1:], steps[1]))
        if not is_same(distance):
            return wrong(f"the score of query {LONG} is {distance:.2g} away from that of this query alone")
    distance = _reordering(scorer, *subject.sample(sentences=1, positions=10))
    if is_same(distance):  # positions play no part; then they play none in a long source either
        distance = _reordering(scorer, query, keys)
        if not is_same(distance):
            return wrong(
                f"scores of {LONG} reordered keys are {distance:.2g} away; those of 10 are reordered with them"
            )
    return _very_long(subject, scorer, int((scores == -torch.inf).all(dim=1).sum()))


def _reordering(scorer: Scorer, query: Tensor, keys: Tensor) -> float:
    """How far the scores of keys in another order are from the scores, put into that order."""
    order = torch.randperm(keys.shape[1], generator=torch.Generator().manual_seed(2))
    return apart(scores_of(scorer, query, keys[:, order]), scores_of(scorer, query, keys)[:, :, order])


def _dead_from(scores: Tensor, others: Tensor) -> int | None:
    """From where on all scores are finite and those of other queries and keys, too; None where no end is so.

    Single scores may be, where they are cut off at 0; not the last ten.
    """
    still = ((scores == others) & scores.isfinite()).flatten(0, 1).all(dim=0)
    if still.all() or not still[-10:].all():
        return None
    return int((~still).nonzero()[-1]) + 1


def _very_long(subject: Subject, scorer: Scorer, never_read: int) -> Finding:
    query, keys = subject.sample(sentences=1, queries=1, positions=VERY_LONG)
    try:
        scores = scores_of(scorer, query, keys)
    except (IndexError, RuntimeError, ValueError) as error:
        return warning(f"{VERY_LONG} positions cannot be scored: {type(error).__name__}: {str(error).splitlines()[0]}")
    others = subject.sample(sentences=1, queries=1, positions=VERY_LONG, seed=1)
    dead = _dead_from(scores, scores_of(scorer, *others))
    if dead is not None:
        return warning(f"from position {dead} on, scores depend neither on the query nor on the keys")
    if never_read:
        return ok(f"{LONG} positions and {LONG} steps are scored; {never_read} of the positions -inf: never read")
    return ok(f"{LONG} positions and {LONG} steps are scored as 5 are")


@torch.no_grad()
def reads_query(subject: Subject) -> Finding:
    """Another query reads other positions."""
    moved = _moved(subject, other_query=True)
    if is_same(moved):
        return warning("the weights do not depend on the query: every step reads the same")
    return ok(f"another query moves {moved:.0%} of the weight")


@torch.no_grad()
def reads_keys(subject: Subject) -> Finding:
    """Other keys draw the weights elsewhere."""
    moved = _moved(subject, other_query=False)
    if is_same(moved):
        return note("the weights do not depend on the keys: what stands at a position plays no part")
    return ok(f"other keys move {moved:.0%} of the weight")


def _moved(subject: Subject, other_query: bool) -> float:
    """The share of a row's weight that goes elsewhere, on average: half of Σ_j |a_j - b_j|."""
    attention = subject.context()
    query, keys = subject.sample()
    others = subject.sample(seed=1)
    changed = (others[0], keys) if other_query else (query, others[1])
    gap = weights_of(attention, *changed) - weights_of(attention, query, keys)
    return gap.abs().sum(dim=-1).mean().item() / 2


@torch.no_grad()
def features(subject: Subject) -> Finding:
    """Every number of a query moves scores, and every number of a key; or none does, which is a law of its own."""
    scorer = subject.fresh()
    inputs = subject.inputs()
    expected = subject.run(scorer, inputs)
    ignored = {}
    for name, tensor in inputs.items():
        moved = []
        for feature in range(tensor.shape[-1]):
            changed = tensor.clone()
            changed[..., feature] = subject.inputs(seed=1)[name][..., feature]
            moved.append(apart(subject.run(scorer, inputs | {name: changed}), expected) > 1e-7)
        if any(moved) and not all(moved):
            ignored[name] = [feature for feature, moves in enumerate(moved) if not moves]
    if ignored:
        said = "; ".join(
            f"{len(each)} of the {inputs[name].shape[-1]} numbers of {name} play no part, the first is {each[0]}"
            for name, each in ignored.items()
        )
        return wrong(f"{said}: no score depends on them")
    return ok("every number of query and keys that are read moves scores")
