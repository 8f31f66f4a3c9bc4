"""Which sentences share a batch: those of equal length, so that next to nothing is padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError

Lengths = Sequence[int] | NDArray[np.int64]

UNITS = ("tokens", "sentences")

# Longest over shortest target of a band. A narrow band spares the target padding, a wide one the source: it
# holds more sentences to sort. In batches of 4,096 tokens of Multi30k, 5 % of the source and 3 % of the
# target are padding; with every target length a band of its own it is 7 % and 1 %.
_BAND = 9 / 8


def length_buckets(
    source_lengths: Lengths,
    target_lengths: Lengths,
    *,
    size: int,
    unit: str = "tokens",
    seed: int,
    epoch: int = 0,
) -> list[list[int]]:
    """The batches of one epoch, in random order, as lists of sentence indices; each index is in exactly one.

    In `tokens`, a batch of N sentences holds N * longest <= size on either side, padding included; a sentence
    longer than that is a batch of its own. In `sentences`, every batch but one has `size` of them. Lengths
    are those that the model sees, `</s>` included. The same seed and epoch give the same batches.
    """
    if size < 1 or unit not in UNITS:
        raise UserError(f"batches of {size} {unit}: the size must be at least 1, the unit one of {', '.join(UNITS)}")
    source, target = np.asarray(source_lengths, dtype=np.int64), np.asarray(target_lengths, dtype=np.int64)
    random = np.random.default_rng((seed, epoch))
    # By bands of target length, and in a band by source length, up and down in turn: where one band ends and
    # the next begins, the source lengths meet. Equal pairs are in random order, so batches differ by epoch.
    _, band = np.unique(np.floor(np.log(target) / np.log(_BAND)), return_inverse=True)
    snake = np.where(band % 2 == 0, source, -source)
    order = np.lexsort((random.random(len(source)), target, snake, band))

    lengths = np.maximum(source, target) if unit == "tokens" else np.ones_like(source)

    batches: list[list[int]] = []
    longest = 0
    for index, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        longest = max(longest, length)
        if not batches or (len(batches[-1]) + 1) * longest > size:
            batches.append([])
            longest = length
        batches[-1].append(index)
    random.shuffle(batches)
    return batches
