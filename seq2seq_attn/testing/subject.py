"""The part that is examined, and what the laws share: its inputs, one way to call all kinds of parts, and comparisons.

A law is a function of a `Subject`. It returns None if the law holds, or a remark on what is allowed but rarely
intended. It raises BrokenLawError with one sentence if the law is broken, and `unittest.SkipTest` if it cannot be
checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from seq2seq_attn.attention import Attention, Context, General, Normalizer, Scorer, Window

Kind = Literal["scorer", "normalizer", "window", "context"]
BASES: dict[Kind, type[nn.Module]] = {
    "scorer": Scorer,
    "normalizer": Normalizer,
    "window": Window,
    "context": Context,
}

# Pairwise different, and different from the numbers of sentences, queries and positions, so that swapped axes show;
# multiples of 8, so that they can be divided into heads.
QUERY_SIZE, KEY_SIZE = 16, 24

TOLERANCE = 1e-4  # of `max_error`: far above rounding in float32, far below the effect of a fault
_NOISE = 0.02  # standard deviation of the noise added to every parameter

Inputs: TypeAlias = Mapping[str, Tensor]
_PER_QUERY = ("query", "scores", "steps")  # inputs whose second dimension counts queries


@dataclass(frozen=True)
class Subject:
    """A part that can be constructed as often as a law needs a fresh one."""

    kind: Kind
    cls: type[nn.Module]
    make: Callable[[int, int], Any]  # (query_size, key_size) -> the part
    query_size: int
    key_size: int
    is_instance: bool = False  # a given instance has only the sizes that it has

    @property
    def name(self) -> str:
        sizes = {"normalizer": "", "window": f"query_size={self.query_size}"}
        return f"{self.cls.__name__}({sizes.get(self.kind, f'query_size={self.query_size}, key_size={self.key_size}')})"

    def fresh(self, seed: int | None = None) -> Any:
        """A new part in eval mode; the same seed gives the same parameters.

        Noise is added to the parameters, as many are initialized to 0, where every law holds.
        """
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        part = self.make(self.query_size, self.key_size).eval()
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.add_(_NOISE * torch.randn_like(parameter))
        return part

    def context(self, part: Any = None) -> Any:
        """The context that a decoder would use: the part itself, or an `Attention` that contains it."""
        part = self.fresh() if part is None else part
        if self.kind == "context":
            return part
        if self.kind == "scorer":
            return Attention(part)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1)
            scorer = General(self.query_size, self.key_size).eval()
        return Attention(scorer, part) if self.kind == "normalizer" else Attention(scorer, window=part)

    def sample(self, sentences: int = 2, queries: int = 3, positions: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
        """A query (B, T, query_size) and keys (B, S, key_size) from a standard normal distribution."""
        generator = torch.Generator().manual_seed(seed)
        return (
            torch.randn(sentences, queries, self.query_size, generator=generator),
            torch.randn(sentences, positions, self.key_size, generator=generator),
        )

    def inputs(
        self, sentences: int = 2, queries: int = 3, positions: int | None = None, seed: int = 0
    ) -> dict[str, Tensor]:
        """Arguments for this kind of part, by name; the first dimension of each is the batch.

        The default is 5 positions, and 30 for a window: one that leaves every position open has no visible effect.
        """
        positions = positions or (30 if self.kind == "window" else 5)
        query, keys = self.sample(sentences, queries, positions, seed)
        if self.kind == "normalizer":
            generator = torch.Generator().manual_seed(seed)
            return {"scores": 2 * torch.randn(sentences, queries, positions, generator=generator)}
        if self.kind == "window":
            steps = torch.arange(queries).expand(sentences, -1).clone()
            return {"query": query, "is_token": torch.ones(sentences, 1, positions, dtype=torch.bool), "steps": steps}
        return {"query": query, "keys": keys}

    def prepare(self, part: Any, inputs: Inputs) -> Any:
        """What the part computes once per source; None for a normalizer or window."""
        return part.prepare(inputs["keys"]) if self.kind in ("scorer", "context") else None

    def read(self, part: Any, prepared: Any, inputs: Inputs) -> Tensor:
        """Everything that the part computes of T queries as one tensor, batch first.

        Scorer: scores (B, T, S). Normalizer: weights (B, T, S). Window: its effect on weights of 1, (B, T, S). Context:
        contexts and weights, concatenated to (B, T, value_size + S). Queries are consecutive steps for a part with a
        history, and independent of each other for any other part.
        """
        results: Tensor
        if self.kind == "context":
            results = torch.cat(part(inputs["query"], prepared), dim=-1)
        elif self.kind == "window":
            view, shape = part(**inputs), (*inputs["query"].shape[:2], inputs["is_token"].shape[-1])
            factor = inputs["query"].new_ones(shape) if view.factor is None else view.factor.expand(shape)
            results = factor if view.is_open is None else torch.where(view.is_open, factor, 0.0)
        elif part.needs_history:
            results = _over_steps(part, prepared, inputs)
        else:
            results = part(inputs["query"], prepared) if self.kind == "scorer" else part(inputs["scores"])
        return results

    def call(self, part: Any, inputs: Inputs) -> Tensor:
        """`prepare` and `read` in one."""
        return self.read(part, self.prepare(part, inputs), inputs)

    def run(self, part: Any, inputs: Inputs) -> Tensor:
        """`call` on copies: only the law `arguments` is to report a part that changes its arguments in place."""
        return self.call(part, {name: tensor.clone() for name, tensor in inputs.items()})


def _over_steps(part: Any, prepared: Any, inputs: Inputs) -> Tensor:
    """The scores or weights of consecutive steps, each of which gets the history of those before it."""
    if isinstance(part, Scorer):
        history, rows = part.start(prepared), []
        for one in torch.split(inputs["query"], 1, dim=1):
            rows.append(part.after(history, one, prepared))
            history = part.advance(history, one, prepared, rows[-1].softmax(dim=-1))
    else:
        history, rows = part.start(inputs["scores"][:, :1]), []
        for one in torch.split(inputs["scores"], 1, dim=1):
            rows.append(part.after(history, one))
            history = part.advance(history, rows[-1])
    return torch.cat(rows, dim=1)


# Comparisons


class BrokenLawError(AssertionError):
    """A law is broken; the message says in one sentence what is wrong."""


def require(is_kept: Any, sentence: str) -> None:
    """Raises BrokenLawError with the sentence unless the condition is true."""
    if not is_kept:
        raise BrokenLawError(sentence)


def max_error(actual: Tensor, expected: Tensor) -> float:
    """max |actual - expected| / max(1, max |expected|).

    Equal infinities differ by 0; a NaN or a difference in shape gives infinity.
    """
    if actual.shape != expected.shape:
        return math.inf
    if not expected.numel():
        return 0.0
    difference = torch.where(actual == expected, 0.0, actual.double() - expected.double()).abs()
    scale = torch.where(expected.isfinite(), expected, 0.0).double().abs().amax().clamp(min=1)
    return (difference.amax() / scale).nan_to_num(nan=math.inf, posinf=math.inf).item()


def is_close(actual: Tensor, expected: Tensor) -> bool:
    """Whether two tensors differ by rounding at most."""
    return max_error(actual, expected) <= TOLERANCE


def same(actual: Tensor, expected: Tensor, sentence: str) -> None:
    """Raises BrokenLawError with the sentence and the error if two tensors differ by more than rounding."""
    error = max_error(actual, expected)
    require(error <= TOLERANCE, f"{sentence} (the error is {error:.2g})")


def described(result: object) -> str:
    """Shape and dtype of a tensor, for a message; of anything else its type."""
    return f"{tuple(result.shape)} of {result.dtype}" if isinstance(result, Tensor) else f"a {type(result).__name__}"


def choose(inputs: Inputs, sentences: Any = slice(None), queries: Any = slice(None)) -> dict[str, Tensor]:
    """The inputs of these sentences, and of these queries, given as indices or slices."""
    return {
        name: tensor[sentences][:, queries] if name in _PER_QUERY else tensor[sentences]
        for name, tensor in inputs.items()
    }


def cast(inputs: Inputs, dtype: torch.dtype) -> dict[str, Tensor]:
    """The inputs with floating-point tensors in `dtype`; masks and counts are unchanged."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


