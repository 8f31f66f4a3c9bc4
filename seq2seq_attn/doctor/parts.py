"""Laws of normalizers, windows and contexts; `calls.py` and `numerics.py` have those that all parts share."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2seq_attn.attention import each_tensor
from seq2seq_attn.doctor.positions import LONG, describe_shape, history_tensors
from seq2seq_attn.doctor.subject import Finding, Subject, compute_weights, is_close, max_error, note, ok, warning, wrong

_SIZES = ((2, 3, 5), (1, 3, 5), (2, 1, 5), (2, 3, 1), (1, 1, 1), (4, 4, 4), (1, 1, LONG), (1, LONG, 5))
_IS_TOKEN = torch.tensor([[True, True, True, True, True], [True, True, False, False, False]])


def shapes(subject: Subject) -> Finding:
    """Results have the shapes of the contract and the dtype of the inputs, without NaN."""
    part = subject.fresh()
    for sizes in _SIZES:
        inputs = subject.inputs(*sizes)
        if subject.kind == "context":
            width = getattr(part, "value_size", None)
            if not isinstance(width, int):
                return wrong(f"value_size is {width!r}, expected the size of a context as an int")
            source = part.prepare(inputs["keys"])
            results = dict(zip(("contexts", "weights"), part(inputs["query"], source), strict=True))
            expected = {"contexts": (*sizes[:2], width), "weights": sizes}
            if source.sentences != sizes[0]:
                return wrong(f"a source of {sizes[0]} sentences has sentences = {source.sentences}")
        elif subject.kind == "window":
            view = part(**inputs)
            results = {name: each for name, each in view._asdict().items() if each is not None}
            expected = dict.fromkeys(results, sizes)
            if view.is_open is not None and view.is_open.dtype != torch.bool:
                return wrong(
                    f"is_open is {describe_shape(view.is_open)}, expected bool: True where a token may be read"
                )
        else:
            results, expected = {"weights": subject.call(part, inputs)}, {"weights": sizes}
        for name, result in results.items():
            if not isinstance(result, Tensor) or tuple(result.shape) != expected[name]:
                shape = expected[name]
                return wrong(f"{name} are {describe_shape(result)}, expected {shape} for (B, T, S) = {sizes}")
            if result.isnan().any():
                return wrong(f"{name} are NaN for (B, T, S) = {sizes}")
            if result.dtype not in (torch.float32, torch.bool):
                return wrong(f"{name} are {describe_shape(result)}, expected the dtype of the inputs")
    return ok(f"shapes are as expected for {len(_SIZES)} choices of (B, T, S), up to {LONG} positions or steps")


@torch.no_grad()
def rows(subject: Subject) -> Finding:
    """Weights are 0 on padding and for scores of -inf, and sum to 1 unless `sums_to_one` is False."""
    normalizer = subject.fresh()
    sums = normalizer.sums_to_one
    for training in (False, True):
        normalizer.train(training)
        mode = "training" if training else "eval"
        for name, scores in _score_rows().items():
            for is_token in (None, _IS_TOKEN[:, None]):
                weights = normalizer(scores.clone(), is_token)
                masked = scores == -torch.inf
                masked = masked if is_token is None else masked | ~is_token
                where = f"in {mode} mode, with {name}"
                if not weights.isfinite().all():
                    return wrong(f"weights are NaN or infinite {where}")
                if weights[masked].any():
                    return wrong(f"padding, or a score of -inf, gets {weights[masked].abs().max():.2g} {where}")
                if weights.min() < 0:
                    return wrong(f"a weight is negative, {weights.min():.2g}, {where}")
                error = (weights.sum(dim=-1) - 1).abs().max().item()
                if sums and not error <= 1e-4:
                    return wrong(
                        f"rows should sum to 1, and are off by {error:.2g} {where}; or set sums_to_one = False"
                    )
    return ok(f"0 on padding and for -inf{', rows sum to 1' if sums else ''}, in training and eval mode")


def _score_rows() -> dict[str, Tensor]:
    """Scores (2, 3, 5) by description, with at least one finite score on a token per row."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 5, generator=generator)
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
        "some scores of -inf": mixed,
        "one finite score": excluded,
    }


