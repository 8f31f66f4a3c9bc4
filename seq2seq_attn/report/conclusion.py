"""The conclusions that a comparison supports, as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seq2seq_attn.results.results import (
    ENOUGH,
    LEARNED,
    ArmResult,
    Breakdown,
    GroupResult,
    PairedComparison,
    Rate,
    Rates,
    Results,
)

NOTHING_LEARNED = (
    f"No arm reaches {LEARNED:g} BLEU: nothing was learned that could be compared, so no conclusion about the arms is "
    "drawn. Train longer, or check the data and evaluation.tokenize."
)


def conclusion(results: Results) -> list[str]:
    """The comparison of each arm with the baseline, the largest difference first; then sentences about single arms.

    An arm is called better or worse only by the joint test, over training runs and sentences. If no arm has learned
    anything, this is said instead, and nothing is compared. The note of the
    experiment, if it has one, comes second, then the runs that are missing. The planned contrasts follow, then the
    effect of length on the best arm and on the baseline, the groups of sentences in which the two differ, the alignment
    error rate of the best arm, the arms that were stopped too early, and what the number of seeds does not allow.
    """
    best = results.best
    shown = [arm for arm in results.arms if arm is best or arm.name == results.baseline]
    runs = {arm.name: len(arm.seeds) for arm in results.arms}
    ordered = sorted(results.comparisons, key=lambda pair: -abs(pair.bleu_difference))
    pairs = (*ordered, *results.contrasts)
    if results.is_learned:
        sentences = [_compared(pair, max(runs[pair.arm], runs[pair.baseline])) for pair in pairs]
        sentences += filter(None, [_correction(results), *map(_by_length, shown)])
        sentences += _by_group(results, best.name)
    else:
        sentences = [NOTHING_LEARNED]
    if best.aer is not None:
        sentences.append(_aligned(best, best.aer.mean, results.aer_rivals))
    sentences += [_still_improving(arm) for arm in results.arms if arm.unconverged]
    sentences += filter(None, [_too_few(results)]) if results.is_learned else []
    sentences[1:1] = [f"Missing: {each}." for each in missing_runs(results)]
    if results.note:
        sentences.insert(1, results.note)
    return sentences


def first_conclusion(results: Results) -> list[str]:
    """The first sentence of the conclusion, and the note of the experiment if it is another one."""
    return list(dict.fromkeys([*conclusion(results)[:1], *filter(None, [results.note])]))


def missing_runs(results: Results) -> list[str]:
    """The runs that failed, with the reason; an arm without any other run is said to be left out."""
    reported = [arm.name for arm in results.arms]

    def consequence(run: str) -> str:
        is_trial = any(run.startswith(f"{arm}, trial ") for arm in reported)
        return "" if run in reported or is_trial else ", whose arm is left out"

    return [f"{each.arm}, seed {each.seed}{consequence(each.arm)}: {each.reason}" for each in results.missing]


def _compared(pair: PairedComparison, runs: int) -> str:
    """The verdict on two arms with at most `runs` runs each; if there is none, what was seen in these runs."""
    low, high = pair.interval
    gap, arms = abs(pair.bleu_difference), f"{pair.arm} and {pair.baseline}"
    if pair.low == pair.high == pair.bleu_difference == 0:
        return f"{arms} score the same on every resample of the test set."
    if pair.joint is not None:
        evidence = (
            f" (95 % interval {low:+.1f} to {high:+.1f} over training runs and sentences, {_p(pair.joint.p_holm)})"
        )
        if pair.verdict != "undecided":
            return f"{pair.arm} is {pair.verdict} than {pair.baseline} by {gap:.1f} BLEU{evidence}."
        power = (
            f"; an experiment like this detects a true difference of {pair.joint.detectable:.1f} with 80 % power"
            if pair.joint.detectable
            else ""
        )
        return f"{arms} cannot be told apart: {pair.bleu_difference:+.1f} BLEU{evidence}{power}."
    p = pair.p_reported
    evidence = "" if p is None else f" (95 % interval {low:+.1f} to {high:+.1f} over test sentences, {_p(p)})"
    these = "this training" if runs == 1 else "these training runs"
    if pair.differs_in_these_runs:
        more = "higher" if pair.bleu_difference > 0 else "lower"
        return f"{pair.arm} scored {gap:.1f} BLEU {more} than {pair.baseline} in {these}{evidence}."
    return f"{arms} cannot be told apart in {these}: {pair.bleu_difference:+.1f} BLEU{evidence}."


def _still_improving(arm: ArmResult) -> str:
    which = ", ".join(map(str, arm.unconverged))
    seeds = f"seed{'s' if len(arm.unconverged) > 1 else ''} {which}"
    return f"{arm.name} was still improving when stopped ({seeds}): longer training may raise its score."


def _too_few(results: Results) -> str | None:
    """What the number of training runs or of sentences does not allow."""
    if not results.tested:
        return None
    sources, pairs = results.arms[0].sources, results.arms[0].sentences
    if sources < ENOUGH:
        different = "different " if sources < pairs else ""
        sentences = f"One {different}test sentence" if sources == 1 else f"{sources} {different}test sentences"
        sentences += f" ({pairs} pairs)" if different else ""
        verb = "is" if sources == 1 else "are"
        return f"{sentences} {verb} too few to say which arm is better; use at least {ENOUGH}."
    several = {arm.name for arm in results.arms if len(arm.seeds) > 1}
    alike = {arm.name for arm in results.arms if arm.bleu.joint_low is None}  # all training runs score the same
    untested = {
        name
        for pair in results.tested
        if pair.joint is None and {pair.arm, pair.baseline} <= several
        for name in (pair.arm, pair.baseline)
    }
    if copies := [arm.name for arm in results.arms if arm.name in alike & untested]:
        which = "; ".join(copies)
        return (
            f"No training run differs from the next ({which}), as if they were copies of one; nothing can be said "
            "about other training runs."
        )
    for seeds, what, why in (
        (1, "Single seed", "one training per arm compares two models, not two arms; another may reverse the order"),
        (2, "Two seeds", "the variance between training runs rests on one difference per arm"),
    ):
        if arms := [arm.name for arm in results.arms if len(arm.seeds) == seeds]:
            which = "" if len(arms) == len(results.arms) else f" ({', '.join(arms)})"
            return f"{what}{which}: {why}. Train three or more."
    return None


def _aligned(arm: ArmResult, rate: float, rivals: Mapping[str, float]) -> str:
    """The alignment error rate of an arm, beside those that need no model."""
    others = " and ".join(f"{value:.3f} of a {name} alignment" for name, value in rivals.items())
    beside = f", against {others}" if others else ""
    return f"The alignment error rate (AER) of {arm.name} is {rate:.3f}{beside}."


def _correction(results: Results) -> str | None:
    """How the p-values in the other sentences are corrected."""
    count = len(results.tested)
    if count < 2:
        return None
    return f"All p-values are corrected for {count} comparisons (Holm); the intervals are not."


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _by_length(arm: ArmResult) -> str | None:
    """The longest against the shortest band with enough sentences; None unless their intervals are disjoint."""
    bands = [band for band in arm.bleu_by_length if not band.few]
    if len(bands) < 2:
        return None
    first, last = bands[0], bands[-1]
    limits = first.bleu_low, first.bleu_high, last.bleu_low, last.bleu_high
    if None in limits or not _apart(*limits):  # type: ignore[arg-type]  # None is excluded
        return None
    more = "less" if last.bleu < first.bleu else "more"
    return (
        f"On sentences of {last.label} words, {arm.name} scores {abs(first.bleu - last.bleu):.1f} BLEU {more} than on "
        f"sentences of {first.label} words ({last.bleu:.1f} against {first.bleu:.1f})."
    )


def _by_group(results: Results, best: str) -> list[str]:
    """At most one sentence per breakdown and table of rates; none if the intervals overlap."""
    where, baseline = results.where, results.baseline
    if where is None or results.arms[0].sources < ENOUGH:
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
    """The groups with the largest and the smallest gain, if the arms differ in both and these gains differ as well."""
    if baseline is None or best == baseline or not {best, baseline} <= breakdown.arms.keys():
        return None
    pairs = zip(breakdown.groups, breakdown.arms[best], breakdown.arms[baseline], strict=True)
    large = [
        (label, ours, theirs)
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and not (ours.few or theirs.few)
    ]
    if len(large) < 2:
        return None
    least, *_, most = sorted(large, key=lambda each: each[1].bleu - each[2].bleu)
    if not (_disjoint(*most[1:]) and _disjoint(*least[1:])):
        return None
    if most[1].low - most[2].high <= least[1].high - least[2].low:
        return None
    places = (f"{label} ({ours.bleu:.1f} against {theirs.bleu:.1f} BLEU)" for label, ours, theirs in (most, least))
    return f"Grouped by {breakdown.name}, {best} gains most over {baseline} for {' and least for '.join(places)}."


def _rates(rates: Rates, best: str, baseline: str | None) -> str | None:
    """The rates in which the two arms differ; not those of a few words, which may be in a single sentence."""
    if baseline is None or best == baseline or not {best, baseline} <= rates.arms.keys():
        return None
    pairs = zip(rates.groups, rates.arms[best], rates.arms[baseline], strict=True)
    different = [
        f"{label} {ours.value:.1%} against {theirs.value:.1%}"
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and min(ours.of, theirs.of) >= ENOUGH and _disjoint(ours, theirs)
    ]
    return f"{rates.name.capitalize()}, {best} against {baseline}: {', '.join(different)}." if different else None


def _differ(one: GroupResult, other: GroupResult) -> bool:
    return not (one.few or other.few) and _disjoint(one, other)


def _disjoint(one: GroupResult | Rate, other: GroupResult | Rate) -> bool:
    return _apart(one.low, one.high, other.low, other.high)


def _apart(low: float, high: float, other_low: float, other_high: float) -> bool:
    """Whether two intervals have no point in common."""
    return high < other_low or other_high < low
