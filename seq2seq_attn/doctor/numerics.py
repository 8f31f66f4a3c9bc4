"""Laws of numbers: too large, too small, too coarse; and what can learn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from seq2seq_attn.attention import Scorer
from seq2seq_attn.doctor.subject import Finding, Subject, apart, is_same, note, ok, warning, weights_of, wrong

_SATURATED = 0.8  # mean of the largest weights, above which a step learns next to nothing through softmax
_PRECISIONS: dict[str, tuple[torch.dtype, torch.dtype | None]] = {  # of the part, and of an autocast around it
    "float32": (torch.float32, None),
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "autocast to bfloat16": (torch.float32, torch.bfloat16),
    "autocast to float16": (torch.float32, torch.float16),
}
_COARSE = 0.2  # of a row's spread: above what half precision rounds away, below what a wrong result moves
_GRADIENT = "the gradient of"
# Full sentences, and sentences of one token, first or last; many, as it takes some luck to overflow both ways.
_IS_TOKEN = torch.tensor([[True, True, True, True], [True, False, False, False], [False, False, False, True]] * 8)

_UNSEEN = 1e-6  # of the gradient through the scores: what softmax lets through of a shift is rounding
_STEPS = (1e-5, 1e-6, 1e-7)  # of finite differences in double; one of them crosses no kink
_DERIVATIVE_TOLERANCE = 1e-3  # of the derivative


@torch.no_grad()
def saturation(subject: Subject) -> Finding:
    """Softmax over the scores of random queries and keys of variance 1 leaves more than one key some weight."""
    draw = torch.Generator().manual_seed(0)
    largest, entropy = {}, {}
    for query_size, key_size in subject.sizes:
        try:
            scorer = subject.make(query_size, key_size).eval()
        except ValueError as error:
            return note(f"not asked: {error}")
        query = torch.randn(16, 4, query_size, generator=draw)
        keys = torch.randn(16, 50, key_size, generator=draw)
        weights = weights_of(subject.context(scorer), query, keys)
        size = str(query_size)
        largest[size] = weights.amax(dim=-1).mean().item()
        entropy[size] = torch.special.entr(weights).sum(dim=-1).mean().item() / math.log(50)
    figures = (
        f"of 50 weights the largest is {_list(largest, '.2f')}, their entropy {_list(entropy, '.0%')} of uniform, "
        f"at size {', '.join(largest)}"
    )
    if not all(share <= _SATURATED for share in largest.values()):  # a NaN is not
        return warning(f"softmax starts saturated: {figures}; scale the scores down")
    return ok(figures)


def _list(figures: dict[str, float], how: str) -> str:
    return ", ".join(format(figure, how) for figure in figures.values())


def finite(subject: Subject) -> Finding:
    """No NaN in weights, contexts or gradients, however large the numbers and however few the tokens."""
    unknown, overflowing = [], []
    for name, (dtype, autocast) in _PRECISIONS.items():
        try:
            found = {
                numbers: _not_numbers(subject, dtype, autocast, *given)
                for numbers, given in _numbers(subject, everything=name == "float32")
            }
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            unknown.append(name)
            continue
        for numbers, places in found.items():
            says = f"NaN in {', '.join(places)}, in {name} with {numbers}"
            if places and torch.float16 in (dtype, autocast) and all(map(_is_gradient, places)):
                overflowing.append(says)
            elif places:
                return wrong(says)
    if overflowing:
        return warning(f"{overflowing[0]}, where a gradient overflows: a step that a GradScaler leaves out")
    if unknown:
        return note(f"no NaN, but the CPU cannot do {', '.join(unknown)}")
    return ok("no NaN at 0, 1 and 1e4 in float32, bfloat16 and float16, with one token first or last")


def _numbers(subject: Subject, everything: bool) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Queries and keys of many magnitudes, with `everything` of many signs as well, and what they are called."""
    query, keys = subject.sample(sentences=len(_IS_TOKEN), queries=2, positions=4)
    for size in (0.0, 1.0, 1e4):
        yield f"numbers around {size:g}", (size * query, size * keys)
    if not everything:
        return
    for size in (10.0, 100.0):
        yield f"numbers around {size:g}", (size * query, size * keys)
    yield "keys of 0", (query, 0 * keys)
    yield "queries of 0", (0 * query, keys)
    yield "numbers above 0", (query.abs(), keys.abs())
    yield "keys below 0", (query.abs(), -keys.abs())
    yield "queries below 0", (-query.abs(), keys.abs())
    yield "vectors of one number each", (query[..., :1].expand_as(query), keys[..., :1].expand_as(keys))
    if subject.query_size == subject.key_size:
        yield "keys that are the query", (query, query[:, :1].expand_as(keys))
        yield "keys opposite to the query", (query, -query[:, :1].expand_as(keys))


