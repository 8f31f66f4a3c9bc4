"""Laws of every part: its shapes, calls that are independent of each other, memory, training mode and copies."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2seq_attn.testing.subject import (
    BrokenLawError,
    Subject,
    choose,
    described,
    gradients_of,
    is_close,
    is_reparametrized,
    leaves_of,
    require,
    same,
)

_SHAPES = ((2, 3, 5), (1, 3, 5), (2, 1, 5), (2, 3, 1), (1, 1, 1), (4, 4, 4))  # (B, T, S)


def shapes(subject: Subject) -> None:
    """Results have the shapes of the contract, even where a size is 1, and the dtype of the inputs; none is NaN."""
    part = subject.fresh()
    for sizes in _SHAPES:
        for name, result, shape in _results(subject, part, sizes):
            fits = isinstance(result, Tensor) and tuple(result.shape) == shape
            require(fits, f"{name}: {described(result)}, expected {shape} for (B, T, S) = {sizes}")
            require(not result.isnan().any(), f"{name}: NaN for (B, T, S) = {sizes}")
            dtype = torch.bool if name == "is_open" else torch.float32
            require(result.dtype == dtype, f"{name}: {described(result)}, expected {dtype}")


def _results(subject: Subject, part: Any, sizes: tuple[int, int, int]) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Yields the name of each result, the result, and the shape that it should have."""
    inputs, sentences = subject.inputs(*sizes), sizes[0]
    if subject.kind == "scorer":
        prepared = part.prepare(inputs["keys"])
        first = sentences, sizes[2]
        fits = isinstance(prepared, Tensor) and tuple(prepared.shape[:2]) == first
        require(fits, f"`prepare` returns {described(prepared)}, expected (B, S, ...) = ({first[0]}, {first[1]}, ...)")
        yield "scores", part(inputs["query"], prepared), sizes
    elif subject.kind == "normalizer":
        yield "weights", subject.call(part, inputs), sizes
    elif subject.kind == "window":
        view = part(**inputs)
        yield from ((name, each, sizes) for name, each in view._asdict().items() if each is not None)
    else:
        width = getattr(part, "value_size", None)
        require(isinstance(width, int), f"value_size is {width!r}, expected the size of a context as an int")
        source = part.prepare(inputs["keys"])
        require(source.sentences == sentences, f"a source of {sentences} sentences has sentences = {source.sentences}")
        contexts, weights = part(inputs["query"], source)
        yield "contexts", contexts, (*sizes[:2], part.value_size)
        yield "weights", weights, sizes


def determinism(subject: Subject) -> None:
    """In eval mode equal arguments give equal results, and autograd does not change them."""
    part, inputs = subject.fresh(), subject.inputs()
    with torch.no_grad():
        first, *others = (subject.run(part, inputs).nan_to_num() for _ in range(5))
    for other in others:
        require(torch.equal(first, other), "two calls in eval mode with the same arguments give different results")
    recorded = subject.run(part, leaves_of(part, inputs)[0]).detach().nan_to_num()
    same(recorded, first, "a call that records gradients gives other results than one without")
    with torch.inference_mode():
        same(subject.run(part, inputs).nan_to_num().clone(), first, "a call in inference mode gives other results")


@torch.no_grad()
def batch(subject: Subject) -> None:
    """Permuting a batch permutes its results, and a sentence alone gets the same results as in a batch."""
    part, inputs = subject.fresh(), subject.inputs(sentences=4)
    expected = subject.run(part, inputs)
    order = torch.tensor([2, 0, 3, 1])
    permuted = subject.run(part, choose(inputs, order))
    same(permuted, expected[order], "results of a sentence change with the order of the batch")
    alone = subject.run(part, choose(inputs, slice(1)))
    same(alone, expected[:1], "results of a sentence change when it is alone: sentences of a batch are mixed")


