"""Laws of calls: one call has nothing to do with the next, and a copy of a part is the same part.

They hold for scorers, normalisers, windows and contexts alike.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from seq2seq_attn.attention import HistoryNormaliser, HistoryScorer, Scorer
from seq2seq_attn.doctor.subject import BASES, Finding, Subject, apart, is_same, note, ok, warning, wrong


def determinism(subject: Subject) -> Finding:
    """In eval mode the same arguments give the same bits, whether gradients are recorded or not."""
    part, inputs = subject.fresh(), subject.inputs()
    with torch.no_grad():
        first = subject.run(part, inputs).nan_to_num()
        for _ in range(4):
            again = subject.run(part, inputs).nan_to_num()
            if not torch.equal(again, first):
                return wrong(f"two calls in eval mode with the same arguments differ by {apart(again, first):.2g}")
    recorded = subject.run(part, _requiring_grad(inputs)).detach().nan_to_num()
    with torch.inference_mode():
        inferred = subject.run(part, inputs).nan_to_num().clone()
    for mode, values in {"with gradients recorded": recorded, "in inference mode": inferred}.items():
        distance = apart(values, first)
        if not is_same(distance):
            return wrong(f"a call {mode} differs by {distance:.2g} from one without gradients")
    return ok("calls in eval mode give the same bits")


@torch.no_grad()
def inputs(subject: Subject) -> Finding:
    """No argument is changed in place, nor what was prepared, nor a history."""
    part, given = subject.fresh(), subject.inputs()
    kept = {name: tensor.clone() for name, tensor in given.items()}
    if isinstance(part, Scorer):
        prepared = part.prepare(given["keys"])
        if not torch.equal(given["keys"], kept["keys"]):
            return wrong(f"prepare changes the keys in place, by {apart(given['keys'], kept['keys']):.2g}")
        given, kept = given | {"prepared keys": prepared}, kept | {"prepared keys": prepared.clone()}
        part(given["query"], prepared)
    elif subject.kind == "context":
        source = part.prepare(given["keys"])
        tensors = list(_tensors(source))
        given |= {f"source (its tensor {number})": each for number, each in enumerate(tensors)}
        kept |= {name: tensor.clone() for name, tensor in given.items() if name not in kept}
        part(given["query"][:, :1], source, part.start(source))
    else:
        subject.call(part, given)
    for name, tensor in given.items():
        if not torch.equal(tensor.nan_to_num(), kept[name].nan_to_num()):
            return wrong(f"forward changes the {name} in place, by {apart(tensor, kept[name]):.2g}")
    return ok(f"{', '.join(given)} stay as they were")


@torch.no_grad()
def memory(subject: Subject) -> Finding:
    """Results depend on the arguments alone, whatever was computed in between; nothing stays on the part.

    What is on the part, on its class and among its module's variables is compared by contents, before and after.
    """
    part, inputs, others = subject.fresh(), subject.inputs(), subject.inputs(seed=1)
    before = _contents(part)
    if isinstance(part, Scorer):
        prepared = part.prepare(inputs["keys"].clone())
        expected = part(inputs["query"].clone(), prepared.clone())
        part(others["query"], part.prepare(others["keys"]))
        again = part(inputs["query"].clone(), prepared.clone())
    else:
        expected = subject.run(part, inputs)
        subject.run(part, others)
        again = subject.run(part, inputs)
    distance = apart(again, expected)
    if not is_same(distance):
        return wrong(f"results move by {distance:.2g} once another sentence was prepared; keep nothing on self")
    reused = {name: tensor.clone() for name, tensor in others.items()}
    subject.call(part, reused)
    for name, tensor in inputs.items():
        reused[name].copy_(tensor)  # the same memory with other numbers: what is cached by address is out of date
    distance = apart(subject.call(part, reused), subject.run(part, inputs))
    if not is_same(distance):
        return wrong(f"results are {distance:.2g} away where a tensor was filled again; cache nothing by identity")
    after = _contents(part)
    left = sorted(name for name in after if name not in before or before[name] != after[name])
    grown = [name for name in left if _length(after[name]) > _length(before.get(name, ()))]
    if grown:
        return wrong(f"{', '.join(grown)} grows with every call, and keeps all that it was computed from")
    if left:
        return warning(f"a call leaves {', '.join(left)} behind, and with it all that it was computed from")
    return ok("the same results after another sentence; nothing is left on the part")


def strides(subject: Subject) -> Finding:
    """A tensor that is a view of another is read as its numbers say, however they lie in memory."""
    part = subject.fresh()
    worst = 0.0
    for way, inputs, views in _views(subject):
        with torch.no_grad():
            distance = apart(subject.call(part, views), subject.run(part, inputs))
        if not is_same(distance):
            return wrong(f"results are {distance:.2g} away where inputs are {way}; use reshape, not the storage")
        worst = max(worst, distance)
    if isinstance(part, Scorer):
        query, keys = subject.sample()
        with torch.no_grad():
            prepared = part.prepare(keys)
            distance = apart(part(query, _transposed(prepared)), part(query, prepared))
        if not is_same(distance):
            return wrong(f"scores are {distance:.2g} away where prepared keys are transposed in memory")
        worst = max(worst, distance)
    return ok(f"transposed, expanded, cut out or spread in memory: results are {worst:.1g} away")


def _views(subject: Subject) -> Iterator[tuple[str, dict[str, Tensor], dict[str, Tensor]]]:
    """How the numbers lie, contiguous inputs, and the same numbers lying so."""
    inputs = subject.inputs(sentences=3, queries=4)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "transposed in memory": _transposed,
        "cut out of a longer tensor": lambda x: torch.cat((x, x, x), dim=1)[:, x.shape[1] : 2 * x.shape[1]],
        "every second number of a wider tensor": lambda x: torch.stack((x, x.roll(1, 0)), dim=-1)[..., 0],
        "with the sentences far apart": lambda x: torch.stack((x.roll(1, 0), x), dim=1)[:, 1],
    }
    for way, view in ways.items():
        yield way, inputs, {name: view(tensor) for name, tensor in inputs.items()}
    alike = {name: tensor[:1].repeat(3, *[1] * (tensor.dim() - 1)) for name, tensor in inputs.items()}
    yield "one sentence expanded", alike, {name: tensor[:1].expand_as(tensor) for name, tensor in alike.items()}


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def training(subject: Subject) -> Finding:
    """In training mode a part computes what it computes in eval mode, but for random numbers that it draws.

    With dropout switched off, values and gradients are those of eval mode. Where other random numbers are drawn they
    cannot be compared; then, as always, no sentence gets a gradient of another one's results.
    """
    evaluated = _differentiated(subject, training=False)
    with _WithoutDropout():
        first, second = (_differentiated(subject, training=True, seed=seed) for seed in (1, 2))
        repeated = _differentiated(subject, training=True, seed=1)
    leak = _leak(subject)
    if leak:
        return wrong(leak)
    if not is_same(apart(repeated["results"], first["results"])):
        return warning("two calls in training mode under one seed differ: draw from torch's generator alone")
    if not is_same(apart(second["results"], first["results"])):
        unreached = sorted(name for name, size in evaluated.items() if size.any() and not first[name].any())
        if unreached and subject.kind != "normaliser":
            return wrong(f"in training mode no gradient reaches {', '.join(unreached)}")
        return note("training mode draws random numbers that are not dropout: its values were not compared")
    moved = {name: distance for name in evaluated if not is_same(distance := apart(first[name], evaluated[name]))}
    if moved:
        says = f"without random numbers, {', '.join(moved)} of training mode are {max(moved.values()):.2g} away from"
        # A normaliser may take a soft form in training mode, such as `Monotonic`; so may a context around it. A
        # reparametrisation may refine its weights there, as spectral_norm does.
        may = subject.kind in ("normaliser", "context") or _is_reparametrised(subject.fresh())
        verdict = note if may else wrong
        return verdict(f"{says} those of eval mode")
    with torch.no_grad():
        torch.default_generator.manual_seed(1)
        dropped = subject.run(subject.fresh(seed=0).train(), subject.inputs())
    if dropped.shape != first["results"].shape or dropped.isnan().any():
        return wrong(f"with dropout the result is {tuple(dropped.shape)}, or NaN")
    random = "" if is_same(apart(dropped, first["results"])) else ", but for dropout"
    return ok(f"training mode gives the values and gradients of eval mode{random}")


def _differentiated(subject: Subject, training: bool, seed: int = 1) -> dict[str, Tensor]:
    """The results, and the gradients of a fixed random sum of them by all inputs and parameters."""
    part = subject.fresh(seed=0).train(training)
    inputs = _requiring_grad(subject.inputs())
    torch.default_generator.manual_seed(seed)
    results = subject.run(part, inputs)
    leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    leaves |= {name: each for name, each in part.named_parameters() if each.requires_grad}
    found: Sequence[Tensor | None] = [None] * len(leaves)
    if results.requires_grad and leaves:
        draw = torch.randn(results.shape, generator=torch.Generator().manual_seed(3))
        summed = torch.where(results.isfinite(), results, 0.0).mul(draw).sum()
        found = torch.autograd.grad(summed, list(leaves.values()), allow_unused=True)
    gradients = {
        f"the gradient of {name}": torch.zeros_like(leaf) if each is None else each
        for (name, leaf), each in zip(leaves.items(), found, strict=True)
    }
    return {"results": results.detach(), **gradients}


def _leak(subject: Subject) -> str | None:
    """Whether, in training mode, the results of the first sentence have a gradient at another sentence."""
    part = subject.fresh(seed=0).train()
    inputs = _requiring_grad(subject.inputs(sentences=3))
    results = subject.run(part, inputs)
    leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    if not (results.requires_grad and leaves):
        return None
    first = torch.where(results[0].isfinite(), results[0], 0.0)
    draw = torch.randn(first.shape, generator=torch.Generator().manual_seed(3))
    found = torch.autograd.grad(first.mul(draw).sum(), list(leaves.values()), allow_unused=True)
    for name, gradient in zip(leaves, found, strict=True):
        if gradient is not None and gradient[1:].abs().amax() > 1e-6:
            return f"in training mode the results of a sentence depend on the {name} of another: sentences are mixed"
    return None


class _WithoutDropout(TorchFunctionMode):
    """Inside it every form of torch's dropout gives back its input."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "").rstrip("_123d").endswith("dropout"):
            return args[0] if args else kwargs["input"]
        return function(*args, **(kwargs or {}))


