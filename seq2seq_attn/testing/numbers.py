"""Laws of numbers: NaN and infinity, precision, continuity, saturation and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest import SkipTest

import torch
from torch import Tensor

from seq2seq_attn.testing.subject import (
    TOLERANCE,
    BrokenLawError,
    Subject,
    cast,
    gradients_of,
    leaves_of,
    max_error,
    projected,
    require,
)

_PRECISIONS: dict[str, tuple[torch.dtype, torch.dtype | None]] = {  # dtype of the part, and of autocast
    "float64": (torch.float64, None),
    "float32": (torch.float32, None),
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "autocast to bfloat16": (torch.float32, torch.bfloat16),
    "autocast to float16": (torch.float32, torch.float16),
}
_COARSE = 0.2  # of a row's range: above rounding in half precision, below the effect of a wrong result
# Full sentences, and sentences of one token, first or last; many, since overflow to both infinities is rare.
_IS_TOKEN = torch.tensor([[True, True, True, True], [True, False, False, False], [False, False, False, True]] * 8)

_SATURATED = 0.8  # mean of the largest weight, above which almost no gradient passes through softmax
_STEPS = (1e-5, 1e-6, 1e-7)  # of finite differences in float64; at least one should not cross a kink
_CANCELED = 1e-6  # of the gradient through the scores: softmax cancels a shift up to rounding


def gradients(subject: Subject) -> str | None:
    """Every parameter, and every input that affects the results, has a gradient, and it is the derivative.

    In float64 they are compared with finite differences along a random direction, and with those in float32.
    Normalizers and contexts are differentiated in training mode, with the same random numbers in every call.
    """
    part = subject.fresh(seed=0).double().train(subject.kind in ("normalizer", "context"))
    inputs, leaves = leaves_of(part, cast(subject.inputs(), torch.float64))

    def results() -> Tensor:
        torch.default_generator.manual_seed(5)
        return subject.run(part, inputs)

    found = gradients_of(results(), leaves)
    if results().dtype != torch.float64:
        raise SkipTest(
            "results are not in float64 where all inputs are, so gradients were not compared with differences"
        )
    unreached, straight_through = [], []
    for name, gradient in found.items():
        direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        slope = (gradient * direction).sum().item()
        differences = [_difference(lambda: projected(results()), leaves[name], direction, step) for step in _STEPS]
        nearest = min(differences, key=lambda each: abs(each - slope))
        if not gradient.any() and (name not in inputs or any(differences)):
            unreached.append(name)
        elif gradient.any() and not any(differences):
            straight_through.append(name)
        elif abs(slope - nearest) > 1e-3 * max(abs(slope), abs(nearest), 1e-4 * abs(projected(results()).item())):
            raise BrokenLawError(f"the gradient of {name} is not the derivative: {slope:.3g} instead of {nearest:.3g}")
    require(not unreached, f"no gradient reaches {', '.join(unreached)}")
    if straight_through:
        names = ", ".join(straight_through)
        return f"results do not depend on {names}, yet there is a gradient: a straight-through estimator?"
    if subject.kind in ("scorer", "window"):  # a part in training mode draws other numbers in another precision
        single = subject.fresh(seed=0)
        inputs, leaves = leaves_of(single, subject.inputs())
        for name, gradient in gradients_of(subject.run(single, inputs), leaves).items():
            error = max_error(gradient.double(), found[name])
            require(error <= 0.02, f"the gradient of {name} in float32 differs from that in float64 by {error:.2g}")
    return _canceled_by_softmax(subject) if subject.kind == "scorer" else None


@torch.no_grad()
def _difference(function: Callable[[], Tensor], leaf: Tensor, direction: Tensor, step: float) -> float:
    """(f(x + h d) - f(x - h d)) / 2h."""
    before, values = leaf.clone(), []
    for sign in (1, -1):
        leaf.copy_(before + sign * step * direction)
        values.append(function().item())
    leaf.copy_(before)
    difference: float = (values[0] - values[1]) / (2 * step)
    return difference


def _canceled_by_softmax(subject: Subject) -> str | None:
    """A remark on parameters that have a gradient through scores, but none through weights."""
    scorer = subject.fresh()
    parameters = {name: each for name, each in scorer.named_parameters() if each.requires_grad}
    scores = subject.run(scorer, subject.inputs())
    weights = (scores / scores.detach().std().clamp(min=1)).softmax(dim=-1)  # large scores would saturate it
    through_scores, through_weights = gradients_of(scores, parameters), gradients_of(weights, parameters)
    shifts = [name for name in parameters if through_weights[name].norm() <= _CANCELED * through_scores[name].norm()]
    if not shifts:
        return None
    return f"{', '.join(shifts)} shifts all scores of a row equally: no effect through softmax, but through sigmoid"


@torch.no_grad()
def saturation(subject: Subject) -> str | None:
    """Softmax over the scores of standard normal queries and keys is not saturated."""
    generator = torch.Generator().manual_seed(0)
    largest = {}
    for size in (None,) if subject.is_instance else (64, 256, 1024):
        query_size, key_size = (subject.query_size, subject.key_size) if size is None else (size, size)
        try:
            context = subject.context(subject.make(query_size, key_size).eval())
        except ValueError as error:
            raise SkipTest(f"it cannot be constructed with other sizes: {error}") from None
        query = torch.randn(16, 4, query_size, generator=generator)
        keys = torch.randn(16, 50, key_size, generator=generator)
        largest[query_size] = context(query, context.prepare(keys))[1].amax(dim=-1).mean().item()
    if all(weight <= _SATURATED for weight in largest.values()):  # a NaN is not
        return None
    figures = ", ".join(f"{weight:.2f} at size {size}" for size, weight in largest.items())
    return f"softmax is saturated before training: the largest of 50 weights is {figures}; scale the scores down"


def finite(subject: Subject) -> str | None:
    """Weights, contexts and gradients are not NaN, for inputs of any magnitude and sentences of one token."""
    remark = None
    for name, (dtype, autocast) in _PRECISIONS.items():
        for numbers, query, keys in _magnitudes(subject, everything=name == "float32"):
            try:
                places = _non_finite(subject, dtype, autocast, query, keys)
            except RuntimeError as error:
                if "not implemented for" not in str(error):
                    raise
                break  # this CPU does not support it
            message = f"NaN in {', '.join(places)}, in {name} with {numbers}"
            if places and torch.float16 in (dtype, autocast) and all("gradient" in place for place in places):
                remark = f"{message}, because a gradient overflows; a GradScaler would skip this step"
            elif places:
                raise BrokenLawError(message)
    return remark


def _magnitudes(subject: Subject, everything: bool) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yields a description with queries and keys of several magnitudes; with `everything` also of several signs."""
    query, keys = subject.sample(sentences=len(_IS_TOKEN), queries=2, positions=4)
    for size in (0.0, 1.0, 1e4, *((10.0, 100.0) if everything else ())):
        yield f"inputs around {size:g}", size * query, size * keys
    if not everything:
        return
    yield "keys of 0", query, 0 * keys
    yield "queries of 0", 0 * query, keys
    yield "positive inputs", query.abs(), keys.abs()
    yield "negative keys", query.abs(), -keys.abs()
    yield "negative queries", -query.abs(), keys.abs()
    yield "constant vectors", query[..., :1].expand_as(query), keys[..., :1].expand_as(keys)
    if subject.query_size == subject.key_size:
        yield "keys equal to the query", query, query[:, :1].expand_as(keys)
        yield "keys opposite to the query", query, -query[:, :1].expand_as(keys)