@torch.no_grad()
def queries(subject: Subject) -> None:
    """T queries in one call get the results of T single queries, also where some of B, T, S and the sizes are equal.

    Dimensions of equal size can be swapped without an exception. Queries of a part with a history are steps, for which
    the laws `steps` and `histories` say the same.
    """
    part = subject.fresh()
    if getattr(part, "needs_history", False):
        return
    query_size, key_size = subject.query_size, subject.key_size
    for sizes in (
        *((2, 3, 5), (2, 5, 5), (3, 3, 5), (5, 3, 5), (4, 4, 4)),
        *((2, 3, query_size), (2, 3, key_size), (2, query_size, 5), (1, key_size, key_size)),
    ):
        inputs = subject.inputs(*sizes)
        at_once = subject.run(part, inputs)
        some = range(0, sizes[1], -(-sizes[1] // 16))  # of many queries, as what swaps dimensions spares none
        for b, t in itertools.product(range(sizes[0]), some):
            single = subject.run(part, choose(inputs, [b], [t]))
            sentence = f"{sizes[1]} queries in one call differ from single ones, for (B, T, S) = {sizes}"
            same(at_once[b : b + 1, t : t + 1], single, sentence)


@torch.no_grad()
def arguments(subject: Subject) -> None:
    """No argument is changed in place, nor what was prepared from it."""
    part, inputs = subject.fresh(), subject.inputs()
    kept = {name: tensor.clone() for name, tensor in inputs.items()}
    prepared = subject.prepare(part, inputs)
    watched = {f"prepared tensor {number}": each for number, each in enumerate(_tensors(prepared))}
    kept |= {name: tensor.clone() for name, tensor in watched.items()}
    if subject.kind == "context":  # a step after the history, as a decoder takes it
        part(inputs["query"][:, :1], prepared, part.start(prepared))
    subject.read(part, prepared, inputs)
    for name, tensor in {**inputs, **watched}.items():
        same(tensor.nan_to_num(), kept[name].nan_to_num(), f"a call changes its {name} in place")


def _tensors(record: Any) -> Iterator[Tensor]:
    """Yields the tensors of a nested tuple or list."""
    if isinstance(record, Tensor):
        yield record
    elif isinstance(record, (tuple, list)):
        for each in record:
            yield from _tensors(each)


@torch.no_grad()
def memory(subject: Subject) -> str | None:
    """Results depend on the arguments alone, not on earlier calls, and a call keeps no tensor."""
    part, inputs, others = subject.fresh(), subject.inputs(), subject.inputs(seed=1)
    buffers = {name: tensor.clone() for name, tensor in part.named_buffers()}
    prepared = subject.prepare(part, inputs)
    expected = subject.read(part, prepared, inputs)
    subject.run(part, others)
    again = subject.read(part, prepared, inputs)
    same(again, expected, "results change after another sentence was prepared; store nothing on self")
    reused = {name: tensor.clone() for name, tensor in others.items()}
    subject.call(part, reused)
    for name, tensor in inputs.items():
        reused[name].copy_(tensor)  # the same memory with other values: a cache by address would be stale
    overwritten = subject.call(part, reused)
    same(overwritten, expected, "results are wrong after a tensor was overwritten; cache nothing by identity")
    changed = [name for name, tensor in part.named_buffers() if not torch.equal(tensor, buffers[name])]
    if changed:
        return f"a call in eval mode changes {', '.join(changed)}"
    gc.freeze()  # so that only the tensors of a new part, and what its calls leave behind, are counted
    try:
        part, alive = subject.fresh(), []
        for _ in range(4):
            alive.append(_living_tensors())
            subject.run(part, inputs)
    finally:
        gc.unfreeze()
    require(alive[3] <= alive[2], "every call keeps a tensor, and with it its graph: on self, its class or its module")
    return "a call keeps a tensor, and with it its graph" if alive[1] > alive[0] else None


def _living_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(each), Tensor) for each in gc.get_objects())


@torch.no_grad()
def strides(subject: Subject) -> None:
    """Results depend on the values of a tensor, not on its strides or its offset in memory."""
    part, inputs = subject.fresh(), subject.inputs(sentences=3, queries=4)
    expected = subject.run(part, inputs)
    for layout, view in _LAYOUTS.items():
        results = subject.call(part, {name: view(tensor) for name, tensor in inputs.items()})
        same(results, expected, f"results change for inputs {layout}; use reshape, not the storage")
    one = choose(inputs, slice(1))
    expanded = {name: tensor.expand(3, *tensor.shape[1:]) for name, tensor in one.items()}
    same(subject.call(part, expanded), subject.run(part, one).expand(3, -1, -1), "results change for expanded inputs")
    if subject.kind == "scorer":
        prepared = _transposed(part.prepare(inputs["keys"]))
        same(subject.read(part, prepared, inputs), expected, "scores change for prepared keys transposed in memory")


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed in memory": _transposed,
    "sliced from a longer tensor": lambda x: torch.cat((x, x, x), dim=1)[:, x.shape[1] : 2 * x.shape[1]],
    "that are every second element of a wider tensor": lambda x: torch.stack((x, x.roll(1, 0)), dim=-1)[..., 0],
    "with gaps between the sentences": lambda x: torch.stack((x.roll(1, 0), x), dim=1)[:, 1],
}


