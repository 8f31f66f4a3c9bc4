"""From lists of token ids to the padded tensors that a translator reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.translator import Sentences
from seq2seq_attn.text.vocabulary import PAD


def pad(ids: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Sentences:
    """A batch of sentences, each a list of token ids closed by `</s>`; the lengths stay on the CPU.

    Raises UserError if a sentence has no token at all: a softmax over nothing is not a number.
    """
    lengths = [len(sentence) for sentence in ids]
    if 0 in lengths:
        raise UserError(f"sentence {lengths.index(0)} of the batch has no token; close every sentence by `</s>`")
    longest = max(lengths)
    rows = [[*sentence, *[PAD] * (longest - len(sentence))] for sentence in ids]
    return Sentences(torch.tensor(rows, device=device), torch.tensor(lengths))
