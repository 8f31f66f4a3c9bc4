"""Several processes that train one model: which one this is, and what they tell each other.

A launcher starts them, and its environment alone decides (`launched`). Each has the same weights and takes its share of
the rows of every batch; `Processes.combine` makes of their gradients that of the whole batch. What only one may decide,
such as when to save, the first decides for all. A process that waits for one that has ended learns so at once, by its
closed connection, and raises `LostProcessError`.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from seq2seq_attn.errors import SHOWN, FailedError, UserError

if TYPE_CHECKING:  # the command line asks whether it may speak before torch is loaded
    from torch import nn

    from seq2seq_attn.models.head import Loss

_Value = TypeVar("_Value")

JOINING = timedelta(minutes=10)  # until all processes have started
WORKING = timedelta(days=7)  # of one process, as to prepare a corpus, while the others wait
LEAVING = 3.0  # seconds in which the others notice that the process with the store has ended


class LostProcessError(FailedError):
    """Another process of this training has ended."""


class Launch(NamedTuple):
    """What a launcher says of this process."""

    rank: int
    world: int  # processes
    local_rank: int  # among those of this machine
    address: str  # of the machine of rank 0, and its port
    port: int
    job: str  # the same for all processes, and when the launcher starts them again
    restarts: int  # how often it has done so
    restarts_left: int  # how often it would do so again after a failure
    has_store: bool  # whether the launcher keeps what processes tell each other; otherwise, rank 0 does
    command: tuple[str, ...]  # with which it starts this program, as far as it says


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """What `torchrun` (RANK, WORLD_SIZE, ...) or `srun` (SLURM_PROCID, ...) says of this process; None without them.

    In the script of a Slurm job, outside `srun`, a process is alone. UserError: a variable is missing or no number.
    """

    def number(name: str, default: int | None = None) -> int:
        given = environment.get(name, default)
        if given is None or not str(given).isdecimal():
            raise UserError(f"{name}={given}: torchrun and srun set a number; start the training with one of them")
        return int(given)

    if "RANK" in environment and "WORLD_SIZE" in environment:
        name = environment.get("TORCHELASTIC_RUN_ID", "none")
        world, restarts = number("WORLD_SIZE"), number("TORCHELASTIC_RESTART_COUNT", 0)
        local = number("LOCAL_WORLD_SIZE", world)
        several = () if local == world else ("--nnodes", str(world // local), "...")
        return Launch(
            rank=number("RANK"),
            world=world,
            local_rank=number("LOCAL_RANK", 0),
            address=environment.get("MASTER_ADDR", "localhost"),
            port=number("MASTER_PORT", 29500),
            job=f"torchrun {f'{os.getppid()} on {platform.node()}' if name == 'none' else name}",
            restarts=restarts,
            restarts_left=number("TORCHELASTIC_MAX_RESTARTS", restarts) - restarts,
            has_store=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            command=("torchrun", *several, "--nproc-per-node", str(local), "-m", "seq2seq_attn"),
        )
    if "SLURM_PROCID" in environment and "SLURM_STEP_NUM_TASKS" in environment:
        nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or "localhost"
        job, step, world = number("SLURM_JOB_ID"), number("SLURM_STEP_ID", 0), number("SLURM_STEP_NUM_TASKS")
        return Launch(
            rank=number("SLURM_PROCID"),
            world=world,
            local_rank=number("SLURM_LOCALID", 0),
            address=environment.get("MASTER_ADDR") or first_host(nodes),
            port=number("MASTER_PORT", 20000 + (job + step) % 10000),  # below the ports that systems give out
            job=f"slurm {job}",
            restarts=number("SLURM_RESTART_COUNT", 0),
            restarts_left=0,
            has_store=False,
            command=("srun", "--ntasks", str(world), sys.executable, "-m", "seq2seq_attn"),
        )
    return None


def first_host(nodes: str) -> str:
    """The first host of a list as Slurm writes it.

    >>> first_host("gpu[007-010,12],login"), first_host("rack2-n[1,3]-ib"), first_host("alone")
    ('gpu007', 'rack2-n1-ib', 'alone')
    """
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first[0] if first else nodes)


class Processes:
    """The processes of a training, as one of them sees them; without arguments, it is the only one.

    Every method but the properties is called by all processes, in the same order.
    """

    def __init__(self, rank: int = 0, world: int = 1, job: str | None = None, restarts: int = 0) -> None:
        self.rank, self.world = rank, world
        self.job, self.restarts = job, restarts

    @property
    def is_first(self) -> bool:
        """Whether this process decides, writes and speaks."""
        return self.rank == 0

    def record(self) -> dict[str, Any]:
        """What a run records of who trains it: nothing of one process without a launcher."""
        return {} if self.job is None else {"processes": self.world, "job": self.job}

    def combine(
        self, weights: Sequence[nn.Parameter], loss: Loss, flags: Sequence[bool]
    ) -> tuple[Loss, tuple[bool, ...]]:
        """Makes of the gradients of all processes that of all their tokens.

        With the c tokens and the gradient g of the mean loss of each process, it is Σ c g / Σ c: a process without
        tokens has weight 0. One sum after the backward pass, and not `DistributedDataParallel`, which sums within it: a
        process may halve its batch when memory runs out, accumulate, use other weights than the others, or have
        nothing to compute. A weight without gradient in all processes keeps none.

        Args:
            weights: The same of all processes, with their gradients; they get that of all tokens.
            loss: That of the tokens of this process; 0 tokens without any.
            flags: What this process has to say.

        Returns:
            The loss of all tokens, and for each flag whether a process has raised it.
        """
        if self.world == 1:
            return loss, tuple(flags)
        import torch
        from torch import distributed

        numbers = torch.tensor([loss.tokens, *flags, *(each.grad is not None for each in weights)], dtype=torch.float64)
        with _connected():
            distributed.all_reduce(numbers)
        tokens, *counts = numbers.tolist()
        used = [each for each, count in zip(weights, counts[len(flags) :], strict=True) if count]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in used]
        means = [sums / max(1, loss.tokens) for sums in (loss.total, loss.negative)]
        together = torch.cat([each.reshape(-1) for each in (*gradients, *means)]).mul_(loss.tokens / tokens)
        with _connected():
            distributed.all_reduce(together)
        *parts, total, negative = torch.split(together, [*(each.numel() for each in used), 1, 1])
        for weight, part in zip(used, parts, strict=True):
            weight.grad = part.view_as(weight).to(weight.dtype)
        summed = loss._replace(total=total[0] * tokens, negative=negative[0] * tokens, tokens=int(tokens))
        return summed, tuple(count > 0 for count in counts[: len(flags)])

    def gather(self, own: _Value) -> list[_Value]:
        """What each process has, by rank."""
        if self.world == 1:
            return [own]
        from torch import distributed

        found: list[Any] = [None] * self.world
        with _connected():
            distributed.all_gather_object(found, own)
        return found

    def interleave(self, own: Sequence[_Value]) -> list[_Value]:
        """The items that the processes share out, item i to process i % `world`, in their order."""
        missing: Any = object()
        turns = zip_longest(*self.gather(own), fillvalue=missing)
        return [each for each in chain.from_iterable(turns) if each is not missing]

    def once(self, work: Callable[[], _Value]) -> _Value:
        """What `work` returns in the first process, which alone calls it."""
        if self.world == 1:
            return work()
        from torch import distributed

        found: list[Any] = [work() if self.is_first else None]
        with _connected():
            distributed.broadcast_object_list(found, src=0)
        value: _Value = found[0]
        return value

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """A block that the first process leaves before the others enter it, as they read what it has written."""
        if not self.is_first:
            self.once(lambda: None)
        yield
        if self.is_first:
            self.once(lambda: None)

    def require_equal(self, what: Callable[[], str], step: int) -> None:
        """FailedError if the checksum of the weights, `what`, is not the same in all processes after this step."""
        if self.world == 1:
            return
        found = self.gather(what())
        if others := [rank for rank, each in enumerate(found) if each != found[0]]:
            raise FailedError(
                f"after step {step:,}, the weights of processes {others} are not those of process 0: their devices or "
                f"versions compute differently, or one is defective; --resume continues from the checkpoint before"
            )


ALONE = Processes()

_joined: Processes | None = None
_speaks = True  # false if an error has ended another process of the training before this one


def speaks() -> bool:
    """Whether this process reports the error that has ended it: of several, only the first one to end does."""
    return _speaks


@contextmanager
def joined() -> Iterator[Processes]:
    """The processes of this training, joined as long as the block lasts, in which they may be joined again.

    GPUs sum by NCCL, and everything else travels by gloo. Each process computes on the GPU of its number on its
    machine. UserError: the others do not come.
    """
    global _joined, _speaks
    launch = launched()
    if _joined is not None or launch is None or launch.world == 1:
        yield _joined or (ALONE if launch is None else Processes(job=launch.job, restarts=launch.restarts))
        return
    from torch import distributed

    _speaks = launch.rank == 0
    store = _join(launch)
    try:
        with _device(launch):
            _joined = Processes(launch.rank, launch.world, launch.job, launch.restarts)
            yield _joined
    except BaseException:
        from seq2seq_attn.ops.host import signals_afterwards

        with signals_afterwards() as received:
            _speaks = _is_first_to_end(store, launch)
            received.clear()  # the launcher, which now ends this process as well, would hide why it has ended
        raise
    finally:
        _joined = None
        distributed.destroy_process_group()
        if launch.rank == 0 and not launch.has_store and sys.exc_info()[0] is not None:
            _wait_for_others(store, launch.world)


def _join(launch: Launch) -> Any:
    """Returns the store of what processes tell each other."""
    import torch
    from torch import distributed
    from torch._C._distributed_c10d import PrefixStore, TCPStore  # of torch.distributed, which does not list them

    place = f"{launch.address}:{launch.port}"
    rank, world, keeps_store = launch.rank, launch.world, launch.rank == 0 and not launch.has_store
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        socket.getaddrinfo(launch.address, launch.port)
    except OSError:
        raise UserError(
            f"{launch.address}: this machine knows no other by this name, which the launcher gives as that of process "
            f"0; set MASTER_ADDR to its name or address"
        ) from None
    try:
        tcp = TCPStore(launch.address, launch.port, world, keeps_store, timeout=JOINING)
        store = PrefixStore(f"start {launch.restarts}", tcp)  # a launcher may keep what it was told before a restart
        distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=WORKING)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"{place}: process {rank} of {world} does not reach the others: {str(error).splitlines()[0]}"
        ) from None
    return store


@contextmanager
def _device(launch: Launch) -> Iterator[None]:
    """In the block, the current GPU is that of this process; a process that sees only one has that one."""
    import torch

    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if 1 < devices <= launch.local_rank:
        raise UserError(f"process {launch.local_rank} of a machine with {devices} GPUs; start one process per GPU")
    with torch.cuda.device(launch.local_rank if devices > 1 else -1):  # -1: changes nothing
        yield


@contextmanager
def _connected() -> Iterator[None]:
    """LostProcessError if a process that this one talks to in the block has ended."""
    try:
        yield
    except RuntimeError as error:
        reason = re.sub(r"^\[[^\]]*\] ", "", str(error)).partition(". ")[0]
        raise LostProcessError(f"a process of this training has ended ({reason[:SHOWN]})") from None


def _is_first_to_end(store: Any, launch: Launch) -> bool:
    try:
        return int(store.add("ended", 1)) == 1
    except RuntimeError:  # the process that had the store was killed
        return launch.rank == 1


def _wait_for_others(store: Any, world: int) -> None:
    """Keeps the store until the others have asked it, for a moment."""
    end = time.monotonic() + LEAVING
    with suppress(RuntimeError):
        while store.add("ended", 0) < world and time.monotonic() < end:
            time.sleep(0.05)
