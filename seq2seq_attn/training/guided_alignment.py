"""Guided alignment: training draws the attention weights toward given links (Chen et al. 2016).

Links between words become links between the tokens of a corpus (`CorpusLinks`), a batch carries those of its pairs
(`TokenLinks`), and `alignment_loss` compares them with the weights.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq_attn.attention.normalizer import full_precision


class TokenLinks(NamedTuple):
    """M links between the tokens of the sentence pairs of a batch."""

    row: Tensor  # (M,) int64: the pair
    target: Tensor  # (M,) int64: its target token
    source: Tensor  # (M,) int64: its source token
    share: Tensor  # (M,): 1 / (number of links of this target token)

    def to(self, device: torch.device) -> TokenLinks:
        return TokenLinks(*(part.to(device, non_blocking=True) for part in self))

    def select(self, pairs: Tensor) -> TokenLinks:
        """The links of these pairs (M,) of the batch, as a batch of their own in this order."""
        row, link = (pairs.to(self.row.device)[:, None] == self.row).nonzero(as_tuple=True)
        return TokenLinks(row, self.target[link], self.source[link], self.share[link])


@dataclass(frozen=True, eq=False)
class CorpusLinks:
    """Links between the tokens of a corpus: those of pair p are the entries from offsets[p] to offsets[p + 1]."""

    target: NDArray[np.int64]
    source: NDArray[np.int64]
    share: NDArray[np.float32]
    offsets: NDArray[np.int64]  # (pairs + 1,)

    @classmethod
    def between(
        cls, links: Iterable[Set[tuple[int, int]]], words: Iterable[tuple[Sequence[int], Sequence[int]]]
    ) -> CorpusLinks:
        """From the links (source word, target word) of each pair, and the word of each of its source and target tokens.

        Two tokens are linked if their words are. `</s>` has no word and no link.
        """
        target, source, share, offsets = array("q"), array("q"), array("f"), array("q", [0])
        for pair_links, (source_words, target_words) in zip(links, words, strict=True):
            linked_words, tokens = defaultdict(set), defaultdict(list)  # by target word; by source word
            for source_word, target_word in pair_links:
                linked_words[target_word].add(source_word)
            for j, source_word in enumerate(source_words):
                tokens[source_word].append(j)
            for i, target_word in enumerate(target_words):
                linked = [j for word in sorted(linked_words[target_word]) for j in tokens[word]]
                for j in linked:
                    target.append(i)
                    source.append(j)
                    share.append(1 / len(linked))
            offsets.append(len(source))
        return cls(*map(np.asarray, (target, source, share, offsets)))

    def of(self, rows: NDArray[np.int64]) -> TokenLinks:
        """The links of a batch of the pairs with these indices."""
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        entries = np.concatenate([np.arange(start, end) for start, end in zip(starts, ends, strict=True)])
        row = np.repeat(np.arange(len(rows)), ends - starts)
        parts = (row, self.target[entries], self.source[entries], self.share[entries])
        return TokenLinks(*map(torch.from_numpy, parts))


def alignment_loss(weights: Tensor, links: TokenLinks) -> Tensor:
    """-Σ_ij A_ij log a_ij over all pairs of a batch, with attention weights a (B, T, S).

    (Chen et al. 2016, with cross-entropy as the distance.) A_ij is 1 / n_i if target token i and source token j are
    linked, n_i being the number of links of i, and 0 otherwise. A target token without links contributes nothing. A
    weight of exactly 0 counts as the smallest float and has no gradient: a sparse or hard normalizer, or a window, does
    not learn from links that it does not read.
    """
    linked = full_precision(weights[links.row, links.target, links.source])
    smallest = torch.finfo(linked.dtype).tiny
    return -(links.share * linked.clamp_min(smallest).log()).sum()
