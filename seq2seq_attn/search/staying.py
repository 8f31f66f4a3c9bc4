"""Who stays in the batch, in greedy and in beam search."""

from __future__ import annotations

import torch
from torch import Tensor

# Selecting rows of the memory moves about as much as one step reads of it. It has paid once the rows that it
# dropped, summed over the steps since, make a whole batch: with an eighth, after eight steps.
WORTH_LEAVING = 1 / 8


def staying(running: Tensor) -> Tensor:
    """Rows of the sentences that stay in the batch, in order; none when no sentence is running (B,) any more.

    Finished sentences stay too, as rows that nobody reads, until enough of them leave together. Of a whole
    step, this alone waits for the device.
    """
    rows = running.nonzero().flatten()
    leaving = len(running) - len(rows)
    if len(rows) and 0 < leaving < WORTH_LEAVING * len(running):
        return torch.arange(len(running), device=running.device)
    return rows
