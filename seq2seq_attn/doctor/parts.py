"""Laws of normalisers, windows and contexts, beside those that all parts share (`calls.py`, `numerics.py`)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import each_tensor
from seq2seq_attn.doctor.positions import LONG, history_tensors, shape_of
from seq2seq_attn.doctor.subject import Finding, Subject, apart, is_same, note, ok, warning, weights_of, wrong

_SIZES = ((2, 3, 5), (1, 3, 5), (2, 1, 5), (2, 3, 1), (1, 1, 1), (4, 4, 4), (1, 1, LONG), (1, LONG, 5))
_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, False, False, False]])


def shapes(subject: Subject) -> Finding:
    """Of every (B, T, S) comes what the contract says, in the precision of what went in, and numbers."""
    part = subject.fresh()
    for sizes in _SIZES:
        inputs = subject.inputs(*sizes)
        if subject.kind == "context":
            width = getattr(part, "value_size", None)
            if not isinstance(width, int):
                return wrong(f"value_size is {width!r}; wanted is the width of what a decoder sees")
            source = part.prepare(inputs["keys"])
            results = dict(zip(("contexts", "weights"), part(inputs["query"], source), strict=True))
            wanted = {"contexts": (*sizes[:2], width), "weights": sizes}
            if source.sentences != sizes[0]:
                return wrong(f"the source of {sizes[0]} sentences has sentences = {source.sentences}")
        elif subject.kind == "window":
            view = part(**inputs)
            results = {name: each for name, each in view._asdict().items() if each is not None}
            wanted = dict.fromkeys(results, sizes)
            if view.is_open is not None and view.is_open.dtype != torch.bool:
                return wrong(f"is_open is {shape_of(view.is_open)}, wanted is bool: True where a token may be read")
        else:
            results, wanted = {"weights": subject.call(part, inputs)}, {"weights": sizes}
        for name, result in results.items():
            if not isinstance(result, Tensor) or tuple(result.shape) != wanted[name]:
                return wrong(f"{name} are {shape_of(result)}, wanted is {wanted[name]} where (B, T, S) = {sizes}")
            if result.isnan().any():
                return wrong(f"{name} are NaN where (B, T, S) = {sizes}")
            if result.dtype not in (torch.float32, torch.bool):
                return wrong(f"{name} are {shape_of(result)}; wanted is the precision of the inputs")
    return ok(f"shapes are those of the contract for {len(_SIZES)} choices of (B, T, S), up to 200 positions or steps")


@torch.no_grad()
def rows(subject: Subject) -> Finding:
    """Weights are exactly 0 on padding and on -inf, and sum to 1 unless the normaliser declares that they do not."""
    normaliser = subject.fresh()
    sums = normaliser.sums_to_one
    for training in (False, True):
        normaliser.train(training)
        mode = "training" if training else "eval"
        for name, scores in _score_rows().items():
            for is_token in (None, _IS_TOKEN[:, None]):
                weights = normaliser(scores.clone(), is_token)
                closed = scores == -torch.inf
                closed = closed if is_token is None else closed | ~is_token
                says = f"in {mode} mode, {name}"
                if not weights.isfinite().all():
                    return wrong(f"weights are NaN or infinite, {says}")
                if weights[closed].any():
                    return wrong(f"padding, or a score of -inf, gets {weights[closed].abs().max():.2g}, {says}")
                if weights.min() < 0:
                    return wrong(f"a weight is {weights.min():.2g}, below 0, {says}")
                off = (weights.sum(dim=-1) - 1).abs().max().item()
                if sums and not off <= 1e-4:
                    return wrong(f"rows miss a sum of 1 by {off:.2g}, {says}; declare sums_to_one = False if so meant")
    return ok(f"exactly 0 on padding and on -inf{', rows sum to 1' if sums else ''}, in both modes")


def _score_rows() -> dict[str, Tensor]:
    """Scores (2, 3, 5) of which one on a token is finite, by what is special about them."""
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 5, generator=draw)
    excluded = scores.clone()
    excluded[:, :, 1:] = -torch.inf
    mixed = scores.clone()
    mixed[:, 1, 1] = mixed[:, 2, 3] = -torch.inf
    return {
        "scores around 1": scores,
        "scores around 1e4": 1e4 * scores,
        "scores around 1e30": 1e30 * scores,
        "scores far below 0": scores - 1e4,
        "equal scores": torch.zeros_like(scores),
        "with some scores of -inf": mixed,
        "with one finite score": excluded,
    }


@torch.no_grad()
def more_padding(subject: Subject) -> Finding:
    """More padding, whatever stands on it, changes nothing of what is read, on tokens or in sum."""
    if subject.kind == "normaliser":
        return _more_padding_of_scores(subject)
    if subject.kind == "window":
        return _more_padding_of_window(subject)
    context = subject.fresh()
    query, keys = subject.sample()
    positions = keys.shape[1]
    shorter = context(query, context.prepare(keys, is_token=_IS_TOKEN))
    is_token = F.pad(_IS_TOKEN, (0, 3))
    noise = 100 * subject.sample(positions=positions + 3, seed=1)[1]
    longer_keys = torch.where(is_token[:, :, None], F.pad(keys, (0, 0, 0, 3)), noise)
    longer = context(query, context.prepare(longer_keys, is_token=is_token))
    on_padding = longer[1][~is_token[:, None].expand_as(longer[1])]
    if on_padding.any():
        return wrong(f"padding gets weights up to {on_padding.abs().max():.2g}")
    distance = max(apart(longer[0], shorter[0]), apart(longer[1][:, :, :positions], shorter[1]))
    if not is_same(distance):
        return wrong(f"contexts or weights move by {distance:.2g} with other padding, or more of it")
    try:
        context.prepare(keys, is_token=torch.zeros_like(_IS_TOKEN))
    except ValueError:
        return ok(
            f"padding gets exactly 0; with more of it contexts move by {distance:.1g}; no token at all is refused"
        )
    return warning("a sentence without a token is not refused; `prepare` should raise ValueError")


def _more_padding_of_scores(subject: Subject) -> Finding:
    part = subject.fresh()
    scores = subject.inputs()["scores"]
    distance = 0.0
    for fill in (0.0, 50.0, -torch.inf):
        longer = torch.where(F.pad(_IS_TOKEN, (0, 3))[:, None], F.pad(scores, (0, 3)), fill)
        weights = part(longer, F.pad(_IS_TOKEN, (0, 3))[:, None])
        distance = max(distance, apart(weights[..., :5], part(scores, _IS_TOKEN[:, None])))
    if not is_same(distance):
        return wrong(f"weights of the tokens move by {distance:.2g} with 3 positions of padding more")
    return ok(f"3 positions of padding more, with other scores on them: weights move by {distance:.1g}")


def _more_padding_of_window(subject: Subject) -> Finding:
    part = subject.fresh()
    query, _, steps = subject.inputs(positions=5).values()
    left = {}
    for more in (0, 3):
        is_token = F.pad(_IS_TOKEN, (0, more))[:, None]
        left[more] = subject.run(part, {"query": query, "is_token": is_token, "steps": steps})
        if left[more][~is_token.expand_as(left[more])].any():
            return wrong("padding is open: a window opens tokens alone; combine it with `is_token`")
    distance = apart(left[3][..., :5], left[0])
    if not is_same(distance):
        return wrong(f"what is left of the tokens moves by {distance:.2g} with 3 positions of padding more")
    return ok(f"padding is closed; 3 positions of it more move what is left by {distance:.1g}")


@torch.no_grad()
def openings(subject: Subject) -> Finding:
    """Of every row a window leaves a token, however many steps were taken and whatever the query is.

    Its factors are finite and not below 0; the number of steps matters only where it declares that it does.
    """
    window = subject.fresh()
    seen = []
    for steps_taken in (0, 1, 4, LONG):
        for size in (0.0, 1.0, 100.0, 1e4):
            query, is_token, _ = subject.inputs().values()
            is_token = is_token.clone()
            is_token[1, :, 2:] = False
            steps = torch.full(query.shape[:2], steps_taken)
            view = window(size * query, is_token, steps)
            where = f"after {steps_taken} steps, with queries around {size:g}"
            if view.is_open is not None and not (view.is_open & is_token).any(dim=-1).all():
                return wrong(f"a row has nothing open {where}")
            if view.factor is not None and not (view.factor.isfinite().all() and view.factor.min() >= 0):
                return wrong(f"a factor is NaN, infinite or below 0 {where}")
            if size == 1:
                seen.append(subject.call(window, {"query": query, "is_token": is_token, "steps": steps}))
    moved = max(apart(each, seen[0]) for each in seen)
    if not is_same(moved) and not window.needs_steps:
        return wrong(f"steps move what is left by {moved:.2g}, and needs_steps is False")
    if is_same(moved) and window.needs_steps:
        return note("needs_steps is True, and no step moved anything")
    return ok(f"every row has a token open after up to {LONG} steps")


@torch.no_grad()
def batch(subject: Subject) -> Finding:
    """A sentence gets the same in another order of the batch, and alone; a query the same beside others and alone."""
    part, inputs = subject.fresh(), subject.inputs(sentences=4)
    expected = subject.run(part, inputs)
    order = torch.tensor([2, 0, 3, 1])
    permuted = apart(subject.run(part, {name: each[order] for name, each in inputs.items()}), expected[order])
    if not is_same(permuted):
        return wrong(f"results move by {permuted:.2g} with the order of the sentences in a batch")
    alone = apart(subject.run(part, {name: each[:1] for name, each in inputs.items()}), expected[:1])
    if not is_same(alone):
        return wrong(f"results of a sentence move by {alone:.2g} when it is alone: sentences of a batch are mixed")
    if not getattr(part, "needs_history", False):
        for sizes in ((2, 3, 5), (4, 4, 4), (2, 5, 5)):
            inputs = subject.inputs(*sizes)
            at_once = subject.run(part, inputs)
            one = {
                name: each[:, -1:] if name != "keys" and name != "is_token" else each for name, each in inputs.items()
            }
            distance = apart(at_once[:, -1:], subject.run(part, one))
            if not is_same(distance):
                return wrong(f"a query gets {distance:.2g} else beside others than alone, where (B, T, S) = {sizes}")
    return ok(f"results move by {permuted:.1g} in another order of the batch, by {alone:.1g} alone")


@torch.no_grad()
def permutation(subject: Subject) -> Finding:
    """Reordered scores get reordered weights, unless the normaliser depends on places.

    One that needs a history may; any other declares `permutation_equivariant = False`.
    """
    part = subject.fresh()
    if not getattr(part, "permutation_equivariant", not part.needs_history):
        return ok("not claimed: weights depend on places")
    order = torch.tensor([3, 0, 4, 1, 2])
    scores = subject.inputs()["scores"]
    distance = apart(part(scores[..., order]), part(scores)[..., order])
    if not is_same(distance):
        return wrong(
            f"weights move by {distance:.2g} with the places; declare permutation_equivariant = False if meant"
        )
    return ok(f"weights of reordered scores are {distance:.1g} away from reordered weights")


@torch.no_grad()
def history(subject: Subject) -> Finding:
    """Hypotheses side by side do not meet, no history is changed in place, and what needs one says so."""
    part = subject.fresh()
    if subject.kind == "window":
        return ok("a window has no history but the number of steps")
    together, changed = _three_steps(subject, part)
    if not is_same(changed):
        return wrong(f"a step changes the history before it in place, by {changed:.2g}")
    alone = torch.cat([_three_steps(subject, part, only=k)[0] for k in range(3)], dim=1)
    distance = apart(together, alone)
    if not is_same(distance):
        return wrong(f"results of 3 hypotheses side by side move by {distance:.2g} from those alone")
    fresh = torch.cat([_three_steps(subject, part, only=k, before=False)[0] for k in range(3)], dim=1)
    depends = not is_same(apart(together, fresh))
    if depends and not part.needs_history:
        return wrong("a step depends on those before it, and needs_history is False")
    return ok(f"hypotheses side by side and alone differ by {distance:.1g} after 3 steps")


def _three_steps(subject: Subject, part: Any, only: int | None = None, before: bool = True) -> tuple[Tensor, float]:
    """What 3 hypotheses get in their third step, or one of them alone, and how far a history was moved on the way.

    before=False leaves out the two steps before.
    """
    inputs = subject.inputs()
    asked = inputs["scores" if subject.kind == "normaliser" else "query"]
    asked = asked if only is None else asked[:, only : only + 1]
    source = None if subject.kind == "normaliser" else part.prepare(inputs["keys"].clone())
    first = part.start(asked[:, :1] if source is None else source)
    state = each_tensor(lambda one: one.expand(-1, asked.shape[1], *one.shape[2:]).clone(), first)
    changed = 0.0
    results = asked
    for scale in (1.0, -1.0, 1.0) if before else (1.0,):
        kept = each_tensor(torch.clone, state)
        if source is None:
            results = part.after(state, scale * asked)
            following = part.advance(state, results)
        else:
            contexts, weights, following = part(scale * asked, source, state)
            results = torch.cat((contexts, weights), dim=-1)
        changed = max([changed, *map(apart, history_tensors(state), history_tensors(kept))])
        state = following
    return results, changed


@torch.no_grad()
def steps(subject: Subject) -> Finding:
    """T queries of a context in one call see what T steps see, one after another."""
    context = subject.fresh()
    distance = 0.0
    for sizes in ((2, 3, 5), (2, 5, 5), (1, LONG, 5)):
        query, keys = subject.sample(*sizes)
        source = context.prepare(keys)
        at_once = context(query, source)
        state, seen = context.start(source), []
        for one in torch.split(query, 1, dim=1):
            contexts, weights, state = context(one, source, state)
            seen.append((contexts, weights))
        one_by_one = [torch.cat(part, dim=1) for part in zip(*seen, strict=True)]
        distance = max([distance, *map(apart, at_once, one_by_one)])
        if not is_same(distance):
            return wrong(f"{sizes[1]} steps in one call move by {distance:.2g} from those of one by one")
    return ok(f"steps at once and one by one differ by {distance:.1g}")


@torch.no_grad()
def select(subject: Subject) -> Finding:
    """`source.select(rows)` is read as the same sentences are, in another order, repeated or left out."""
    context = subject.fresh()
    query, keys = subject.sample(sentences=4)
    is_token = torch.arange(keys.shape[1]) < torch.tensor([[5], [3], [2], [4]])
    source = context.prepare(keys, is_token=is_token)
    expected = context(query, source)
    for chosen in ([2, 0, 3, 1], [1], [3, 3, 0]):
        order = torch.tensor(chosen)
        selected = source.select(order)
        if selected.sentences != len(chosen):
            return wrong(f"of {chosen} sentences selected the source says there are {selected.sentences}")
        distance = max(map(apart, context(query[order], selected), [each[order] for each in expected]))
        if not is_same(distance):
            return wrong(f"rows {chosen} of a source are read {distance:.2g} away from those sentences")
    if not is_same(max(map(apart, context(query, source), expected))):
        return wrong("select changes the source that it takes the rows from")
    return ok("rows selected, repeated and reordered are read as before")


@torch.no_grad()
def reads_query(subject: Subject) -> Finding:
    """What a context sees moves with the query exactly where it declares `reads_query`."""
    context = subject.fresh()
    query, keys = subject.sample()
    source = context.prepare(keys)
    moved = max(map(apart, context(query, source), context(subject.sample(seed=1)[0], source)))
    if not is_same(moved) and not context.reads_query:
        return wrong(f"the query moves what is seen by {moved:.2g}, and reads_query is False")
    if is_same(moved) and context.reads_query:
        return warning("reads_query is True, and the query moves nothing")
    return ok(f"reads_query is {context.reads_query}, and another query moves what is seen by {moved:.1g}")


@torch.no_grad()
def inside_attention(subject: Subject) -> Finding:
    """`Attention` with the part in it gives padding exactly 0, and steps at once what it gives one by one."""
    attention = subject.context()
    query, keys = subject.sample()
    weights = weights_of(attention, query, keys, _IS_TOKEN)
    on_padding = weights[~_IS_TOKEN[:, None].expand_as(weights)]
    if not (on_padding == 0).all():
        return wrong(f"padding gets weights up to {on_padding.abs().max():.2g}")
    source = attention.prepare(keys, is_token=_IS_TOKEN)
    state, seen = attention.start(source), []
    for one in torch.split(query, 1, dim=1):
        _, row, state = attention(one, source, state)
        seen.append(row)
    distance = apart(torch.cat(seen, dim=1), weights)
    if not is_same(distance):
        return wrong(f"weights of 3 steps in one call move by {distance:.2g} from those of one by one")
    return ok(f"padding gets exactly 0; steps at once and one by one differ by {distance:.1g}")