def _not_numbers(
    subject: Subject, dtype: torch.dtype, autocast: torch.dtype | None, query: Tensor, keys: Tensor
) -> list[str]:
    """Where a NaN is, or an infinity: only float16, which ends at 65504, may overflow to one."""
    part = subject.fresh().to(dtype)
    query, keys = (tensor.clone().to(dtype).requires_grad_() for tensor in (query, keys))
    context = subject.context(part).to(dtype)
    with torch.autocast("cpu", autocast, enabled=autocast is not None):
        values = None if subject.kind == "context" else torch.randn_like(keys)
        source = context.prepare(keys.clone(), values, _IS_TOKEN)
        contexts, weights = context(query.clone(), source)
    if contexts.requires_grad:
        contexts.mul(torch.randn_like(contexts)).sum().backward()
    inputs = {"query": query, "keys": keys, **dict(part.named_parameters())}
    results = {"weights": weights, "contexts": contexts} | {
        f"{_GRADIENT} {name}": tensor.grad for name, tensor in inputs.items() if tensor.grad is not None
    }
    broken = torch.isnan if torch.float16 in (dtype, autocast) else lambda tensor: ~tensor.isfinite()
    return [name for name, tensor in results.items() if broken(tensor).any()]


def _is_gradient(place: str) -> bool:
    return place.startswith(_GRADIENT)


@torch.no_grad()
def zero_vectors(subject: Subject) -> Finding:
    """A key or query of zeros scores as those next to it do: padding is what the mask says, not what is 0."""
    scorer = subject.fresh().double()
    inputs = {name: tensor.double() for name, tensor in subject.inputs().items()}
    spread = subject.run(scorer, inputs).nan_to_num(neginf=0.0).std().item()
    for name, tensor in inputs.items():
        for row in (0, tensor.shape[1] - 1):
            at_zero = _scores_near_zero(subject, scorer, inputs, name, row, 0.0)
            for size in (1e-3, 1e-6):
                sides = [_scores_near_zero(subject, scorer, inputs, name, row, sign * size) for sign in (1, -1)]
                if not all(side.isfinite().all() for side in sides):
                    continue
                jump = (at_zero - (sides[0] + sides[1]) / 2).abs().amax().item()
                if not jump <= 0.05 * spread:
                    what = "a key" if name == "keys" else "a query"
                    return wrong(f"scores jump by {jump:.2g} where {what} is exactly 0: is that taken for padding?")
    return ok("a key or query of zeros scores as those next to it")


def _scores_near_zero(
    subject: Subject, scorer: Scorer, inputs: Mapping[str, Tensor], name: str, row: int, size: float
) -> Tensor:
    changed = inputs[name].clone()
    changed[:, row] *= size
    return subject.run(scorer, {**inputs, name: changed})


@torch.no_grad()
def double(subject: Subject) -> Finding:
    """In float64 it computes in float64, and as in float32."""
    part, inputs = subject.fresh(), subject.inputs()
    single = subject.run(part, inputs)
    results = subject.run(part.double(), _cast(inputs, torch.float64))
    distance = apart(results, single)
    what = "scores" if subject.kind == "scorer" else "results"
    if results.dtype != torch.float64 or not is_same(distance):
        return wrong(f"{what} of float64 are {results.dtype}, and {distance:.2g} away from those of float32")
    return ok(f"{what} of float64 are float64, {distance:.1g} away from those of float32")


