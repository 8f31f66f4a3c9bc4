"""Memory that was freed: kept by the process while it computes, given back when it turns to something else."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
LARGEST = 32 << 20  # glibc takes no more for the second
MADV_HUGEPAGE = 14  # mman.h of Linux
RESERVED = 2 << 30  # bytes


def keep_freed_memory() -> None:
    """Tells the C library to use the memory of one training step again in the next; does nothing but on glibc.

    Otherwise it hands a tensor of megabytes back to the system as soon as it is freed, and the system clears every page
    of the next one anew: a fifth of the time of a training step of the demo (benchmarks/README.md). What a process
    needs at most stays the same.
    """
    mallopt = _of_libc("mallopt")
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        _ask_for_large_pages()


def _ask_for_large_pages() -> None:
    """Lets the next gigabytes that are asked for come in pages of 2 MB, where the system has them, not of 4 KB.

    A page is cleared when it is first written to. On a virtual machine that took 25 us for each of 4 KB: seconds, until
    a training has all that it needs. Addresses are reserved and freed again; memory they take up when they are used.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes, libc.madvise.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = LARGEST - (1 << 20)
    blocks = [block for block in (libc.malloc(size) for _ in range(RESERVED // size)) if block]
    page = mmap.PAGESIZE
    for block in blocks:
        first = -(-block // page) * page
        libc.madvise(first, (block + size - first) // page * page, MADV_HUGEPAGE)
    for block in reversed(blocks):
        libc.free(block)


def give_back_freed_memory() -> None:
    """Hands what nothing refers to any more back to the system; does nothing but on glibc.

    Between one training and the next: their tensors differ in size, and the pieces that one leaves do not fit the
    other (two trainings left 1.35 and then 1.61 GB with the process, of which this gave back 0.28 and 0.48).
    """
    gc.collect()
    malloc_trim = _of_libc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def _of_libc(function: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), function, None) if sys.platform == "linux" else None