def state_dict(subject: Subject) -> Finding:
    """All that was drawn or learnt is in the state_dict: a new part gives the same results once it has loaded it."""
    part, twin = subject.fresh(), subject.fresh()
    twin.load_state_dict(part.state_dict())
    distance = _distance(subject, twin, part)
    if not is_same(distance):
        return wrong(f"a new {subject.kind} that loads the state_dict is {distance:.2g} away: register what is missing")
    return ok(f"{len(part.state_dict())} tensors, and a new {subject.kind} that loads them gives the same results")


def copies(subject: Subject) -> Finding:
    """deepcopy and pickle give a part with the same results that shares no parameter."""
    part = subject.fresh()
    ways: dict[str, Callable[[nn.Module], nn.Module]] = {"deepcopy": copy.deepcopy}
    # A class inside a function cannot be pickled, whatever the part does.
    if "<locals>" not in subject.part.__qualname__:
        ways["pickle"] = lambda part: pickle.loads(pickle.dumps(part))
    refused = []
    for way, copied in ways.items():
        try:
            twin = copied(part)
        except RuntimeError:
            if not _is_reparametrised(part):
                raise
            refused.append(way)
            continue
        distance = _distance(subject, twin, part)
        if not is_same(distance):
            return wrong(f"results after {way} are {distance:.2g} away")
        if {each.data_ptr() for each in twin.parameters()} & {each.data_ptr() for each in part.parameters()}:
            return wrong(f"{way} shares parameters with its original")
    if refused:
        return note(f"torch refuses {' and '.join(refused)} of a reparametrised module; use its state_dict")
    return ok(f"{' and '.join(ways)} give the same results and share nothing")


