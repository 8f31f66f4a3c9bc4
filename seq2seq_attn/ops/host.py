"""What is asked of the machine: memory that the process keeps, and threads for the batches of a search.

Both change the process, so the command line and its workers ask for the first; the second is undone after a search.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from seq2seq_attn.ops.dispatch import is_reference

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
LARGEST = 32 << 20  # glibc takes no more for the second
AHEAD = 2 << 30  # bytes that are to come in large pages


def keep_freed_memory() -> None:
    """Tells the C library to use the memory of one training step again in the next; does nothing but on glibc.

    Otherwise it hands a tensor of megabytes back to the system as soon as it is freed, and the system clears every page
    of the next one again: a fifth of the time of a training step of the demo (benchmarks/README.md). What a process
    needs at most stays the same.
    """
    libc = _glibc()
    if libc is not None:
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        _ask_for_large_pages(libc)


def give_back_freed_memory() -> None:
    """Hands what nothing refers to any more back to the system; does nothing but on glibc.

    Between one training and the next: their tensors differ in size, and the pieces that one leaves do not fit the
    other (two trainings left 1.35 and then 1.61 GB with the process, of which this gave back 0.28 and 0.48).
    """
    gc.collect()
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _ask_for_large_pages(libc: ctypes.CDLL) -> None:
    """Lets the heap grow by pages of 2 MB, where the system has them, and not of 4 KB.

    A page is cleared when it is first written to, which took 25 us for 4 KB on a virtual machine: seconds, until a
    training has had all the memory that it will use again. What is asked for here is freed at once, addresses without
    memory, and the heap goes on from there.
    """
    size = LARGEST - (1 << 20)  # a block that has no mapping of its own
    blocks = [block for block in (libc.malloc(size) for _ in range(AHEAD // size)) if block]
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


BATCHES_PER_THREAD = 2  # at least; with fewer, some threads wait for the last batches of others


@contextmanager
def parallel_map(device: torch.device, batches: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` in which every thread that torch has works on a batch of its own, if there are many, on a CPU.

    A step of a search is some sixty small operations beside a few products: threads that share these wait for each
    other. Torch's number of threads is 1 in the block, and restored after it.
    """
    threads = torch.get_num_threads()
    if is_reference() or device.type != "cpu" or threads == 1 or batches < BATCHES_PER_THREAD * threads:
        yield map
        return
    casts, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def each(work: Callable[[Any], Any], parts: Iterable[Any]) -> Iterable[Any]:
        def in_thread(part: Any) -> Any:
            with torch.autocast("cpu", dtype, enabled=casts):  # which a thread does not inherit
                return work(part)

        return workers.map(in_thread, parts)

    workers = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield each
    finally:
        workers.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # of which MKL has but one for all threads
