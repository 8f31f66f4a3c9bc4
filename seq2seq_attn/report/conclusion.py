"""The conclusions that a comparison supports, as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seq2seq_attn.results.breakdowns import ENOUGH, Breakdown, GroupResult, GroupScore, Rate, Rates
from seq2seq_attn.results.differences import PairedComparison
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results


def nothing_learned(results: Results) -> str:
    """What is said instead of a comparison of arms that have learned nothing."""
    main = results.main
    return (
        f"No arm has {main.floor:g} {main.label} or {'less' if main.sign < 0 else 'more'}: nothing was learned that "
        "could be compared, so no conclusion about the arms is drawn. Train longer, or check the data and how they are "
        "scored (evaluation)."
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
    ordered = sorted(results.comparisons, key=lambda pair: -abs(pair.difference))
    pairs = (*ordered, *results.contrasts)
    if results.is_learned:
        sentences = [_compared(results, pair, max(runs[pair.arm], runs[pair.baseline])) for pair in pairs]
        sentences += filter(None, [_correction(results), *(_by_length(results, arm.name) for arm in shown)])
        sentences += _by_group(results, best.name)
    else:
        sentences = [nothing_learned(results)]
    if "aer" in best.scores:
        sentences.append(_aligned(best, best.scores["aer"].mean, results.aer_rivals))
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


def _compared(results: Results, pair: PairedComparison, runs: int) -> str:
    """The verdict on two arms with at most `runs` runs each; if there is none, what was seen in these runs."""
    metric = results.main
    difference = f"{metric.text(pair.difference, '+')} {metric.label}"
    gap = f"{metric.text(abs(pair.difference))} {metric.label}"
    low, high = (metric.text(limit, "+") for limit in pair.interval)
    if pair.low == pair.high == pair.difference == 0:
        return f"{pair.arm} and {pair.baseline} score the same on every resample of the test set."
    if pair.joint is not None:
        evidence = f" (95 % interval {low} to {high} over training runs and sentences, {_p(pair.joint.p_holm)})"
        verdict = results.verdict(pair)
        if verdict != "undecided":
            return f"{pair.arm} is {verdict} than {pair.baseline} by {gap}{evidence}."
        power = (
            f"; an experiment like this detects a true difference of {metric.text(pair.joint.detectable)} with 80 % "
            "power"
            if pair.joint.detectable
            else ""
        )
        return f"{pair.arm} does not differ significantly from {pair.baseline}: {difference}{evidence}{power}."
    these = "this training" if runs == 1 else "these training runs"
    if pair.p_reported is None:
        seen = f"{pair.arm} differs from {pair.baseline} by {difference} in {these}"
        return f"{seen}; a single test sentence allows no test."
    evidence = f" (95 % interval {low} to {high} over test sentences, {_p(pair.p_reported)})"
    if pair.differs_in_these_runs:
        more = "higher" if pair.difference > 0 else "lower"
        return f"{pair.arm} scored {gap} {more} than {pair.baseline} in {these}{evidence}."
    return f"{pair.arm} does not differ significantly from {pair.baseline} in {these}: {difference}{evidence}."


def _still_improving(arm: ArmResult) -> str:
    which = ", ".join(map(str, arm.unconverged))
    seeds = f"seed{'s' if len(arm.unconverged) > 1 else ''} {which}"
    return f"{arm.name} was still improving when stopped ({seeds}): longer training may raise its score."


def _too_few(results: Results) -> str | None:
    """What the number of training runs or of sentences does not allow."""
    if not results.tested:
        return None
    sources, pairs = results.different, results.sentences
    if sources < ENOUGH:
        different = "different " if sources < pairs else ""
        sentences = f"One {different}test sentence" if sources == 1 else f"{sources} {different}test sentences"
        sentences += f" ({pairs} pairs)" if different else ""
        verb = "is" if sources == 1 else "are"
        return f"{sentences} {verb} too few to say which arm is better; use at least {ENOUGH}."
    several = {arm.name for arm in results.arms if len(arm.seeds) > 1}
    alike = {
        arm.name for arm in results.arms if results.score(arm).joint_low is None
    }  # all training runs score the same
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


def _by_length(results: Results, arm: str) -> str | None:
    """The longest against the shortest band with enough sentences; None unless their intervals are disjoint."""
    groups = zip(results.by_length.groups, results.by_length.arms[arm], strict=True)
    bands = [(label, group.main) for label, group in groups if group is not None and not group.few]
    if len(bands) < 2:
        return None
    (shortest, first), (longest, last) = bands[0], bands[-1]
    if not _disjoint(first, last):
        return None
    metric = results.main
    gap, more = metric.text(abs(first.value - last.value)), "less" if last.value < first.value else "more"
    return (
        f"On sentences of {longest} words, {arm} scores {gap} {metric.label} {more} than on sentences of {shortest} "
        f"words ({metric.text(last.value)} against {metric.text(first.value)})."
    )


def _by_group(results: Results, best: str) -> list[str]:
    """At most one sentence per breakdown and table of rates; none if the intervals overlap."""
    where, baseline = results.where, results.baseline
    if where is None or results.different < ENOUGH:
        return []
    sentences = [
        _within(breakdown, best, results.main)
        if breakdown.by_own_groups
        else _between(breakdown, best, baseline, results.main)
        for breakdown in where.breakdowns
    ]
    sentences += [_rates(rates, best, baseline) for rates in where.rates]
    return [sentence for sentence in sentences if sentence is not None]


def _within(breakdown: Breakdown, arm: str, metric: MetricRecord) -> str | None:
    """The first group of an arm against its last group."""
    results: Sequence[GroupResult | None] = breakdown.arms.get(arm, (None,))
    first, last = results[0], results[-1]
    if first is None or last is None or first.few or last.few or not _disjoint(first.main, last.main):
        return None
    return (
        f"Grouped by {breakdown.name}, {arm} has {metric.text(first.main.value)} {metric.label} on the "
        f"{breakdown.groups[0]} third of the sentences and {metric.text(last.main.value)} on the "
        f"{breakdown.groups[-1]} third."
    )


def _between(breakdown: Breakdown, best: str, baseline: str | None, metric: MetricRecord) -> str | None:
    """The groups with the largest and the smallest gain, if the arms differ in both and these gains differ as well."""
    if baseline is None or best == baseline or not {best, baseline} <= breakdown.arms.keys():
        return None
    pairs = zip(breakdown.groups, breakdown.arms[best], breakdown.arms[baseline], strict=True)
    large = [
        (label, ours.main, theirs.main)
        for label, ours, theirs in pairs
        if ours is not None and theirs is not None and not (ours.few or theirs.few)
    ]
    if len(large) < 2:
        return None

    def gains(ours: GroupScore, theirs: GroupScore) -> tuple[float, float, float]:
        """The gain, and what it may be at least and at most."""
        ends = metric.sign * (ours.low - theirs.high), metric.sign * (ours.high - theirs.low)
        return metric.sign * (ours.value - theirs.value), min(ends), max(ends)

    least, *_, most = sorted(large, key=lambda each: gains(*each[1:])[0])
    if not (_disjoint(*most[1:]) and _disjoint(*least[1:])):
        return None
    if gains(*most[1:])[1] <= gains(*least[1:])[2]:
        return None
    places = (
        f"{label} ({metric.text(ours.value)} against {metric.text(theirs.value)} {metric.label})"
        for label, ours, theirs in (most, least)
    )
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


def _disjoint(one: GroupScore | Rate, other: GroupScore | Rate) -> bool:
    """Whether two intervals have no point in common."""
    return one.high < other.low or other.high < one.low
