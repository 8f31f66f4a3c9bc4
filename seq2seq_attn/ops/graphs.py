"""CUDA graphs: one launch replays the loss of a batch and all of its gradients, or a step of a search.

A recurrent model launches thousands of small kernels in a training step, and launching them takes longer than they do.
A graph has recorded them once and replays them on the same memory. So batches are padded to few shapes, and nothing
within may depend on the value of a length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.encoder import TokenEncoder
from seq2seq_attn.models.head import Loss
from seq2seq_attn.models.recurrent.cells import ScanCell
from seq2seq_attn.models.recurrent.encoder import ReversedEncoder
from seq2seq_attn.models.recurrent.seq2seq import RecurrentSeq2Seq
from seq2seq_attn.models.seq2seq import Memory, Step
from seq2seq_attn.ops.autograd import first_derivative_only
from seq2seq_attn.ops.form import Form, changed, is_reference
from seq2seq_attn.ops.host import is_out_of_memory
from seq2seq_attn.ops.loss import IGNORED, FusedSoftmaxHead
from seq2seq_attn.ops.native.build import warn_of_no_kernels
from seq2seq_attn.ops.recurrent import FusedRecurrentEncoder

ROWS, POSITIONS = 8, 4  # what the sentences of a batch, and the positions of either side, are padded to a multiple of
READ = 8  # what the positions that a search reads are padded to a multiple of
MOST = 128  # recorded shapes; what has another shape is computed without a graph
TIMES_BEFORE = 1, 20  # that a shape is computed without a graph, as most shapes are rare: in training, and by a search
WARM_UPS = 2  # calls before a recording: libraries choose their algorithms, and kernels are compiled

_Outcome = TypeVar("_Outcome")


class FixedTokens(Tokens):
    """Sentences whose lengths are on the device: all positions are places of tokens, and padding is `IGNORED`."""

    @classmethod
    def of(cls, given: Tokens, sentences: int, positions: int, least: int) -> FixedTokens:
        """The given sentences in a batch of this shape; further ones have `least` tokens."""
        rows, length = given.tokens.shape
        tokens = F.pad(given.tokens, (0, positions - length, 0, sentences - rows))
        lengths = F.pad(given.lengths, (0, sentences - rows), value=least)
        return cls(tokens, lengths.to(tokens.device, non_blocking=True))

    def copy_(self, other: FixedTokens) -> None:
        """Replaces the sentences by others."""
        self.tokens.copy_(other.tokens)
        self.lengths.copy_(other.lengths)

    @property
    def placed(self) -> tuple[Tensor, Tensor]:
        every = torch.arange(self.tokens.numel(), device=self.tokens.device)
        return every, self.tokens.masked_fill(~self.is_token, IGNORED).flatten()


class Replayed:
    """A loss of the batches that a model is trained with, computed by graphs on a GPU.

    A graph computes the loss and its gradients, which the backward pass only scales. It writes them where every other
    graph does: the backward pass of a batch must come before the forward pass of the next.
    """

    def __init__(self, model: RecurrentSeq2Seq, loss: Callable[[Any, Any], Loss]) -> None:
        self.model, self.loss = model, loss
        self.every_weight = list(model.parameters())
        self.shapes = _Shapes(TIMES_BEFORE[0])
        self.batches = 0  # computed so far: the gradients are those of the last of them

    def __call__(self, batch: Any) -> Loss:
        """The loss of a batch, as the function computes it, except that dropout draws other masks.

        A batch is padded whether or not there is a graph for its shape, so that the masks do not depend on it.
        """
        is_plain = type(batch.source) is type(batch.target) is Tokens and batch.links is None
        is_trained = self.model.training and torch.is_grad_enabled()
        if not (is_plain and is_trained and is_on_gpu(batch.target.tokens)):
            return self.loss(self.model, batch)
        (sentences, read), written = batch.source.tokens.shape, batch.target.tokens.shape[1]
        shape = padded(sentences, ROWS), padded(read, POSITIONS), padded(written, POSITIONS)
        source = FixedTokens.of(batch.source, *shape[:2], least=1)
        target = FixedTokens.of(batch.target, shape[0], shape[2], least=0)
        count, fixed = int(batch.target.lengths.sum()), batch._replace(source=source, target=target)
        weights = [weight for weight in self.every_weight if weight.requires_grad]
        of_shape = partial(_OneLoss, self, fixed, weights)
        recorded = self.shapes.recorded(shape, target.tokens.device, weights, of_shape)
        if recorded is None:
            return self.loss(self.model, fixed)._replace(tokens=count)
        total: Tensor = _Replay.apply(recorded, fixed, *weights)  # type: ignore[no-untyped-call]
        return Loss(total, recorded.negative.clone(), count)


def replayed(model: nn.Module, loss: Callable[[Any, Any], Loss]) -> Callable[[Any], Loss]:
    """A loss as a function of the batch alone, which on a GPU replays CUDA graphs if the model and its parts can be.

    Args:
        model: What `fuse` returned.
        loss: Of the model and a batch (`training.batches.Batch`), whose backward pass comes before the next batch.

    Returns:
        The function. It records the loss of a batch when a batch of that shape occurs again.
    """
    if is_reference() or type(model) is not RecurrentSeq2Seq or not _can_be_replayed(model):
        return partial(loss, model)
    return Replayed(model, loss)


def _can_be_replayed(model: RecurrentSeq2Seq) -> bool:
    """Whether no part packs its sentences, counts all rows, or was changed by a user."""
    network: Any = model.encoder.network if type(model.encoder) is TokenEncoder else None
    network = network.encoder if type(network) is ReversedEncoder else network
    is_unpacked = type(network) is FusedRecurrentEncoder and not issubclass(network.cell, ScanCell)
    return is_unpacked and type(model.head) is FusedSoftmaxHead and changed(model) is None


class Searched(Form, RecurrentSeq2Seq):
    """`RecurrentSeq2Seq` for searches on a GPU, whose steps are replayed."""

    stands_for = RecurrentSeq2Seq

    @classmethod
    def why_not(cls, module: RecurrentSeq2Seq) -> str | None:
        return changed(module)

    def pack(self) -> None:
        self.shapes = _Shapes(TIMES_BEFORE[1])
        self.memory: Memory | None = None  # the one that was read last, and its tensors
        self.leaves: list[Any] = []
        self.lock = Lock()  # a server searches in several threads

    def encode(self, source: Any) -> Memory:
        if type(source) is Tokens and is_on_gpu(source.tokens):
            missing = -source.tokens.shape[1] % READ
            source = source._replace(tokens=F.pad(source.tokens, (0, missing)))
        return super().encode(source)

    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        if torch.is_grad_enabled() or not is_on_gpu(tokens):
            return super().step(tokens, state, memory)
        with self.lock:
            if memory is not self.memory:
                self.memory, self.leaves = memory, tree_flatten(memory)[0]
            own, _ = tree_flatten((tokens, state))
            shape = tuple((each.shape, each.dtype) if isinstance(each, Tensor) else each for each in own + self.leaves)
            of_shape = partial(_OneStep, super().step, tokens, state, memory)
            recorded = self.shapes.recorded(shape, tokens.device, [], of_shape)
            if recorded is not None:
                return recorded.take(own, memory, self.leaves)  # type: ignore[no-any-return]
        return super().step(tokens, state, memory)


def is_on_gpu(tensor: Tensor) -> bool:
    """Whether the operations on a tensor can be recorded."""
    return tensor.is_cuda


def padded(size: int, multiple: int) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


class Recorder:
    """Records functions of tensors at fixed places; the recordings share their memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.gradients: dict[nn.Parameter, Tensor] = {}  # of the batch that was read last
        self._pool = torch.cuda.graph_pool_handle()

    def warm_up(self, function: Callable[[], object]) -> None:
        """Calls a function that is to be recorded; random numbers are as if it were not called."""
        current, beside = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        beside.wait_stream(current)
        with self._undisturbed(), torch.cuda.stream(beside):
            for _ in range(WARM_UPS):
                function()
        current.wait_stream(beside)

    def record(self, function: Callable[[], _Outcome]) -> tuple[_Outcome, Callable[[], None]]:
        """What the function returns, which has no values yet, and what computes them."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device: batches are pinned in one.
        with self._undisturbed(), torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outcome = function()
        return outcome, graph.replay

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Draws of random numbers in the block do not count, and no cast of a weight is read that autocast has kept."""
        state, is_cached = torch.cuda.get_rng_state(self.device), torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
            torch.set_autocast_cache_enabled(is_cached)
            torch.cuda.set_rng_state(state, self.device)


