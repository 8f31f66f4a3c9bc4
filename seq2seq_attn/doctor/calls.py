"""Laws of calls and copies: calls are independent of each other, and a copy of a part behaves as the part does.

They apply to scorers, normalizers, windows and contexts.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from seq2seq_attn.attention import Scorer
from seq2seq_attn.doctor.subject import (
    Finding,
    Subject,
    is_close,
    is_weight_hook,
    max_error,
    note,
    ok,
    snapshot_length,
    stored_values,
    warning,
    wrong,
)


def determinism(subject: Subject) -> Finding:
    """In eval mode the same arguments give bitwise equal results, and autograd does not change them."""
    part, inputs = subject.fresh(), subject.inputs()
    with torch.no_grad():
        first = subject.run(part, inputs).nan_to_num()
        for _ in range(4):
            again = subject.run(part, inputs).nan_to_num()
            if not torch.equal(again, first):
                return wrong(f"two calls in eval mode with the same arguments differ by {max_error(again, first):.2g}")
    recorded = subject.run(part, _requiring_grad(inputs)).detach().nan_to_num()
    with torch.inference_mode():
        inferred = subject.run(part, inputs).nan_to_num().clone()
    for mode, values in {"that records gradients": recorded, "in inference mode": inferred}.items():
        error = max_error(values, first)
        if not is_close(error):
            return wrong(f"a call {mode} differs by {error:.2g} from one without gradients")
    return ok("calls in eval mode are bitwise equal")


@torch.no_grad()
def inputs(subject: Subject) -> Finding:
    """No argument is modified in place, and neither are prepared keys and sources."""
    part, given = subject.fresh(), subject.inputs()
    kept = {name: tensor.clone() for name, tensor in given.items()}
    if isinstance(part, Scorer):
        prepared = part.prepare(given["keys"])
        if not torch.equal(given["keys"], kept["keys"]):
            return wrong(f"prepare modifies the keys in place, by {max_error(given['keys'], kept['keys']):.2g}")
        given, kept = given | {"prepared keys": prepared}, kept | {"prepared keys": prepared.clone()}
        part(given["query"], prepared)
    elif subject.kind == "context":
        source = part.prepare(given["keys"])
        tensors = list(_tensors(source))
        given |= {f"source (tensor {number})": each for number, each in enumerate(tensors)}
        kept |= {name: tensor.clone() for name, tensor in given.items() if name not in kept}
        part(given["query"][:, :1], source, part.start(source))
    else:
        subject.call(part, given)
    for name, tensor in given.items():
        if not torch.equal(tensor.nan_to_num(), kept[name].nan_to_num()):
            return wrong(f"forward modifies the {name} in place, by {max_error(tensor, kept[name]):.2g}")
    return ok(f"not modified: {', '.join(given)}")


@torch.no_grad()
def memory(subject: Subject) -> Finding:
    """Results depend on the arguments alone, not on earlier calls, and a call stores nothing.

    The contents of the part's attributes, of its class and of its module's variables are compared before and after.
    """
    part, inputs, others = subject.fresh(), subject.inputs(), subject.inputs(seed=1)
    before = stored_values(part)
    if isinstance(part, Scorer):
        prepared = part.prepare(inputs["keys"].clone())
        expected = part(inputs["query"].clone(), prepared.clone())
        part(others["query"], part.prepare(others["keys"]))
        again = part(inputs["query"].clone(), prepared.clone())
    else:
        expected = subject.run(part, inputs)
        subject.run(part, others)
        again = subject.run(part, inputs)
    error = max_error(again, expected)
    if not is_close(error):
        return wrong(f"results change by {error:.2g} after another sentence was prepared; store nothing on self")
    reused = {name: tensor.clone() for name, tensor in others.items()}
    subject.call(part, reused)
    for name, tensor in inputs.items():
        reused[name].copy_(tensor)  # the same memory with other values: a cache by address would be stale
    error = max_error(subject.call(part, reused), subject.run(part, inputs))
    if not is_close(error):
        return wrong(f"results are wrong by {error:.2g} after a tensor was overwritten; cache nothing by identity")
    after = stored_values(part)
    left = sorted(name for name in after if name not in before or before[name] != after[name])
    grown = [name for name in left if snapshot_length(after[name]) > snapshot_length(before.get(name, ()))]
    if grown:
        return wrong(f"{', '.join(grown)} grows with every call, which keeps tensors and their graphs in memory")
    if left:
        return warning(f"a call changes {', '.join(left)}, which may keep tensors and their graphs in memory")
    return ok("equal results after another sentence; a call stores nothing")


def strides(subject: Subject) -> Finding:
    """Results depend on the values of a tensor, not on its strides or storage offset."""
    part = subject.fresh()
    worst = 0.0
    for way, inputs, views in _views(subject):
        with torch.no_grad():
            error = max_error(subject.call(part, views), subject.run(part, inputs))
        if not is_close(error):
            return wrong(f"results change by {error:.2g} for inputs {way}; use reshape, not the storage")
        worst = max(worst, error)
    if isinstance(part, Scorer):
        query, keys = subject.sample()
        with torch.no_grad():
            prepared = part.prepare(keys)
            error = max_error(part(query, _transposed(prepared)), part(query, prepared))
        if not is_close(error):
            return wrong(f"scores change by {error:.2g} for prepared keys transposed in memory")
        worst = max(worst, error)
    return ok(f"results change by {worst:.1g} at most for inputs transposed, expanded, sliced or strided in memory")


def _views(subject: Subject) -> Iterator[tuple[str, dict[str, Tensor], dict[str, Tensor]]]:
    """Yield a memory layout in words, contiguous inputs, and the same values in that layout."""
    inputs = subject.inputs(sentences=3, queries=4)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "transposed in memory": _transposed,
        "sliced from a longer tensor": lambda x: torch.cat((x, x, x), dim=1)[:, x.shape[1] : 2 * x.shape[1]],
        "that are every second element of a wider tensor": lambda x: torch.stack((x, x.roll(1, 0)), dim=-1)[..., 0],
        "with gaps between the sentences": lambda x: torch.stack((x.roll(1, 0), x), dim=1)[:, 1],
    }
    for way, view in ways.items():
        yield way, inputs, {name: view(tensor) for name, tensor in inputs.items()}
    alike = {name: tensor[:1].repeat(3, *[1] * (tensor.dim() - 1)) for name, tensor in inputs.items()}
    yield "expanded from one sentence", alike, {name: tensor[:1].expand_as(tensor) for name, tensor in alike.items()}


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def training(subject: Subject) -> Finding:
    """Training mode differs from eval mode by random numbers only.

    With dropout switched off, values and gradients equal those in eval mode. They cannot be compared if the part draws
    other random numbers. In any case the results of one sentence have no gradient with respect to another.
    """
    evaluated = _differentiated(subject, training=False)
    with _WithoutDropout():
        first, second = (_differentiated(subject, training=True, seed=seed) for seed in (1, 2))
        repeated = _differentiated(subject, training=True, seed=1)
    leak = _leak(subject)
    if leak:
        return wrong(leak)
    if not is_close(max_error(repeated["results"], first["results"])):
        return warning("two calls in training mode with one seed differ; use no generator other than torch's default")
    if not is_close(max_error(second["results"], first["results"])):
        unreached = sorted(name for name, size in evaluated.items() if size.any() and not first[name].any())
        if unreached and subject.kind != "normalizer":
            return wrong(f"in training mode no gradient reaches {', '.join(unreached)}")
        return note("training mode draws random numbers other than dropout, so its values were not compared")
    moved = {name: error for name in evaluated if not is_close(error := max_error(first[name], evaluated[name]))}
    if moved:
        message = f"without random numbers, {', '.join(moved)} differ by {max(moved.values()):.2g}"
        # A normalizer such as `Monotonic` may have a soft form in training mode, and so may a context that contains it.
        # A reparametrization may update its weights, as spectral_norm does.
        is_allowed = subject.kind in ("normalizer", "context") or _is_reparametrized(subject.fresh())
        verdict = note if is_allowed else wrong
        return verdict(f"{message} between training and eval mode")
    with torch.no_grad():
        torch.default_generator.manual_seed(1)
        dropped = subject.run(subject.fresh(seed=0).train(), subject.inputs())
    if dropped.shape != first["results"].shape or dropped.isnan().any():
        return wrong(f"with dropout the results have shape {tuple(dropped.shape)}, or are NaN")
    random = "" if is_close(max_error(dropped, first["results"])) else ", except for dropout"
    return ok(f"values and gradients in training mode equal those in eval mode{random}")


def _differentiated(subject: Subject, training: bool, seed: int = 1) -> dict[str, Tensor]:
    """The results, and the gradients of a fixed random projection of them by all inputs and parameters."""
    part = subject.fresh(seed=0).train(training)
    inputs = _requiring_grad(subject.inputs())
    torch.default_generator.manual_seed(seed)
    results = subject.run(part, inputs)
    leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    leaves |= {name: each for name, each in part.named_parameters() if each.requires_grad}
    found: Sequence[Tensor | None] = [None] * len(leaves)
    if results.requires_grad and leaves:
        direction = torch.randn(results.shape, generator=torch.Generator().manual_seed(3))
        summed = torch.where(results.isfinite(), results, 0.0).mul(direction).sum()
        found = torch.autograd.grad(summed, list(leaves.values()), allow_unused=True)
    gradients = {
        f"the gradient of {name}": torch.zeros_like(leaf) if each is None else each
        for (name, leaf), each in zip(leaves.items(), found, strict=True)
    }
    return {"results": results.detach(), **gradients}


def _leak(subject: Subject) -> str | None:
    """An error message if, in training mode, the results of the first sentence have a gradient at another sentence."""
    part = subject.fresh(seed=0).train()
    inputs = _requiring_grad(subject.inputs(sentences=3))
    results = subject.run(part, inputs)
    leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    if not (results.requires_grad and leaves):
        return None
    first = torch.where(results[0].isfinite(), results[0], 0.0)
    direction = torch.randn(first.shape, generator=torch.Generator().manual_seed(3))
    found = torch.autograd.grad(first.mul(direction).sum(), list(leaves.values()), allow_unused=True)
    for name, gradient in zip(leaves, found, strict=True):
        if gradient is not None and gradient[1:].abs().amax() > 1e-6:
            return f"in training mode the results of one sentence depend on the {name} of another"
    return None


class _WithoutDropout(TorchFunctionMode):
    """Within this context every dropout function of torch returns its input."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "").rstrip("_123d").endswith("dropout"):
            return args[0] if args else kwargs["input"]
        return function(*args, **(kwargs or {}))


