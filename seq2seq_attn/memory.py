"""Memory that was freed stays with the process."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
LARGEST = 32 << 20  # glibc takes no more for the second


def keep_freed_memory() -> None:
    """Tells the C library to use the memory of one training step again in the next; does nothing but on glibc.

    Otherwise it hands a tensor of megabytes back to the system as soon as it is freed, and the system clears every page
    of the next one anew: a fifth of the time of a training step of the demo (benchmarks/README.md). What a process
    needs at most stays the same.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
