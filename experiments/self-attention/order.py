"""Does a layer know the order of the words? The states of a permuted sentence, beside those of the original."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from layers import ENCODERS, embedded, encoder
from torch import Tensor, nn

from seq2seq_attn.attention import Position
from seq2seq_attn.evaluation.significance import t_interval

SENTENCES = 20
WORDS = ["Tom", "slowly", "chases", "Jerry"]
SWAP = [3, 1, 2, 0]  # Jerry slowly chases Tom
SHOWN = 24  # units of a state in the picture


def order(seeds: Sequence[int], length: int) -> dict[str, object]:
    """The distance between the states of a word in a sentence and in a permutation of it, for each encoder."""
    distances = {name: [permuted_distance(knows(name, seed), seed, length) for seed in seeds] for name in ENCODERS}
    return {
        "seeds": list(seeds),
        "length": length,
        "sentences": SENTENCES,
        "distance": distances,
        "interval": {name: t_interval(found) for name, found in distances.items()},
        "example": {
            "words": WORDS,
            "swapped": [WORDS[place] for place in SWAP],
            "distance": {name: example(name) for name in ENCODERS},
        },
    }


def knows(name: str, seed: int) -> nn.Module:
    """The untrained encoder, but with learned positions that are as far apart as after training.

    They begin at or near zero, where no position differs from another.
    """
    built = encoder(name, seed)
    for module in built.modules():
        if isinstance(module, Position):
            for parameter in module.parameters():
                nn.init.normal_(parameter)
    return built


def permuted_distance(layer: nn.Module, seed: int, length: int) -> float:
    """Mean over words of |h' - h| / |h|, with h' the state of the same word after a random permutation."""
    x = embedded(SENTENCES, length, seed)
    permutation = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    return float(distances(*states(layer, x, permutation)).mean())


@torch.no_grad()
def states(layer: nn.Module, x: Tensor, permutation: Tensor) -> tuple[Tensor, Tensor]:
    """The states (B, N, size) of the sentences, and those of the permuted ones in the order of the original words."""
    lengths = torch.full((len(x),), x.shape[1])
    permuted = torch.empty_like(before := layer(x, lengths))
    permuted[:, permutation] = layer(x[:, permutation], lengths)
    return before, permuted


def distances(before: Tensor, after: Tensor) -> Tensor:
    """|h' - h| / |h| of every word."""
    return (after - before).norm(dim=-1) / before.norm(dim=-1)


def example_states(name: str) -> tuple[Tensor, Tensor]:
    """The states (4, size) of `WORDS`, and of the same words in the swapped sentence."""
    before, after = states(knows(name, 1), embedded(1, len(WORDS), 1), torch.tensor(SWAP))
    return before[0], after[0]


def example(name: str) -> list[float]:
    return distances(*example_states(name)).tolist()