class _Shapes:
    """What was recorded of one model, by shape."""

    def __init__(self, times_before: int) -> None:
        self.times_before = times_before
        self.memory: list[int] | None = None  # where the weights are
        self.has_failed = False

    def recorded(
        self, shape: tuple[Any, ...], device: torch.device, weights: list[nn.Parameter], make: Callable[[Recorder], Any]
    ) -> Any:
        """What `make` has recorded for this shape and autocast's dtype; None: it is computed without a graph.

        All is forgotten when the weights have moved.
        """
        memory = [weight.data_ptr() for weight in weights]
        if memory != self.memory:
            self.memory, self.seen, self.kept = memory, Counter[Any](), dict[Any, Any]()
            self.recorder = Recorder(device)
        key = (*shape, torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None)
        if key in self.kept or self.has_failed:
            return self.kept.get(key)
        self.seen[key] += 1
        if self.seen[key] <= self.times_before or len(self.kept) == MOST:
            return None
        try:
            self.kept[key] = make(self.recorder)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.has_failed = True
            warn_of_no_kernels("no CUDA graphs", error, stacklevel=5, has_switch=False)
        return self.kept.get(key)


class _OneLoss:
    """The loss and the gradients of batches of one shape, which are copied to the first of them."""

    def __init__(self, owner: Replayed, batch: Any, weights: list[nn.Parameter], recorder: Recorder) -> None:
        self.owner, self.batch = owner, batch
        for weight in weights:
            recorder.gradients.setdefault(weight, torch.zeros_like(weight))

        def compute() -> tuple[Tensor, Tensor, list[Tensor | None]]:
            with _aliases(owner.model, weights) as same:
                loss = owner.loss(owner.model, batch)
                with torch.autocast(recorder.device.type, enabled=False):  # as where a loop calls `backward`
                    found = torch.autograd.grad(loss.total, same, allow_unused=True)
            pairs = zip(weights, found, strict=True)
            kept: list[Tensor | None] = [None if each is None else recorder.gradients[weight] for weight, each in pairs]
            torch._foreach_copy_(_tensors(kept), _tensors(found))
            return loss.total.detach(), loss.negative, kept

        recorder.warm_up(compute)
        (self.total, self.negative, self.gradients), self.replay = recorder.record(compute)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, recorded: _OneLoss, batch: Any, *weights: Tensor) -> Tensor:
        recorded.batch.source.copy_(batch.source)
        recorded.batch.target.copy_(batch.target)
        recorded.replay()
        recorded.owner.batches += 1
        ctx.recorded, ctx.batch = recorded, recorded.owner.batches
        return recorded.total.clone()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.recorded.gradients
        if ctx.batch != ctx.recorded.owner.batches:
            raise RuntimeError(
                "the loss of another batch was computed before the backward pass of this one, and has overwritten its "
                "gradients; take each backward pass at once"
            )
        scaled = iter(torch._foreach_mul(_tensors(gradients), grad_total))
        return None, None, *(None if each is None else next(scaled) for each in gradients)