@torch.no_grad()
def precision(subject: Subject) -> Finding:
    """In half precision and under autocast the values are those of float32, but for rounding."""
    worst, unknown = 0.0, []
    for name, (dtype, autocast) in _PRECISIONS.items():
        rounding = dtype if autocast is None else autocast
        inputs = _cast(_cast(subject.inputs(), rounding), torch.float32)
        expected = subject.run(subject.fresh(seed=0).to(rounding).float(), inputs)
        part = subject.fresh(seed=0).to(rounding).to(dtype)
        try:
            with torch.autocast("cpu", autocast, enabled=autocast is not None):
                results = subject.run(part, _cast(inputs, dtype)).float()
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            unknown.append(name)
            continue
        if results.shape != expected.shape:
            return wrong(f"results in {name} are of shape {tuple(results.shape)}, not {tuple(expected.shape)}")
        both = expected.isfinite() & (results.abs() < torch.inf)
        if not (both | (expected == results)).all():
            return wrong(f"results in {name} are infinite or NaN where those of float32 are numbers")
        kept = torch.where(both, expected, 0.0)
        unit = max((kept.amax(dim=-1) - kept.amin(dim=-1)).amax().item(), 0.1 * kept.abs().amax().item(), 1e-6)
        distance = (torch.where(both, results, 0.0) - kept).abs().amax().item() / unit
        if not distance <= _COARSE:
            return wrong(f"results in {name} are {distance:.0%} of a row's spread away from those of float32")
        worst = max(worst, distance)
    says = f"in half precision and under autocast results are {worst:.1%} of a row's spread away from float32"
    return note(f"{says}; the CPU cannot do {', '.join(unknown)}") if unknown else ok(says)


def gradients(subject: Subject) -> Finding:
    """A gradient reaches every parameter and all that the results depend on, and it is the derivative.

    In double the derivative along random directions is compared with finite differences, and that of float32 with
    double. A normaliser and a context are differentiated in training mode, where they learn, with the same random
    numbers in every call.
    """
    derivatives = _derivatives(subject, torch.float64)
    unreached = [
        name if each.is_parameter else f"the {name}"
        for name, each in derivatives.items()
        if each.analytic == 0 and (each.is_parameter or not each.is_flat)
    ]
    if unreached:
        return wrong(f"no gradient reaches {', '.join(unreached)}")
    straight_through = [name for name, each in derivatives.items() if each.is_flat and each.analytic != 0]
    for name, each in derivatives.items():
        if name not in straight_through and each.error > _DERIVATIVE_TOLERANCE:
            factor = f"{each.analytic / each.numeric:.3g} times" if each.numeric else "not"
            return wrong(f"the gradient of {name} is {factor} the derivative, by finite differences in double")
    # In training mode other numbers are drawn in another precision.
    compared = _derivatives(subject, torch.float32) if subject.kind in ("scorer", "window") else {}
    for name, single in compared.items():
        of_double = derivatives[name].analytic
        gap = abs(single.analytic - of_double)
        if gap > 0.02 * max(abs(of_double), 0.1 * derivatives[name].scale):
            return wrong(f"the gradient of {name} in float32 is {gap:.2g} away from {of_double:.2g}, that of double")
    if straight_through:
        return note(
            f"results do not change with {', '.join(straight_through)}, which have a gradient: straight-through"
        )
    parameters = [name for name, each in derivatives.items() if each.is_parameter]
    unseen = _unseen_by_softmax(subject, parameters) if subject.kind == "scorer" else []
    if unseen:
        return note(f"{', '.join(unseen)}: shifts all scores of a row alike; softmax does not see it, sigmoid does")
    reached = f"{len(parameters)} of {len(parameters)} parameters reached" if parameters else "there are no parameters"
    return ok(f"{reached}; gradients are the derivatives in double")


