"""The device of a run, and settings of the process: how memory is reused, and threads for the batches of a search.

How memory is reused lasts as long as the process, so only the command line and its workers set it; a search undoes its
threads.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, Literal

import torch

from seq2seq_attn.ops.form import is_reference

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
MAX_MMAP_THRESHOLD = 32 << 20  # the largest value that glibc accepts
HUGE_PAGE_BYTES = 2 << 30  # how much of the heap to back by huge pages


def on_cuda(accelerator: str) -> bool:
    """True if a run with this `training.accelerator` trains on a CUDA device."""
    return accelerator != "cpu" and torch.cuda.is_available()


def device_type(accelerator: str) -> Literal["cuda", "cpu"]:
    """The type of the device that a run with this `training.accelerator` trains on, as in `torch.device`."""
    return "cuda" if on_cuda(accelerator) else "cpu"


def is_synchronous(tensor: torch.Tensor) -> bool:
    """Whether values of the tensor can be read without synchronizing with an accelerator."""
    return tensor.device.type == "cpu"


def keep_freed_memory() -> None:
    """Makes malloc reuse the memory of one training step in the next. Has no effect without glibc.

    By default, glibc returns the memory of a large tensor to the system as soon as it is freed, and the system zeroes
    every page of the next one: a fifth of the time of a training step of the demo (benchmarks/changes.md). Peak memory
    does not change.
    """
    libc = _glibc()
    if libc is not None:
        libc.mallopt(M_MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        _request_huge_pages(libc)


def give_back_freed_memory() -> None:
    """Collects garbage and returns free memory to the system. Has no effect without glibc.

    Meant for the time between two training runs: their tensors differ in size, so the second cannot reuse the free
    blocks of the first. (After two runs a process held 1.35 and 1.61 GB; this returned 0.28 and 0.48 GB of them.)
    """
    with signals_afterwards():
        gc.collect()
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


@contextmanager
def signals_afterwards() -> Iterator[list[int]]:
    """SIGINT and SIGTERM in the block are handled after it, those that are still in the list that it is given.

    In a `__del__`, which garbage collection calls, Python ignores KeyboardInterrupt with a traceback: Ctrl-C would be
    lost.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if current_thread() is not main_thread() or None in before.values():  # None: a handler that is not Python's
        yield received
        return
    for number in before:
        signal.signal(number, lambda each, _: received.append(each))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for each in received:
        signal.raise_signal(each)


_OUT_OF_MEMORY = "DefaultCPUAllocator", "CUDA error: out of memory", "ALLOC_FAILED"  # torch has no class for these


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that the host or a device has no memory left."""
    is_named = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    return is_named or (isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY))


def free_memory() -> None:
    """Gives back what the host and a device keep for later: for another try after memory ran out."""
    give_back_freed_memory()
    torch.cuda.empty_cache()  # nothing without CUDA


def _request_huge_pages(libc: ctypes.CDLL) -> None:
    """Lets the heap use pages of 2 MB, where the system has them, instead of 4 KB.

    The system zeroes a page when it is first written to. On a virtual machine this took 25 us per 4 KB, and a training
    run spent seconds on it before all its memory had been touched. The blocks allocated here are marked and freed at
    once: they reserve addresses only, which the heap then hands out.
    """
    size = MAX_MMAP_THRESHOLD - (1 << 20)  # below the threshold: on the heap, without a mapping of its own
    blocks = [block for block in (libc.malloc(size) for _ in range(HUGE_PAGE_BYTES // size)) if block]
    for block in blocks:
        first = -(-block // mmap.PAGESIZE) * mmap.PAGESIZE
        libc.madvise(first, block + size - first, mmap.MADV_HUGEPAGE)
    for block in blocks:
        libc.free(block)


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        return None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def machine_memory() -> int | None:
    """The bytes of memory that this process may use at most: the machine's, or its container's; None if unknown."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    limits = [memory]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # another version of cgroups, or "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


MIN_BATCHES_PER_THREAD = 2  # with fewer, threads idle while others finish the last batches


@contextmanager
def parallel_map(device: torch.device, batches: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` over batches, with one batch per thread on a CPU if there are enough batches; otherwise Python's `map`.

    A search step consists of about sixty small operations and a few matrix products. Splitting each of them over
    threads costs more in synchronization than it saves. Torch's number of threads is 1 within the block and is
    restored afterward.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or batches < MIN_BATCHES_PER_THREAD * threads or is_reference():
        yield map
        return
    is_autocast, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def each(work: Callable[[Any], Any], parts: Iterable[Any]) -> Iterable[Any]:
        def in_thread(part: Any) -> Any:
            with torch.autocast("cpu", dtype, enabled=is_autocast):  # threads do not inherit it
                return work(part)

        return workers.map(in_thread, parts)

    workers = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield each
    finally:
        workers.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # the workers have set it to 1 for MKL in this thread as well