class _OneStep:
    """A step of hypotheses of one number over memories of one shape."""

    def __init__(
        self, step: Callable[..., Step], tokens: Tensor, state: Any, memory: Memory, recorder: Recorder
    ) -> None:
        with torch.inference_mode(False):  # tensors that may be written later, whatever the mode
            (self.given, layout), (self.read, of_memory) = (
                ([torch.empty_like(each).copy_(each) if isinstance(each, Tensor) else each for each in leaves], spec)
                for leaves, spec in (tree_flatten((tokens, state)), tree_flatten(memory))
            )
        self.memory: Memory | None = None  # the one that was copied last

        def compute() -> list[Any]:
            outcome, self.layout = tree_flatten(
                step(*tree_unflatten(self.given, layout), tree_unflatten(self.read, of_memory))
            )
            return outcome

        recorder.warm_up(compute)
        self.outcome, self.replay = recorder.record(compute)

    def take(self, own: list[Any], memory: Memory, leaves: list[Any]) -> Step:
        """The step of hypotheses with these tensors over a memory with those."""
        if memory is not self.memory:
            self.memory = memory
            _copy(self.read, leaves)
        _copy(self.given, own)
        self.replay()
        clones = [each.clone() if isinstance(each, Tensor) else each for each in self.outcome]
        return cast(Step, tree_unflatten(clones, self.layout))


@contextmanager
def _aliases(model: nn.Module, weights: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Weights that the model has within the block instead of these: other parameters in the same memory.

    Autograd sums the gradient of a weight on the stream on which it first met the weight, which may not be recorded.
    """
    same = {weight: nn.Parameter(weight.detach()) for weight in weights}
    places = [
        (module._parameters, name, weight)
        for module in model.modules()
        for name, weight in module._parameters.items()
        if weight is not None and weight in same
    ]
    try:
        for parameters, name, weight in places:
            parameters[name] = same[weight]
        yield list(same.values())
    finally:
        for parameters, name, weight in places:
            parameters[name] = weight


def _tensors(some: Iterable[Tensor | None]) -> list[Tensor]:
    return [each for each in some if each is not None]


def _copy(buffers: list[Any], leaves: list[Any]) -> None:
    for buffer, leaf in zip(buffers, leaves, strict=True):
        if isinstance(leaf, Tensor):
            buffer.copy_(leaf)