@torch.no_grad()
def more_padding(subject: Subject) -> Finding:
    """Additional padding, with any values on it, changes neither weights nor contexts."""
    if subject.kind == "normalizer":
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
    error = max(max_error(longer[0], shorter[0]), max_error(longer[1][:, :, :positions], shorter[1]))
    if not is_close(error):
        return wrong(f"contexts or weights change by {error:.2g} with additional or different padding")
    try:
        context.prepare(keys, is_token=torch.zeros_like(_IS_TOKEN))
    except ValueError:
        return ok(
            f"weights on padding are 0; more of it changes contexts by {error:.1g}; a source without tokens is refused"
        )
    return warning("a source without tokens is accepted; `prepare` should raise ValueError")


def _more_padding_of_scores(subject: Subject) -> Finding:
    part = subject.fresh()
    scores = subject.inputs()["scores"]
    error = 0.0
    for fill in (0.0, 50.0, -torch.inf):
        longer = torch.where(F.pad(_IS_TOKEN, (0, 3))[:, None], F.pad(scores, (0, 3)), fill)
        weights = part(longer, F.pad(_IS_TOKEN, (0, 3))[:, None])
        error = max(error, max_error(weights[..., :5], part(scores, _IS_TOKEN[:, None])))
    if not is_close(error):
        return wrong(f"weights of the tokens change by {error:.2g} with 3 additional positions of padding")
    return ok(f"weights change by {error:.1g} with 3 additional positions of padding, with other scores on them")


def _more_padding_of_window(subject: Subject) -> Finding:
    part = subject.fresh()
    query, _, steps = subject.inputs(positions=5).values()
    results = {}
    for more in (0, 3):
        is_token = F.pad(_IS_TOKEN, (0, more))[:, None]
        results[more] = subject.run(part, {"query": query, "is_token": is_token, "steps": steps})
        if results[more][~is_token.expand_as(results[more])].any():
            return wrong("the window leaves padding open; combine is_open with is_token")
    error = max_error(results[3][..., :5], results[0])
    if not is_close(error):
        return wrong(f"the window changes by {error:.2g} with 3 additional positions of padding")
    return ok(f"padding is closed; 3 additional positions of it change the window by {error:.1g}")


@torch.no_grad()
def open_tokens(subject: Subject) -> Finding:
    """A window leaves at least one token open in every row, for any query and any number of previous steps.

    Its factors are finite and at least 0. It depends on the number of steps only if `needs_steps` is True.
    """
    window = subject.fresh()
    results = []
    for steps_taken in (0, 1, 4, LONG):
        for size in (0.0, 1.0, 100.0, 1e4):
            query, is_token, _ = subject.inputs().values()
            is_token = is_token.clone()
            is_token[1, :, 2:] = False
            steps = torch.full(query.shape[:2], steps_taken)
            view = window(size * query, is_token, steps)
            where = f"after {steps_taken} steps, with queries around {size:g}"
            if view.is_open is not None and not (view.is_open & is_token).any(dim=-1).all():
                return wrong(f"no token of a row is open {where}")
            if view.factor is not None and not (view.factor.isfinite().all() and view.factor.min() >= 0):
                return wrong(f"a factor is NaN, infinite or negative {where}")
            if size == 1:
                results.append(subject.call(window, {"query": query, "is_token": is_token, "steps": steps}))
    moved = max(max_error(each, results[0]) for each in results)
    if not is_close(moved) and not window.needs_steps:
        return wrong(f"the number of steps changes the window by {moved:.2g}, but needs_steps is False")
    if is_close(moved) and window.needs_steps:
        return note("needs_steps is True, but the number of steps has no effect")
    return ok(f"every row has an open token after up to {LONG} steps")


