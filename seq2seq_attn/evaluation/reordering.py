"""How far the words of a sentence are moved when it is translated."""

from __future__ import annotations

from itertools import pairwise

from seq2seq_attn.evaluation.pharaoh import Links


def mean_jump(links: Links) -> float | None:
    """Mean distance, in source words, that one jumps over from one target word to the next: 0 for the same order.

        1/(n - 1) Σ_{i=2..n} |a_i - b_{i-1} - 1|

    That is the distortion of phrase-based models (Koehn, Och & Marcu 2003), with each linked target word as a phrase:
    a_i is the first and b_i the last source word that the i-th of them is linked to. Staying at the same word counts 1.
    None for fewer than two linked target words.
    """
    targets = sorted({target for _, target in links})
    sources = {each: [source for source, target in links if target == each] for each in targets}
    jumps = [abs(min(sources[after]) - max(sources[before]) - 1) for before, after in pairwise(targets)]
    return sum(jumps) / len(jumps) if jumps else None