def training(subject: Subject) -> str | None:
    """Training mode differs from eval mode by random numbers alone, and mixes no sentences.

    With dropout switched off, values and gradients equal those in eval mode. They cannot be compared if the part draws
    other random numbers. A normalizer such as `Monotonic` may have a soft form in training mode, and so may a context
    that contains it; a reparametrization may update its weights, as spectral_norm does.
    """
    part = subject.fresh(seed=0).train()
    inputs, leaves = leaves_of(part, subject.inputs(sentences=3))
    for name, gradient in gradients_of(subject.run(part, inputs)[:1], leaves).items():
        if name in inputs and gradient[1:].abs().amax() > 1e-6:
            raise BrokenLawError(f"in training mode the results of one sentence depend on the {name} of another")
    evaluated = _differentiated(subject, training=False)
    with _WithoutDropout():
        trained, again, other = (_differentiated(subject, training=True, seed=seed) for seed in (1, 1, 2))
    if not is_close(again["results"], trained["results"]):
        return "two calls in training mode with one seed differ; use no generator other than torch's default"
    if not is_close(other["results"], trained["results"]):
        raise SkipTest("training mode draws random numbers other than dropout, so its values were not compared")
    moved = [name for name, each in evaluated.items() if not is_close(trained[name], each)]
    if moved:
        message = f"without random numbers, training and eval mode differ in {', '.join(moved)}"
        require(subject.kind in ("normalizer", "context") or is_reparametrized(subject.fresh()), message)
        raise SkipTest(message)
    return None


def _differentiated(subject: Subject, training: bool, seed: int = 1) -> dict[str, Tensor]:
    """The results, and their gradients by all inputs and parameters."""
    part = subject.fresh(seed=0).train(training)
    inputs, leaves = leaves_of(part, subject.inputs())
    torch.default_generator.manual_seed(seed)
    results = subject.run(part, inputs)
    gradients = {f"the gradient of {name}": each for name, each in gradients_of(results, leaves).items()}
    return {"results": results.detach()} | gradients


class _WithoutDropout(TorchFunctionMode):
    """Within this context every dropout function of torch returns its input."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "").rstrip("_123d").endswith("dropout"):
            return args[0] if args else kwargs["input"]
        return function(*args, **(kwargs or {}))


@torch.no_grad()
def copies(subject: Subject) -> None:
    """A new part that loads the state_dict gives the same results, and so do deepcopy and pickle, sharing nothing."""
    part, twin, inputs = subject.fresh(), subject.fresh(), subject.inputs()
    expected = subject.run(part, inputs)
    twin.load_state_dict(part.state_dict())
    loaded = f"a new {subject.kind} that loads the state_dict gives other results; register its tensors as buffers"
    same(subject.run(twin, inputs), expected, loaded)
    ways: dict[str, Callable[[nn.Module], nn.Module]] = {"deepcopy": copy.deepcopy}
    if "<locals>" not in subject.cls.__qualname__:  # Python pickles no class that is defined in a function
        ways["pickle"] = lambda part: pickle.loads(pickle.dumps(part))
    for way, copied in ways.items():
        try:
            twin = copied(part)
        except RuntimeError:
            if not is_reparametrized(part):
                raise
            raise SkipTest(f"torch supports no {way} of a reparametrized module; use its state_dict") from None
        same(subject.run(twin, inputs), expected, f"a copy by {way} gives other results")
        shared = {each.data_ptr() for each in twin.parameters()} & {each.data_ptr() for each in part.parameters()}
        require(not shared, f"a copy by {way} shares parameters with its original")
