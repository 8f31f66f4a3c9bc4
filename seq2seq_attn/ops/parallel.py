"""Batches of a search, shared out among the threads of a processor.

Reference implementation: `map`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from seq2seq_attn.ops.dispatch import is_reference

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