# Gradients


def leaves_of(part: nn.Module, inputs: Inputs) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Copies of the inputs, and by name everything in them and in the part that can have a gradient."""
    copies = {name: tensor.clone() for name, tensor in inputs.items()}
    leaves = {name: tensor.requires_grad_() for name, tensor in copies.items() if tensor.is_floating_point()}
    return copies, leaves | {name: each for name, each in part.named_parameters() if each.requires_grad}


def projected(results: Tensor) -> Tensor:
    """The sum of the finite results, each times a random number that depends on the shape alone."""
    direction = torch.randn(results.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.where(results.isfinite(), results, 0.0).mul(direction.to(results.dtype)).sum()


def gradients_of(results: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradient of `projected` results by each leaf; 0 for a leaf that they do not depend on."""
    found: Any = [None] * len(leaves)
    if results.requires_grad and leaves:
        found = torch.autograd.grad(projected(results), list(leaves.values()), retain_graph=True, allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if each is None else each
        for (name, leaf), each in zip(leaves.items(), found, strict=True)
    }


def is_weight_hook(hook: Any) -> bool:
    """Whether a forward pre-hook belongs to torch.nn.utils.weight_norm or spectral_norm."""
    return type(hook).__module__.startswith("torch.nn.utils") and hasattr(hook, "name")


def is_reparametrized(part: nn.Module) -> bool:
    """Whether torch's utilities compute a weight from others, as both forms of weight_norm do."""
    return any(
        parametrize.is_parametrized(module) or any(map(is_weight_hook, module._forward_pre_hooks.values()))
        for module in part.modules()
    )
