"""From token ids to the padded tensors that a translator reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq_attn.models.translator import Sentences
from seq2seq_attn.text.encoded import EncodedSentences, Ids


def pad(ids: Sequence[Ids], device: torch.device | str = "cpu") -> Sentences:
    """A batch of sentences, each a list of token ids closed by `</s>`; the lengths stay on the CPU.

    Raises UserError if a sentence has no token at all.
    """
    tokens, lengths = batch(EncodedSentences.of(ids), range(len(ids)))
    return Sentences(tokens.to(device), lengths)


def batch(sentences: EncodedSentences, rows: Sequence[int] | NDArray[np.int64]) -> Sentences:
    """A batch of some of these sentences, on the CPU."""
    return Sentences(*map(torch.from_numpy, sentences.padded(rows)))
