"""Laws of numerics: saturation, NaN and infinity, precision, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from seq2seq_attn.attention import Scorer
from seq2seq_attn.doctor.subject import Finding, Subject, compute_weights, is_close, max_error, note, ok, warning, wrong

_SATURATED = 0.8  # mean of the largest weight, above which almost no gradient passes through softmax
_PRECISIONS: dict[str, tuple[torch.dtype, torch.dtype | None]] = {  # dtype of the part, and of autocast
    "float32": (torch.float32, None),
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "autocast to bfloat16": (torch.float32, torch.bfloat16),
    "autocast to float16": (torch.float32, torch.float16),
}
_COARSE = 0.2  # of a row's range: above rounding in half precision, below the effect of a wrong result
_GRADIENT = "the gradient of"
# Full sentences, and sentences of one token, first or last; many, since overflow to both infinities is rare.
_IS_TOKEN = torch.tensor([[True, True, True, True], [True, False, False, False], [False, False, False, True]] * 8)

_CANCELLED = 1e-6  # of the gradient through the scores: softmax cancels a shift up to rounding
_STEPS = (1e-5, 1e-6, 1e-7)  # of finite differences in float64; at least one should not cross a kink
_DERIVATIVE_TOLERANCE = 1e-3  # relative


@torch.no_grad()
def saturation(subject: Subject) -> Finding:
    """Softmax over the scores of standard normal queries and keys is not saturated."""
    generator = torch.Generator().manual_seed(0)
    largest, entropy = {}, {}
    for query_size, key_size in subject.sizes:
        try:
            scorer = subject.make(query_size, key_size).eval()
        except ValueError as error:
            return note(f"not checked: {error}")
        query = torch.randn(16, 4, query_size, generator=generator)
        keys = torch.randn(16, 50, key_size, generator=generator)
        weights = compute_weights(subject.context(scorer), query, keys)
        size = str(query_size)
        largest[size] = weights.amax(dim=-1).mean().item()
        entropy[size] = torch.special.entr(weights).sum(dim=-1).mean().item() / math.log(50)
    figures = (
        f"the largest of 50 weights is {_list(largest, '.2f')}, their entropy {_list(entropy, '.0%')} of the maximum, "
        f"at size {', '.join(largest)}"
    )
    if not all(weight <= _SATURATED for weight in largest.values()):  # a NaN is not
        return warning(f"softmax is saturated before training: {figures}; scale the scores down")
    return ok(figures)


def _list(figures: dict[str, float], style: str) -> str:
    return ", ".join(format(figure, style) for figure in figures.values())


def finite(subject: Subject) -> Finding:
    """No NaN in weights, contexts or gradients, for inputs of any magnitude and sentences of one token."""
    unsupported, overflowing = [], []
    for name, (dtype, autocast) in _PRECISIONS.items():
        try:
            found = {
                numbers: _non_finite(subject, dtype, autocast, *given)
                for numbers, given in _numbers(subject, everything=name == "float32")
            }
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            unsupported.append(name)
            continue
        for numbers, places in found.items():
            message = f"NaN in {', '.join(places)}, in {name} with {numbers}"
            if places and torch.float16 in (dtype, autocast) and all(map(_is_gradient, places)):
                overflowing.append(message)
            elif places:
                return wrong(message)
    if overflowing:
        return warning(f"{overflowing[0]}, because a gradient overflows; a GradScaler would skip this step")
    if unsupported:
        return note(f"no NaN, but the CPU does not support {', '.join(unsupported)}")
    return ok("no NaN for inputs around 0, 1 and 1e4 in float32, bfloat16 and float16, nor for a single token")


def _numbers(subject: Subject, everything: bool) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Yield a description with queries and keys of several magnitudes; with `everything` also of several signs."""
    query, keys = subject.sample(sentences=len(_IS_TOKEN), queries=2, positions=4)
    for size in (0.0, 1.0, 1e4):
        yield f"inputs around {size:g}", (size * query, size * keys)
    if not everything:
        return
    for size in (10.0, 100.0):
        yield f"inputs around {size:g}", (size * query, size * keys)
    yield "keys of 0", (query, 0 * keys)
    yield "queries of 0", (0 * query, keys)
    yield "positive inputs", (query.abs(), keys.abs())
    yield "negative keys", (query.abs(), -keys.abs())
    yield "negative queries", (-query.abs(), keys.abs())
    yield "constant vectors", (query[..., :1].expand_as(query), keys[..., :1].expand_as(keys))
    if subject.query_size == subject.key_size:
        yield "keys equal to the query", (query, query[:, :1].expand_as(keys))
        yield "keys opposite to the query", (query, -query[:, :1].expand_as(keys))


