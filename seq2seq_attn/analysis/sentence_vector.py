"""What one vector holds of a sentence: C, and how far it moves when a word is exchanged for another.

A model without attention reads C alone, whatever the length of the sentence. For each token j of x_1 .. x_n,

    d_j = 1/|W_j| Σ_{w in W_j} ‖C(x_1 .. x_{j-1}, w, x_{j+1} .. x_n) - C(x)‖ / ‖C(x)‖,

where W_j are words of the vocabulary other than x_j, evenly spread over it from the most frequent to the rarest. A
small d_j means that C holds little of the word: sentences that differ in it are nearly one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from seq2seq_attn.analysis.stepwise import source_item, source_tokens
from seq2seq_attn.corpora.vocabulary import SPECIALS
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.model import TrainedModel

WORDS = 4  # that a token is exchanged for
BATCH = 256  # sentences that are read together


class SentenceVector(NamedTuple):
    """A sentence as one vector."""

    source: tuple[str, ...]  # tokens, `</s>` last
    vector: list[float]  # C
    every_step: bool  # whether every step of the decoder reads it, or its first state alone
    changes: list[float]  # d_j of each token but `</s>`


@torch.inference_mode()
def sentence_vector(model: TrainedModel, source: str | Sequence[str]) -> SentenceVector:
    """C of a sentence, text or tokens, and d_j of each token.

    UserError: it is blank, a token is unknown, or the model has no such vector.
    """
    codec, translator = model.text_source("the vector of a sentence"), model.fused
    item = source_item(model, source)
    ids = [int(each) for each in item]
    known = range(len(SPECIALS), len(codec.vocabulary))
    spread = list(dict.fromkeys(known[number * (len(known) - 1) // WORDS] for number in range(WORDS + 1)))
    exchanges = [
        (place, [*ids[:place], word, *ids[place + 1 :]])
        for place in range(len(ids) - 1)
        for word in _others(spread, ids[place])
    ]
    sentences = [ids, *(sentence for _, sentence in exchanges)]
    found = []
    for first in range(0, len(sentences), BATCH):
        model.at_step()
        batch = model.source.collate(sentences[first : first + BATCH]).to(model.device)
        summary = translator.summary_of(batch)
        if summary is None:
            raise UserError("this model has no vector C of the whole sentence; recurrent models have one")
        found.append(summary.float())
    vectors = torch.cat(found)
    distances = (vectors[1:] - vectors[0]).norm(dim=1) / vectors[0].norm()
    places = torch.tensor([place for place, _ in exchanges], device=distances.device)
    changes = [float(distances[places == place].mean()) for place in range(len(ids) - 1)]
    return SentenceVector(source_tokens(model, source), vectors[0].tolist(), translator.repeats_summary, changes)


def _others(spread: Sequence[int], word: int) -> list[int]:
    """The words that this one is exchanged for: of one too many, the middle is left out, so that both ends stay."""
    others = [each for each in spread if each != word]
    return others if len(others) <= WORDS else others[: WORDS // 2] + others[WORDS // 2 + 1 :]