@torch.no_grad()
def batch(subject: Subject) -> Finding:
    """Results of a sentence do not depend on the rest of the batch, nor those of a query on other queries."""
    part, inputs = subject.fresh(), subject.inputs(sentences=4)
    expected = subject.run(part, inputs)
    order = torch.tensor([2, 0, 3, 1])
    permuted = max_error(subject.run(part, {name: each[order] for name, each in inputs.items()}), expected[order])
    if not is_close(permuted):
        return wrong(f"results of a sentence change by {permuted:.2g} with the order of the batch")
    alone = max_error(subject.run(part, {name: each[:1] for name, each in inputs.items()}), expected[:1])
    if not is_close(alone):
        return wrong(f"results of a sentence change by {alone:.2g} when it is alone: sentences of a batch are mixed")
    if not getattr(part, "needs_history", False):
        for sizes in ((2, 3, 5), (4, 4, 4), (2, 5, 5)):
            inputs = subject.inputs(*sizes)
            at_once = subject.run(part, inputs)
            one = {
                name: each[:, -1:] if name != "keys" and name != "is_token" else each for name, each in inputs.items()
            }
            error = max_error(at_once[:, -1:], subject.run(part, one))
            if not is_close(error):
                return wrong(f"results of a query change by {error:.2g} when it is alone, for (B, T, S) = {sizes}")
    return ok(f"results of a sentence change by {permuted:.1g} in another order of the batch, by {alone:.1g} alone")


@torch.no_grad()
def permutation(subject: Subject) -> Finding:
    """Permuting scores permutes their weights, unless the normalizer depends on positions.

    A normalizer with a history may depend on them; any other declares `permutation_equivariant = False`.
    """
    part = subject.fresh()
    if not getattr(part, "permutation_equivariant", not part.needs_history):
        return ok("not checked: the normalizer declares that weights depend on positions")
    order = torch.tensor([3, 0, 4, 1, 2])
    scores = subject.inputs()["scores"]
    error = max_error(part(scores[..., order]), part(scores)[..., order])
    if not is_close(error):
        return wrong(
            f"weights change by {error:.2g} with the order of the scores; "
            f"set permutation_equivariant = False if that is intended"
        )
    return ok(f"weights of permuted scores differ by {error:.1g} from permuted weights")


@torch.no_grad()
def history(subject: Subject) -> Finding:
    """Hypotheses of a beam do not affect each other, no history is modified in place, and `needs_history` is right."""
    part = subject.fresh()
    together, changed = _three_steps(subject, part)
    if not is_close(changed):
        return wrong(f"a step modifies the previous history in place, by {changed:.2g}")
    alone = torch.cat([_three_steps(subject, part, only=k)[0] for k in range(3)], dim=1)
    error = max_error(together, alone)
    if not is_close(error):
        return wrong(f"results of 3 hypotheses in a beam differ by {error:.2g} from those alone")
    fresh = torch.cat([_three_steps(subject, part, only=k, before=False)[0] for k in range(3)], dim=1)
    depends = not is_close(max_error(together, fresh))
    if depends and not part.needs_history:
        return wrong("a step depends on previous steps, but needs_history is False")
    return ok(f"hypotheses in a beam and alone differ by {error:.1g} after 3 steps")


def _three_steps(subject: Subject, part: Any, only: int | None = None, before: bool = True) -> tuple[Tensor, float]:
    """Results of 3 hypotheses, or of one of them, in their third step, and the change made to a history in place.

    before=False omits the first two steps.
    """
    inputs = subject.inputs()
    rows = inputs["scores" if subject.kind == "normalizer" else "query"]
    rows = rows if only is None else rows[:, only : only + 1]
    source = None if subject.kind == "normalizer" else part.prepare(inputs["keys"].clone())
    first = part.start(rows[:, :1] if source is None else source)
    state = each_tensor(lambda one: one.expand(-1, rows.shape[1], *one.shape[2:]).clone(), first)
    changed = 0.0
    results = rows
    for scale in (1.0, -1.0, 1.0) if before else (1.0,):
        kept = each_tensor(torch.clone, state)
        if source is None:
            results = part.after(state, scale * rows)
            following = part.advance(state, results)
        else:
            contexts, weights, following = part(scale * rows, source, state)
            results = torch.cat((contexts, weights), dim=-1)
        changed = max([changed, *map(max_error, history_tensors(state), history_tensors(kept))])
        state = following
    return results, changed


