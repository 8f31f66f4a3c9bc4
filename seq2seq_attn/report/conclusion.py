"""The conclusions that a comparison supports, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_attn.results.results import (
    ENOUGH,
    LEVEL,
    AcrossSeeds,
    ArmResult,
    Breakdown,
    Breakdowns,
    GroupResult,
    PairedComparison,
    Rate,
    Rates,
    Results,
)


def conclusion(results: Results) -> list[str]:
    """The comparison of each arm with the baseline, the largest difference first; then sentences about single arms.

    The note of the experiment, if it has one, comes second. The sentences about arms cover the effect of length on the
    best arm and on the baseline, the groups of sentences in which the two differ, the alignment error rate of the best
    arm, and the limits of a single seed.
    """
    best = max(results.arms, key=lambda arm: arm.bleu.mean)
    shown = [arm for arm in results.arms if arm is best or arm.name == results.baseline]
    sentences = []
    for pair in sorted(results.comparisons, key=lambda pair: -abs(pair.bleu_difference)):
        sentences.append(_over_sentences(pair))
        if pair.seeds is not None:
            sentences.append(_over_seeds(pair, pair.seeds))
    sentences += filter(None, [_correction(results), *map(_by_length, shown)])
    sentences += _by_group(results.where, best.name, results.baseline)
    if best.aer is not None:
        sentences.append(f"The alignment error rate (AER) of {best.name} is {best.aer.mean:.3f}.")
    if any(len(arm.seeds) == 1 for arm in results.arms):
        sentences.append(
            "Single seed: the intervals account for the choice of test sentences, not of the seed; "
            "compare several seeds before you publish."
        )
    if results.note:
        sentences.insert(1, results.note)
    return sentences


def _over_sentences(pair: PairedComparison) -> str:
    """The test over sentences: which arm is better and by how much, or the detectable difference."""
    p = pair.p_value if pair.randomisation is None else pair.randomisation.p_holm
    evidence = f"95 % interval {pair.low:+.1f} to {pair.high:+.1f}, {_p(p)}"
    if pair.significant:
        return (
            f"{pair.arm} is {_better(pair)} than {pair.baseline} by {abs(pair.bleu_difference):.1f} BLEU ({evidence})."
        )
    difference = f"{pair.bleu_difference:+.1f} BLEU ({evidence})"
    limit = f"; on a test set like this {_detected(pair.detectable)}" if pair.detectable else ""
    return f"{pair.arm} does not differ significantly from {pair.baseline}: {difference}{limit}."


def _over_seeds(pair: PairedComparison, seeds: AcrossSeeds) -> str:
    """The test over seeds, on this test set."""
    evidence = f"95 % interval {seeds.low:+.1f} to {seeds.high:+.1f}, {_p(seeds.p_holm)}, Welch's t test over seeds"
    if seeds.p_holm >= LEVEL:
        return (
            f"This may not hold for other seeds: {pair.arm} against {pair.baseline}, {evidence}; "
            f"with this number of seeds {_detected(seeds.detectable)}."
        )
    if pair.significant:
        return f"This also holds over seeds: {pair.arm} is {_better(pair)} than {pair.baseline} ({evidence})."
    return (
        f"Over seeds, {pair.arm} is {_better(pair)} than {pair.baseline} on this test set ({evidence}); "
        "a larger test set is needed to show whether this holds for other sentences."
    )


def _correction(results: Results) -> str | None:
    """How the p-values in the other sentences are corrected."""
    count = len(results.comparisons)
    if count < 2 or any(pair.randomisation is None for pair in results.comparisons):
        return None
    return (
        f"All p-values are corrected for {count} comparisons (Holm); the intervals are not. "
        "The p-values over test sentences are from approximate randomisation."
    )


def _better(pair: PairedComparison) -> str:
    return "better" if pair.bleu_difference > 0 else "worse"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _detected(difference: float) -> str:
    return f"a true difference of {difference:.1f} is detected with 80 % power"


def _by_length(arm: ArmResult) -> str | None:
    """The longest against the shortest band with enough sentences; None if there are fewer than two such bands."""
    bands = [band for band in arm.bleu_by_length if band.sentences >= ENOUGH]
    if len(bands) < 2 or bands[0].bleu == 0:
        return None
    first, last = bands[0], bands[-1]
    return (
        f"On sentences of {last.label} words, {arm.name} retains {last.bleu / first.bleu:.0%} "
        f"of its BLEU on sentences of {first.label} words ({last.bleu:.1f} against {first.bleu:.1f})."
    )


def _by_group(where: Breakdowns | None, best: str, baseline: str | None) -> list[str]:
    """At most one sentence per breakdown and table of rates; none if the intervals overlap."""
    if where is None:
        return []
    sentences = [
        _within(breakdown, best) if breakdown.by_own_groups else _between(breakdown, best, baseline)
        for breakdown in where.breakdowns
    ]
    sentences += [_rates(rates, best, baseline) for rates in where.rates]
    return [sentence for sentence in sentences if sentence is not None]


def _within(breakdown: Breakdown, arm: str) -> str | None:
    """The first group of an arm against its last group."""
    results: Sequence[GroupResult | None] = breakdown.arms.get(arm, (None,))
    first, last = results[0], results[-1]
    if first is None or last is None or not _differ(first, last):
        return None
    return (
        f"Grouped by {breakdown.name}, {arm} has {first.bleu:.1f} BLEU on the {breakdown.groups[0]} third of the "
        f"sentences and {last.bleu:.1f} on the {breakdown.groups[-1]} third."
    )


def _between(breakdown: Breakdown, best: str, baseline: str | None) -> str | None:
    """The groups with the largest and the smallest gain, if the intervals of these gains do not overlap."""
    if baseline is None or best == baseline or not {best, baseline} <= breakdown.arms.keys():
        return None
    pairs = zip(breakdown.groups, breakdown.arms[best], breakdown.arms[baseline], strict=True)
    different = [
        (label, ours, theirs)
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and _differ(ours, theirs)
    ]
    if len(different) < 2:
        return None
    least, *_, most = sorted(different, key=lambda each: each[1].bleu - each[2].bleu)
    if most[1].low - most[2].high <= least[1].high - least[2].low:
        return None
    places = (f"{label} ({ours.bleu:.1f} against {theirs.bleu:.1f} BLEU)" for label, ours, theirs in (most, least))
    return f"Grouped by {breakdown.name}, {best} gains most over {baseline} for {' and least for '.join(places)}."


def _rates(rates: Rates, best: str, baseline: str | None) -> str | None:
    """The rates in which the two arms differ."""
    if baseline is None or best == baseline or not {best, baseline} <= rates.arms.keys():
        return None
    pairs = zip(rates.groups, rates.arms[best], rates.arms[baseline], strict=True)
    different = [
        f"{label} {ours.value:.1%} against {theirs.value:.1%}"
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and _disjoint(ours, theirs)
    ]
    return f"{rates.name.capitalize()}, {best} against {baseline}: {', '.join(different)}." if different else None


def _differ(one: GroupResult, other: GroupResult) -> bool:
    return min(one.sentences, other.sentences) >= ENOUGH and _disjoint(one, other)


def _disjoint(one: GroupResult | Rate, other: GroupResult | Rate) -> bool:
    return one.high < other.low or other.high < one.low