def _non_finite(
    subject: Subject, dtype: torch.dtype, autocast: torch.dtype | None, query: Tensor, keys: Tensor
) -> list[str]:
    """The results and gradients that contain NaN or infinity; float16, with its maximum of 65504, may overflow."""
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
    """Scores are continuous at a key or query of zeros: the mask marks padding, not a vector of zeros."""
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
                    return wrong(f"scores jump by {jump:.2g} where {what} is exactly 0; is it treated as padding?")
    return ok("scores are continuous at a key or query of zeros")


def _scores_near_zero(
    subject: Subject, scorer: Scorer, inputs: Mapping[str, Tensor], name: str, row: int, size: float
) -> Tensor:
    changed = inputs[name].clone()
    changed[:, row] *= size
    return subject.run(scorer, {**inputs, name: changed})


@torch.no_grad()
def double(subject: Subject) -> Finding:
    """float64 inputs give float64 results, close to those in float32."""
    part, inputs = subject.fresh(), subject.inputs()
    single = subject.run(part, inputs)
    results = subject.run(part.double(), _cast(inputs, torch.float64))
    error = max_error(results, single)
    what = "scores" if subject.kind == "scorer" else "results"
    if results.dtype != torch.float64 or not is_close(error):
        return wrong(f"{what} of float64 inputs are {results.dtype}, and differ by {error:.2g} from those in float32")
    return ok(f"{what} of float64 inputs are float64, and differ by {error:.1g} from those in float32")


@torch.no_grad()
def precision(subject: Subject) -> Finding:
    """In half precision and under autocast, results equal those in float32 up to rounding."""
    worst, unsupported = 0.0, []
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
            unsupported.append(name)
            continue
        if results.shape != expected.shape:
            return wrong(f"results in {name} have shape {tuple(results.shape)}, expected {tuple(expected.shape)}")
        both = expected.isfinite() & (results.abs() < torch.inf)
        if not (both | (expected == results)).all():
            return wrong(f"results in {name} are infinite or NaN where those in float32 are finite")
        kept = torch.where(both, expected, 0.0)
        unit = max((kept.amax(dim=-1) - kept.amin(dim=-1)).amax().item(), 0.1 * kept.abs().amax().item(), 1e-6)
        difference = (torch.where(both, results, 0.0) - kept).abs().amax().item() / unit
        if not difference <= _COARSE:
            return wrong(f"results in {name} differ by {difference:.0%} of a row's range from those in float32")
        worst = max(worst, difference)
    message = f"results in half precision and under autocast differ by {worst:.1%} of a row's range from float32"
    return note(f"{message}; the CPU does not support {', '.join(unsupported)}") if unsupported else ok(message)


def gradients(subject: Subject) -> Finding:
    """Every parameter, and every input that affects the results, has a gradient, and it is the derivative.

    In float64, directional derivatives are compared with finite differences; those in float32 with those in float64.
    Normalizers and contexts are differentiated in training mode, with the same random numbers in every call.
    """
    derivatives = _derivatives(subject, torch.float64)
    unreached = [
        name if each.is_parameter else f"the {name}"
        for name, each in derivatives.items()
        if each.analytic == 0 and (each.is_parameter or (each.is_measured and not each.is_flat))
    ]
    if unreached:
        return wrong(f"no gradient reaches {', '.join(unreached)}")
    straight_through = [name for name, each in derivatives.items() if each.is_flat and each.analytic != 0]
    for name, each in derivatives.items():
        if name not in straight_through and each.error > _DERIVATIVE_TOLERANCE:
            factor = f"{each.analytic / each.numeric:.3g} times" if each.numeric else "not"
            return wrong(f"the gradient of {name} is {factor} the derivative, according to finite differences")
    # Normalizers and contexts are in training mode, where another precision draws other random numbers.
    compared = _derivatives(subject, torch.float32) if subject.kind in ("scorer", "window") else {}
    for name, single in compared.items():
        double = derivatives[name].analytic
        gap = abs(single.analytic - double)
        if gap > 0.02 * max(abs(double), 0.1 * derivatives[name].scale):
            return wrong(f"the gradient of {name} in float32 differs by {gap:.2g} from {double:.2g} in float64")
    if not all(each.is_measured for each in derivatives.values()):
        return note("results are not in float64 where all inputs are: gradients cannot be compared with differences")
    if straight_through:
        names = ", ".join(straight_through)
        return note(f"results do not depend on {names}, yet there is a gradient; a straight-through estimator?")
    parameters = [name for name, each in derivatives.items() if each.is_parameter]
    canceled = _cancelled_by_softmax(subject, parameters) if subject.kind == "scorer" else []
    if canceled:
        names = ", ".join(canceled)
        return note(f"{names} shifts all scores of a row equally: no effect through softmax, but through sigmoid")
    reached = f"all {len(parameters)} parameters have a gradient" if parameters else "there are no parameters"
    return ok(f"{reached}; gradients match finite differences")