class _Derivative:
    """A derivative along a random direction of one input or parameter: by autograd, and by finite differences."""

    def __init__(self, analytic: float, numeric: list[float], scale: float, is_parameter: bool) -> None:
        self.analytic, self.scale, self.is_parameter = analytic, scale, is_parameter
        self.numeric = min(numeric, key=lambda each: abs(each - analytic), default=analytic)
        self.is_flat = not any(numeric)
        # What is lost in the difference of two sums of size `scale`.
        self.error = abs(analytic - self.numeric) / max(abs(analytic), abs(self.numeric), 1e-4 * scale, 1e-12)


def _derivatives(subject: Subject, dtype: torch.dtype) -> dict[str, _Derivative]:
    """By the names of inputs and parameters; finite differences in double alone."""
    part = subject.fresh(seed=0).to(dtype).train(subject.kind in ("normaliser", "context"))
    inputs = {
        name: tensor.requires_grad_() if tensor.is_floating_point() else tensor
        for name, tensor in _cast(subject.inputs(), dtype).items()
    }
    parameters = {name: each for name, each in part.named_parameters() if each.requires_grad}
    leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad} | parameters
    draw = torch.Generator().manual_seed(4)
    summands = torch.randn(1, generator=draw)

    def summed() -> Tensor:
        nonlocal summands
        torch.default_generator.manual_seed(5)
        results = subject.run(part, inputs)
        if summands.shape != results.shape:
            summands = torch.randn(results.shape, generator=draw, dtype=torch.float64)
        return torch.where(results.isfinite(), results, 0.0).mul(summands.to(results.dtype)).sum()

    value = summed()
    found = (
        torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        if value.requires_grad and leaves
        else [None] * len(leaves)
    )
    derivatives = {}
    for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
        direction = torch.randn(leaf.shape, generator=draw, dtype=torch.float64).to(dtype)
        numeric = []
        if dtype == torch.float64 and value.dtype == torch.float64:
            numeric = [_difference(summed, leaf, direction, step) for step in _STEPS]
        analytic = 0.0 if gradient is None else (gradient * direction).sum().item()
        if gradient is not None and analytic == 0 and gradient.any():
            analytic = gradient.norm().item()
        derivatives[name] = _Derivative(analytic, numeric, abs(value.item()), name in parameters)
    return derivatives


@torch.no_grad()
def _difference(summed: object, leaf: Tensor, direction: Tensor, step: float) -> float:
    """(f(x + h d) - f(x - h d)) / 2h."""
    assert callable(summed)
    before = leaf.clone()
    values = []
    for sign in (1, -1):
        leaf.copy_(before + sign * step * direction)
        values.append(summed().item())
    leaf.copy_(before)
    difference: float = (values[0] - values[1]) / (2 * step)
    return difference


def _unseen_by_softmax(subject: Subject, names: list[str]) -> list[str]:
    """The parameters that get a gradient through scores and none through weights."""
    scorer = subject.fresh()
    parameters = {name: each for name, each in scorer.named_parameters() if name in names}
    if not parameters:
        return []
    scores = subject.run(scorer, subject.inputs())
    through_scores, through_weights = (_lengths(each, parameters) for each in (scores, scores.softmax(dim=-1)))
    return [name for name in parameters if through_weights[name] <= _UNSEEN * through_scores[name]]


def _lengths(result: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """The length of each input's gradient from a random sum of the results."""
    summed = torch.where(result.isfinite(), result, 0.0).mul(torch.randn_like(result)).sum()
    found = torch.autograd.grad(summed, list(inputs.values()), retain_graph=True, allow_unused=True)
    return {name: 0.0 if each is None else each.norm().item() for name, each in zip(inputs, found, strict=True)}


def _cast(inputs: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The inputs with floating point numbers of this type; masks and counts stay as they are."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
