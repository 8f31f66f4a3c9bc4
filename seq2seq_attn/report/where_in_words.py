"""Where the best arm and the baseline lie apart, in words; nothing is said where intervals overlap."""

from __future__ import annotations

from seq2seq_attn.results.results import ENOUGH
from seq2seq_attn.results.where import Breakdown, GroupResult, Rate, Rates, Where


def where_in_words(where: Where | None, best: str, baseline: str | None) -> list[str]:
    """At most one sentence a breakdown and kind of rates."""
    if where is None:
        return []
    sentences = [
        _within(breakdown, best) if breakdown.by_own_groups else _between(breakdown, best, baseline)
        for breakdown in where.breakdowns
    ]
    sentences += [_rates(rates, best, baseline) for rates in where.rates]
    return [sentence for sentence in sentences if sentence is not None]


def _within(breakdown: Breakdown, arm: str) -> str | None:
    """The first group of an arm against its last."""
    results = breakdown.arms.get(arm, (None,))
    first, last = results[0], results[-1]
    if first is None or last is None or not _apart(first, last):
        return None
    return (
        f"By {breakdown.name}, {arm} has {first.bleu:.1f} BLEU on the {breakdown.groups[0]} third of the "
        f"sentences and {last.bleu:.1f} on the {breakdown.groups[-1]}."
    )


def _between(breakdown: Breakdown, best: str, baseline: str | None) -> str | None:
    """The groups where two arms are furthest apart, and closest, if these distances are themselves told apart."""
    if baseline is None or best == baseline or not {best, baseline} <= breakdown.arms.keys():
        return None
    pairs = zip(breakdown.groups, breakdown.arms[best], breakdown.arms[baseline], strict=True)
    apart = [
        (label, ours, theirs)
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and _apart(ours, theirs)
    ]
    if len(apart) < 2:
        return None
    least, *_, most = sorted(apart, key=lambda each: each[1].bleu - each[2].bleu)
    if most[1].low - most[2].high <= least[1].high - least[2].low:
        return None
    places = (f"{label} ({ours.bleu:.1f} against {theirs.bleu:.1f} BLEU)" for label, ours, theirs in (most, least))
    return f"By {breakdown.name}, {best} gains most over {baseline} at {' and least at '.join(places)}."


def _rates(rates: Rates, best: str, baseline: str | None) -> str | None:
    if baseline is None or best == baseline or not {best, baseline} <= rates.arms.keys():
        return None
    pairs = zip(rates.groups, rates.arms[best], rates.arms[baseline], strict=True)
    apart = [
        f"{label} {ours.value:.1%} against {theirs.value:.1%}"
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and _disjoint(ours, theirs)
    ]
    return f"{rates.name.capitalize()}, {best} against {baseline}: {', '.join(apart)}." if apart else None


def _apart(one: GroupResult, other: GroupResult) -> bool:
    return min(one.sentences, other.sentences) >= ENOUGH and _disjoint(one, other)


def _disjoint(one: GroupResult | Rate, other: GroupResult | Rate) -> bool:
    return one.high < other.low or other.high < one.low