def state_dict(subject: Subject) -> Finding:
    """The state_dict is complete: a new part that loads it gives the same results."""
    part, twin = subject.fresh(), subject.fresh()
    twin.load_state_dict(part.state_dict())
    error = _output_error(subject, twin, part)
    if not is_close(error):
        return wrong(
            f"results of a new {subject.kind} that loads the state_dict differ by {error:.2g}; "
            f"register all tensors as parameters or buffers"
        )
    return ok(f"a new {subject.kind} that loads the {len(part.state_dict())} tensors gives the same results")


def copies(subject: Subject) -> Finding:
    """deepcopy and pickle give parts with the same results and parameters of their own."""
    part = subject.fresh()
    ways: dict[str, Callable[[nn.Module], nn.Module]] = {"deepcopy": copy.deepcopy}
    # A class defined in a function cannot be pickled in any case.
    if "<locals>" not in subject.part.__qualname__:
        ways["pickle"] = lambda part: pickle.loads(pickle.dumps(part))
    refused = []
    for way, copied in ways.items():
        try:
            twin = copied(part)
        except RuntimeError:
            if not _is_reparametrized(part):
                raise
            refused.append(way)
            continue
        error = _output_error(subject, twin, part)
        if not is_close(error):
            return wrong(f"results differ by {error:.2g} after {way}")
        if {each.data_ptr() for each in twin.parameters()} & {each.data_ptr() for each in part.parameters()}:
            return wrong(f"{way} shares parameters with its original")
    if refused:
        return note(f"torch does not support {' and '.join(refused)} for a reparametrized module; use its state_dict")
    return ok(f"{' and '.join(ways)} give the same results and share no parameters")


def _is_reparametrized(part: nn.Module) -> bool:
    """Whether torch's utilities compute a weight from others, as both forms of weight_norm do."""
    return any(
        parametrize.is_parametrized(module) or any(map(is_weight_hook, module._forward_pre_hooks.values()))
        for module in part.modules()
    )


@torch.no_grad()
def _output_error(subject: Subject, one: nn.Module, other: nn.Module) -> float:
    inputs = subject.inputs()
    return max_error(subject.run(one, inputs), subject.run(other, inputs))


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
