"""The random states of a process: Python's, NumPy's and torch's, of the CPU and of every visible GPU."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class RandomStates(NamedTuple):
    """What all random numbers that are drawn from now on depend on."""

    python: list[Any]  # as from `random.getstate`, with lists for tuples, as JSON has them
    numpy: list[Any]  # as from `numpy.random.get_state`, likewise
    torch: Tensor
    cuda: list[Tensor]  # one per visible GPU

    @classmethod
    def now(cls) -> RandomStates:
        """The states of this process."""
        version, numbers, gauss = random.getstate()
        kind, keys, *rest = np.random.get_state()
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return cls([version, [*numbers], gauss], [kind, np.asarray(keys).tolist(), *rest], torch.get_rng_state(), cuda)

    def restore(self) -> None:
        """Makes these the states of this process, which may see fewer GPUs than they were taken with."""
        version, numbers, gauss = self.python
        random.setstate((version, tuple(numbers), gauss))
        np.random.set_state(tuple(self.numpy))
        torch.set_rng_state(self.torch)
        for device, state in enumerate(self.cuda[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(state, device)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # the most that it takes
    torch.manual_seed(seed)


def separate(rank: int) -> None:
    """From now on, each of several processes that had the same states draws numbers of its own."""
    _seed(int(torch.randint(2**62, ())) + rank)


def restore_own(states: Sequence[RandomStates], rank: int, world: int) -> RandomStates:
    """Makes the states of this process those of its rank, if there are as many as processes; otherwise, new ones.

    Returns them. All processes have the first of these states before.
    """
    if len(states) == world:
        states[rank].restore()
    else:
        separate(rank)
    return RandomStates.now()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers in the block depend on the seed alone, and the block does not change those that follow it."""
    before = RandomStates.now()
    _seed(seed)
    try:
        yield
    finally:
        before.restore()