def _is_reparametrised(part: nn.Module) -> bool:
    """Whether a weight is computed from others by torch's own utilities, such as weight_norm of either kind."""
    return any(
        parametrize.is_parametrized(module) or any(map(_is_of_torch, module._forward_pre_hooks.values()))
        for module in part.modules()
    )


def _is_of_torch(hook: Any) -> bool:
    return type(hook).__module__.startswith("torch.nn.utils") and hasattr(hook, "name")


@torch.no_grad()
def _distance(subject: Subject, one: nn.Module, other: nn.Module) -> float:
    inputs = subject.inputs()
    return apart(subject.run(one, inputs), subject.run(other, inputs))


def _requiring_grad(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor.clone().requires_grad_() if tensor.is_floating_point() else tensor
        for name, tensor in inputs.items()
    }


def _tensors(record: Any) -> Iterator[Tensor]:
    if isinstance(record, Tensor):
        yield record
    elif isinstance(record, (tuple, list)):
        yield from itertools.chain.from_iterable(map(_tensors, record))


def _contents(part: nn.Module) -> dict[str, Any]:
    """Everything that can be remembered, by name, as values that compare by contents."""
    found: dict[str, Any] = {}
    for path, module in part.named_modules():
        prefix = f"self.{path}." if path else "self."
        # Hooks are torch's; weight_norm keeps the weight that its hook computes from two parameters.
        computed = {hook.name for hook in module._forward_pre_hooks.values() if _is_of_torch(hook)}
        found |= {
            prefix + name: value
            for name, value in vars(module).items()
            if not name.startswith("_forward") and name not in computed
        }
        found |= {prefix + name: value for name, value in module.named_buffers(recurse=False)}
    ours = {*BASES.values(), HistoryScorer, HistoryNormaliser, nn.Module}
    for cls in (each for each in type(part).__mro__ if each not in ours and each.__module__ != "builtins"):
        found |= {f"{cls.__name__}.{name}": value for name, value in vars(cls).items() if not name.startswith("__")}
        module_of = sys.modules.get(cls.__module__)
        if module_of is not None and not cls.__module__.startswith(("seq2seq_attn.", "torch.")):
            variables = vars(module_of).items()
            found |= {f"{cls.__module__}.{name}": value for name, value in variables if not name.startswith("__")}
    return {name: _frozen(value) for name, value in found.items()}