class _Derivative:
    """The derivative along a random direction of one input or parameter, by autograd and by finite differences."""

    def __init__(self, analytic: float, numeric: list[float], scale: float, is_parameter: bool) -> None:
        self.analytic, self.scale, self.is_parameter = analytic, scale, is_parameter
        self.numeric = min(numeric, key=lambda each: abs(each - analytic), default=analytic)
        self.is_measured = bool(numeric)
        self.is_flat = self.is_measured and not any(numeric)
        # The last but one term allows for cancellation in the difference of two sums of magnitude `scale`.
        self.error = abs(analytic - self.numeric) / max(abs(analytic), abs(self.numeric), 1e-4 * scale, 1e-12)


def _derivatives(subject: Subject, dtype: torch.dtype) -> dict[str, _Derivative]:
    """Derivatives by the name of an input or parameter; finite differences in float64 only."""
    part = subject.fresh(seed=0).to(dtype).train(subject.kind in ("normalizer", "context"))
    inputs = {
        name: tensor.requires_grad_() if tensor.is_floating_point() else tensor
        for name, tensor in _cast(subject.inputs(), dtype).items()
    }
    parameters = {name: each for name, each in part.named_parameters() if each.requires_grad}
    leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad} | parameters
    generator = torch.Generator().manual_seed(4)
    summands = torch.randn(1, generator=generator)

    def summed() -> Tensor:
        nonlocal summands
        torch.default_generator.manual_seed(5)
        results = subject.run(part, inputs)
        if summands.shape != results.shape:
            summands = torch.randn(results.shape, generator=generator, dtype=torch.float64)
        return torch.where(results.isfinite(), results, 0.0).mul(summands.to(results.dtype)).sum()

    value = summed()
    found = (
        torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        if value.requires_grad and leaves
        else [None] * len(leaves)
    )
    derivatives = {}
    for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
        direction = torch.randn(leaf.shape, generator=generator, dtype=torch.float64).to(dtype)
        numeric = []
        if dtype == torch.float64 and value.dtype == torch.float64:
            numeric = [_difference(summed, leaf, direction, step) for step in _STEPS]
        analytic = 0.0 if gradient is None else (gradient * direction).sum().item()
        if gradient is not None and analytic == 0 and gradient.any():
            analytic = gradient.norm().item()
        derivatives[name] = _Derivative(analytic, numeric, abs(value.item()), name in parameters)
    return derivatives


@torch.no_grad()
def _difference(summed: Callable[[], Tensor], leaf: Tensor, direction: Tensor, step: float) -> float:
    """(f(x + h d) - f(x - h d)) / 2h."""
    before = leaf.clone()
    values = []
    for sign in (1, -1):
        leaf.copy_(before + sign * step * direction)
        values.append(summed().item())
    leaf.copy_(before)
    difference: float = (values[0] - values[1]) / (2 * step)
    return difference


def _cancelled_by_softmax(subject: Subject, names: list[str]) -> list[str]:
    """The parameters that get a gradient through scores but none through weights."""
    scorer = subject.fresh()
    parameters = {name: each for name, each in scorer.named_parameters() if name in names}
    if not parameters:
        return []
    scores = subject.run(scorer, subject.inputs())
    weights = (scores / scores.detach().std().clamp(min=1)).softmax(dim=-1)  # large scores would saturate it
    through_scores, through_weights = (_gradient_norms(each, parameters) for each in (scores, weights))
    return [name for name in parameters if through_weights[name] <= _CANCELLED * through_scores[name]]


def _gradient_norms(result: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """The norm of each input's gradient of a random projection of the result."""
    summed = torch.where(result.isfinite(), result, 0.0).mul(torch.randn_like(result)).sum()
    found = torch.autograd.grad(summed, list(inputs.values()), retain_graph=True, allow_unused=True)
    return {name: 0.0 if each is None else each.norm().item() for name, each in zip(inputs, found, strict=True)}


def _cast(inputs: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The inputs with floating-point tensors cast to `dtype`; masks and counts are unchanged."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