@torch.no_grad()
def steps(subject: Subject) -> Finding:
    """A context gives T queries in one call the results of T single steps."""
    context = subject.fresh()
    error = 0.0
    for sizes in ((2, 3, 5), (2, 5, 5), (1, LONG, 5)):
        query, keys = subject.sample(*sizes)
        source = context.prepare(keys)
        at_once = context(query, source)
        state, results = context.start(source), []
        for one in torch.split(query, 1, dim=1):
            contexts, weights, state = context(one, source, state)
            results.append((contexts, weights))
        by_steps = [torch.cat(part, dim=1) for part in zip(*results, strict=True)]
        error = max([error, *map(max_error, at_once, by_steps)])
        if not is_close(error):
            return wrong(f"results of {sizes[1]} steps in one call differ by {error:.2g} from those of single steps")
    return ok(f"results of all steps in one call and of single steps differ by {error:.1g}")


@torch.no_grad()
def select(subject: Subject) -> Finding:
    """`source.select(rows)` holds these sentences, in any order, repeated or omitted."""
    context = subject.fresh()
    query, keys = subject.sample(sentences=4)
    is_token = torch.arange(keys.shape[1]) < torch.tensor([[5], [3], [2], [4]])
    source = context.prepare(keys, is_token=is_token)
    expected = context(query, source)
    for chosen in ([2, 0, 3, 1], [1], [3, 3, 0]):
        order = torch.tensor(chosen)
        selected = source.select(order)
        if selected.sentences != len(chosen):
            return wrong(f"select({chosen}) gives a source with sentences = {selected.sentences}")
        error = max(map(max_error, context(query[order], selected), [each[order] for each in expected]))
        if not is_close(error):
            return wrong(f"results from select({chosen}) differ by {error:.2g} from those of these sentences")
    if not is_close(max(map(max_error, context(query, source), expected))):
        return wrong("select modifies its source")
    return ok("rows selected, repeated and reordered give the same results")


@torch.no_grad()
def reads_query(subject: Subject) -> Finding:
    """The results of a context depend on the query if and only if `reads_query` is True."""
    context = subject.fresh()
    query, keys = subject.sample()
    source = context.prepare(keys)
    moved = max(map(max_error, context(query, source), context(subject.sample(seed=1)[0], source)))
    if not is_close(moved) and not context.reads_query:
        return wrong(f"another query changes the results by {moved:.2g}, but reads_query is False")
    if is_close(moved) and context.reads_query:
        return warning("reads_query is True, but the query has no effect")
    return ok(f"reads_query is {context.reads_query}, and another query changes the results by {moved:.1g}")


@torch.no_grad()
def inside_attention(subject: Subject) -> Finding:
    """An `Attention` that contains the part gives padding weights of 0, and steps in one call those of single steps."""
    attention = subject.context()
    query, keys = subject.sample()
    weights = compute_weights(attention, query, keys, _IS_TOKEN)
    on_padding = weights[~_IS_TOKEN[:, None].expand_as(weights)]
    if not (on_padding == 0).all():
        return wrong(f"padding gets weights up to {on_padding.abs().max():.2g}")
    source = attention.prepare(keys, is_token=_IS_TOKEN)
    state, rows = attention.start(source), []
    for one in torch.split(query, 1, dim=1):
        _, row, state = attention(one, source, state)
        rows.append(row)
    error = max_error(torch.cat(rows, dim=1), weights)
    if not is_close(error):
        return wrong(f"weights of 3 steps in one call differ by {error:.2g} from those of single steps")
    return ok(f"weights on padding are 0; steps in one call and single steps differ by {error:.1g}")