def _non_finite(
    subject: Subject, dtype: torch.dtype, autocast: torch.dtype | None, query: Tensor, keys: Tensor
) -> list[str]:
    """The results and gradients that contain NaN or infinity; float16, with its maximum of 65504, may overflow."""
    part = subject.fresh().to(dtype)
    query, keys = (tensor.clone().to(dtype).requires_grad_() for tensor in (query, keys))
    context = subject.context(part).to(dtype)
    with torch.autocast("cpu", autocast, enabled=autocast is not None):
        values = {} if subject.kind == "context" else {"values": torch.randn_like(keys)}
        contexts, weights = context(query.clone(), context.prepare(keys.clone(), is_token=_IS_TOKEN, **values))
    if contexts.requires_grad:
        contexts.mul(torch.randn_like(contexts)).sum().backward()
    inputs = {"query": query, "keys": keys, **dict(part.named_parameters())}
    results = {"weights": weights, "contexts": contexts} | {
        f"the gradient of {name}": tensor.grad for name, tensor in inputs.items() if tensor.grad is not None
    }
    broken = torch.isnan if torch.float16 in (dtype, autocast) else lambda tensor: ~tensor.isfinite()
    return [name for name, tensor in results.items() if broken(tensor).any()]


@torch.no_grad()
def precision(subject: Subject) -> None:
    """In double and half precision and under autocast, results equal those in float32 up to rounding."""
    for name, (dtype, autocast) in _PRECISIONS.items():
        rounding = dtype if autocast is None else autocast
        inputs = cast(cast(subject.inputs(), rounding), torch.float32)
        expected = subject.run(subject.fresh(seed=0).to(rounding).float(), inputs)
        part = subject.fresh(seed=0).to(rounding).to(dtype)
        try:
            with torch.autocast("cpu", autocast, enabled=autocast is not None):
                results = subject.run(part, cast(inputs, dtype))
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            continue  # this CPU does not support it
        is_double = dtype == torch.float64
        require(not is_double or results.dtype == dtype, f"results of float64 inputs are {results.dtype}")
        results = results.float()
        require(results.shape == expected.shape, f"results in {name} have another shape than those in float32")
        both = expected.isfinite() & (results.abs() < torch.inf)
        agree = bool((both | (expected == results)).all())
        require(agree, f"results in {name} are infinite or NaN where those in float32 are finite")
        kept = torch.where(both, expected, 0.0)
        unit = max((kept.amax(dim=-1) - kept.amin(dim=-1)).amax().item(), 0.1 * kept.abs().amax().item(), 1e-6)
        off = (torch.where(both, results, 0.0) - kept).abs().amax().item() / unit
        limit = TOLERANCE if is_double else _COARSE
        require(off <= limit, f"results in {name} differ by {off:.2%} of a row's range from those in float32")


@torch.no_grad()
def zero_vectors(subject: Subject) -> None:
    """Scores are continuous at a key or query of zeros: the mask marks padding, not a vector of zeros."""
    scorer = subject.fresh().double()
    inputs = cast(subject.inputs(), torch.float64)
    spread = subject.run(scorer, inputs).nan_to_num(neginf=0.0).std().item()

    def near_zero(name: str, row: int, size: float) -> Tensor:
        changed = inputs[name].clone()
        changed[:, row] *= size
        return subject.run(scorer, {**inputs, name: changed})

    for name, tensor in inputs.items():
        for row in (0, tensor.shape[1] - 1):
            at_zero = near_zero(name, row, 0.0)
            for size in (1e-3, 1e-6):
                above, below = near_zero(name, row, size), near_zero(name, row, -size)
                if above.isfinite().all() and below.isfinite().all():
                    jump = (at_zero - (above + below) / 2).abs().amax().item()
                    vector = "a key" if name == "keys" else "a query"
                    sentence = f"scores jump by {jump:.2g} where {vector} is exactly 0; is it treated as padding?"
                    require(jump <= 0.05 * spread, sentence)