def _frozen(value: Any, depth: int = 6) -> Any:
    """The contents of a value, for a comparison later; what has no contents that can be read, by its identity."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), value.dtype, _bytes(value)
    if depth == 0:
        return id(value)
    if isinstance(value, dict):
        return "dict", tuple((_frozen(key, depth - 1), _frozen(each, depth - 1)) for key, each in value.items())
    if isinstance(value, (list, tuple, deque)):
        return "list", tuple(_frozen(each, depth - 1) for each in value)
    if isinstance(value, (set, frozenset)):
        return "set", tuple(sorted(map(str, value)))
    if hasattr(value, "tobytes"):
        return "array", value.tobytes()
    if hasattr(value, "cache_info"):
        return "cache", tuple(range(value.cache_info().currsize))
    if callable(value) and hasattr(value, "__defaults__"):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != type(cell)()]
        return "function", id(value), _frozen([value.__defaults__, value.__kwdefaults__, cells], depth - 1)
    if hasattr(value, "__dict__") and not isinstance(value, (type, nn.Module)) and type(value) is not type(sys):
        return "object", id(value), _frozen(dict(vars(value)), depth - 1)
    return id(value)


def _bytes(tensor: Tensor) -> bytes:
    tensor = tensor.detach()
    if tensor.is_meta or not tensor.numel():
        return b""
    return tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _length(frozen: Any) -> int:
    """How many entries a container has."""
    return len(frozen[1]) if isinstance(frozen, tuple) and len(frozen) == 2 and isinstance(frozen[1], tuple) else 0
