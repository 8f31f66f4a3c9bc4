"""The part under test, its test inputs, and the result of a law.

A `Subject` is a scorer, normalizer, window or context that can be constructed as often as a law needs a fresh one. Its
methods `inputs` and `call` give laws one interface to all four kinds: batch-first tensors go in, one tensor comes out.
A law is a function of a `Subject` that returns a `Finding`.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Attention,
    Context,
    General,
    HistoryNormalizer,
    HistoryScorer,
    Normalizer,
    Scorer,
    Window,
)

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
SATURATION_SIZES = (64, 256, 1024)

TOLERANCE = 1e-4  # of `max_error`: far above rounding in float32, far below the effect of a defect
_NOISE = 0.02  # standard deviation of the noise added to every parameter

# ok: the law holds. note: it holds, with a remark. warning: allowed but rarely intended. wrong: the law is broken.
Verdict = Literal["ok", "note", "warning", "wrong"]


class Finding(NamedTuple):
    verdict: Verdict
    message: str  # one line, with its figures


def ok(message: str) -> Finding:
    return Finding("ok", message)


def note(message: str) -> Finding:
    return Finding("note", message)


def warning(message: str) -> Finding:
    return Finding("warning", message)


def wrong(message: str) -> Finding:
    return Finding("wrong", message)


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


def is_close(error: float) -> bool:
    """Whether two tensors with this `max_error` count as equal."""
    return error <= TOLERANCE


@dataclass(frozen=True)
class Subject:
    """A part that can be constructed repeatedly."""

    kind: Kind
    part: type[nn.Module]
    make: Callable[[int, int], Any]  # (query_size, key_size) -> the part
    query_size: int
    key_size: int
    sizes: tuple[tuple[int, int], ...]  # (query_size, key_size) at which saturation is measured
    backend: str  # for torch.compile

    @property
    def name(self) -> str:
        sizes = {
            "normalizer": "",
            "window": f"query_size={self.query_size}",
        }.get(self.kind, f"query_size={self.query_size}, key_size={self.key_size}")
        return f"{self.part.__name__}({sizes})"

    def fresh(self, seed: int | None = None) -> Any:
        """A new part in eval mode, with noise on its parameters: many are initialized to 0, where every law holds.

        The same seed gives the same parameters.
        """
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        part = self.make(self.query_size, self.key_size).eval()
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.add_(_NOISE * torch.randn_like(parameter))
        return part

    def context(self, part: Any = None) -> Any:
        """The context that a decoder would use: the part itself, or an `Attention` that contains the part."""
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

    def call(self, part: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        """Everything that the part computes from these inputs, where the T queries are consecutive steps.

        Scorer: scores (B, T, S). Normalizer: weights (B, T, S). Window: its effect on weights of 1, (B, T, S).
        Context: contexts and weights, concatenated to (B, T, value_size + S).
        """
        return _CALLS[self.kind](part, **inputs)

    def run(self, part: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        """`call` on copies: only the law `inputs` is to report a part that modifies its arguments in place."""
        return self.call(part, {name: tensor.clone() for name, tensor in inputs.items()})


def compute_scores(scorer: Scorer, query: Tensor, keys: Tensor) -> Tensor:
    """Scores (B, T, S) without a history. The arguments are copied and the keys are prepared again."""
    scores: Tensor = scorer(query.clone(), scorer.prepare(keys.clone()))
    return scores


def compute_weights(context: Context, query: Tensor, keys: Tensor, is_token: Tensor | None = None) -> Tensor:
    """Weights (B, T, S) of T consecutive steps. The arguments are copied."""
    weights: Tensor
    _, weights = context(query.clone(), context.prepare(keys.clone(), is_token=is_token))
    return weights


def _scores_over_steps(scorer: Scorer, query: Tensor, keys: Tensor) -> Tensor:
    prepared = scorer.prepare(keys)
    if not scorer.needs_history:
        at_once: Tensor = scorer(query, prepared)
        return at_once
    history, scores = scorer.start(prepared), []
    for one in torch.split(query, 1, dim=1):
        scores.append(scorer.after(history, one, prepared))
        history = scorer.advance(history, one, prepared, scores[-1].softmax(dim=-1))
    return torch.cat(scores, dim=1)


def _weights_over_steps(normalizer: Normalizer, scores: Tensor) -> Tensor:
    if not normalizer.needs_history:
        at_once: Tensor = normalizer(scores)
        return at_once
    history, weights = normalizer.start(scores[:, :1]), []
    for one in torch.split(scores, 1, dim=1):
        weights.append(normalizer.after(history, one))
        history = normalizer.advance(history, weights[-1])
    return torch.cat(weights, dim=1)


def _windowed_ones(window: Window, query: Tensor, is_token: Tensor, steps: Tensor) -> Tensor:
    view = window(query, is_token, steps)
    shape = (*query.shape[:2], is_token.shape[-1])
    factor = query.new_ones(shape) if view.factor is None else view.factor.expand(shape)
    return factor if view.is_open is None else torch.where(view.is_open, factor, 0.0)


def _contexts_and_weights(context: Context, query: Tensor, keys: Tensor) -> Tensor:
    return torch.cat(context(query, context.prepare(keys)), dim=-1)


_CALLS: dict[Kind, Callable[..., Tensor]] = {
    "scorer": _scores_over_steps,
    "normalizer": _weights_over_steps,
    "window": _windowed_ones,
    "context": _contexts_and_weights,
}

Law: TypeAlias = Callable[[Subject], Finding]


def stored_values(part: nn.Module) -> dict[str, Any]:
    """Everything in which a part could keep a value between calls, by name, as snapshots that compare by contents.

    These are its attributes, and the variables of its classes and their modules.
    """
    found: dict[str, Any] = {}
    for path, module in part.named_modules():
        prefix = f"self.{path}." if path else "self."
        # The forward pre-hook of weight_norm stores the weight that it computes from two parameters.
        computed = {hook.name for hook in module._forward_pre_hooks.values() if is_weight_hook(hook)}
        found |= {
            prefix + name: value
            for name, value in vars(module).items()
            if not name.startswith("_forward") and name not in computed
        }
        found |= {prefix + name: value for name, value in module.named_buffers(recurse=False)}
    ours = {*BASES.values(), HistoryScorer, HistoryNormalizer, nn.Module}
    for cls in (each for each in type(part).__mro__ if each not in ours and each.__module__ != "builtins"):
        found |= {f"{cls.__name__}.{name}": value for name, value in vars(cls).items() if not name.startswith("__")}
        module_of = sys.modules.get(cls.__module__)
        if module_of is not None and not cls.__module__.startswith(("seq2seq_attn.", "torch.")):
            variables = vars(module_of).items()
            found |= {f"{cls.__module__}.{name}": value for name, value in variables if not name.startswith("__")}
    return {name: _snapshot(value) for name, value in found.items()}


def _snapshot(value: Any, depth: int = 6) -> Any:
    """A value that compares equal as long as the contents of this one do not change; its id if they are unreadable."""
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return value
    if isinstance(value, (float, complex)):
        return repr(value)  # as NaN is not equal to itself
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), value.dtype, _bytes(value)
    if depth == 0:
        return id(value)
    if isinstance(value, dict):
        return "dict", tuple((_snapshot(key, depth - 1), _snapshot(each, depth - 1)) for key, each in value.items())
    if isinstance(value, (list, tuple, deque)):
        return "list", tuple(_snapshot(each, depth - 1) for each in value)
    if isinstance(value, (set, frozenset)):
        return "set", tuple(sorted(map(str, value)))
    if hasattr(value, "tobytes"):
        return "array", value.tobytes()
    if hasattr(value, "cache_info"):
        return "cache", tuple(range(value.cache_info().currsize))
    if callable(value) and hasattr(value, "__defaults__"):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != type(cell)()]
        return "function", id(value), _snapshot([value.__defaults__, value.__kwdefaults__, cells], depth - 1)
    if hasattr(value, "__dict__") and not isinstance(value, (type, nn.Module)) and type(value) is not type(sys):
        return "object", id(value), _snapshot(dict(vars(value)), depth - 1)
    return id(value)


def _bytes(tensor: Tensor) -> bytes:
    tensor = tensor.detach()
    if tensor.is_meta or not tensor.numel():
        return b""
    tensor = tensor.cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)  # as NumPy, which may be missing, would copy them


def snapshot_length(snapshot: Any) -> int:
    """The number of entries if it is the snapshot of a container, otherwise 0."""
    is_container = isinstance(snapshot, tuple) and len(snapshot) == 2 and isinstance(snapshot[1], tuple)
    return len(snapshot[1]) if is_container else 0


def is_weight_hook(hook: Any) -> bool:
    """Whether a forward pre-hook belongs to torch.nn.utils.weight_norm or spectral_norm."""
    return type(hook).__module__.startswith("torch.nn.utils") and hasattr(hook, "name")
