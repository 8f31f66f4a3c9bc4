"""The scores of arms on groups of test sentences, by what is rare, moved or uncertain in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from seq2seq_attn.comparison.arms import Arm
from seq2seq_attn.evaluation.alignment import GoldCorpus, mean_jump
from seq2seq_attn.evaluation.groups import Group, group_score, in_bands, in_thirds
from seq2seq_attn.evaluation.words import FREQUENCIES, Bag, rarest
from seq2seq_attn.results.results import Breakdown, GroupResult

Arms = Mapping[str, Arm]
THIRDS = "sharpest", "middle", "most even"


def by_rarest_word(arms: Arms, sources: Sequence[Bag], counts: Mapping[str, int]) -> Breakdown | None:
    """By how often the training text has the source's rarest word."""
    return _alike(
        "rarest source word",
        "How often the training text has the source word that it has least often.",
        in_bands(rarest(sources, counts), FREQUENCIES),
        arms,
        sources,
    )


def by_reordering(arms: Arms, sources: Sequence[Bag], gold: GoldCorpus | None) -> Breakdown | None:
    """By the distance of reordering in gold links; without them in those of the best arm that has links."""
    if gold is not None:
        links, origin = gold.sure, "gold links"
    else:
        reading = {name: arm for name, arm in arms.items() if arm.attention}
        if not reading:
            return None
        best = max(reading, key=lambda name: reading[name].bleu.bleu().mean())
        links = reading[best].attention[0].links
        origin = f"the links of {best}, seed {reading[best].runs[0].seed}, as there are no gold ones"
    return _alike(
        "distance of reordering",
        "Mean distance, in source words, jumped over from one word of the reference to the next "
        f"(0: the same order), by {origin}. Thirds of the sentences.",
        in_thirds([mean_jump(each) for each in links]),
        arms,
        sources,
    )


def by_entropy(arms: Arms, sources: Sequence[Bag]) -> Breakdown | None:
    """By the entropy of each arm's own weights, mean over its runs."""
    results = {name: _by_own_entropy(arm, sources) for name, arm in arms.items() if arm.attention}
    if not results:
        return None
    return Breakdown(
        "entropy of the weights",
        "Thirds of the sentences by the mean entropy of the rows of weights on the reference, in bits; each arm by its "
        "own, so that its groups hold other sentences than another arm's. Long sources have more to spread over.",
        THIRDS,
        results,
    )


def _by_own_entropy(arm: Arm, sources: Sequence[Bag]) -> tuple[GroupResult | None, ...]:
    runs = zip(*(reading.entropies for reading in arm.attention), strict=True)
    entropies = [None if None in seeds else float(np.mean(seeds)) for seeds in runs]
    return tuple(_result(arm, sources, group.rows, f"{group.label} bits") for group in in_thirds(entropies))


def _alike(name: str, meaning: str, groups: Sequence[Group], arms: Arms, sources: Sequence[Bag]) -> Breakdown | None:
    """The same groups for every arm; None where they tell nothing apart."""
    filled = [group for group in groups if group.rows]
    if len(filled) < 2:
        return None
    results = {arm: tuple(_result(tested, sources, group.rows) for group in filled) for arm, tested in arms.items()}
    return Breakdown(name, meaning, tuple(group.label for group in filled), results)


def _result(arm: Arm, sources: Sequence[Bag], rows: Sequence[int], bounds: str = "") -> GroupResult | None:
    if not rows:
        return None
    score = group_score(rows, arm.bleu, arm.chrf)
    words = float(np.mean([sources[row].words.total() for row in rows]))
    return GroupResult(len(rows), words, score.bleu, score.low, score.high, score.chrf, bounds)
