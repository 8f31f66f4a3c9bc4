"""The conclusions that a comparison supports, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from seq2seq_attn.results.breakdowns import ENOUGH, Breakdown, GroupScore, Rate, Rates
from seq2seq_attn.results.differences import PairedComparison, p_text
from seq2seq_attn.results.results import MetricRecord, Results

T = TypeVar("T")


class _Finding(NamedTuple):
    """A claim about a pair of arms, and the difference, interval and p-value that it follows from."""

    pair: PairedComparison
    claim: str
    evidence: str = ""

    def __str__(self) -> str:
        return f"{self.claim} ({self.evidence})." if self.evidence else f"{self.claim}."


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
    anything, this is said instead, and nothing is compared. The note of the experiment, if it has one, comes second,
    then the runs that are missing. The planned contrasts follow, then the effect of length on the best arm and on the
    baseline, the groups of sentences in which the two differ, the alignment error rate of the best arm, the arms that
    were stopped too early, and what the number of seeds does not allow.
    """
    findings = [*_compared_arms(results), *_other_findings(results)]
    return [*map(str, findings[:1]), *_conditions(results), *map(str, findings[1:]), *_too_short(results)]


def limits(results: Results) -> list[str]:
    """The sentences of the conclusion on what these results cannot say."""
    return [*_conditions(results), *_too_short(results)]


def _compared_arms(results: Results) -> list[_Finding]:
    """Each arm against the baseline, the largest difference first, then the planned contrasts."""
    if not results.is_learned:
        return []
    runs = {arm.name: len(arm.seeds) for arm in results.arms}
    ordered = sorted(results.comparisons, key=lambda pair: -abs(pair.difference))
    pairs = [*ordered, *results.contrasts]
    return [_compared(results, pair, max(runs[pair.arm], runs[pair.baseline])) for pair in pairs]


def _other_findings(results: Results) -> Iterator[str]:
    best = results.best
    if not results.is_learned:
        yield nothing_learned(results)
    else:
        if len(results.tested) > 1:
            count = len(results.tested)
            yield f"All p-values are corrected for {count} comparisons (Holm); the intervals are not."
        for arm in results.arms:
            if arm is best or arm.name == results.baseline:
                yield from _by_length(results, arm.name)
        yield from _by_group(results, best.name)
    if "aer" in best.scores:
        others = " and ".join(f"{rate:.3f} of a {name} alignment" for name, rate in results.aer_rivals.items())
        against = f", against {others}" if others else ""
        yield f"The alignment error rate (AER) of {best.name} is {best.scores['aer'].mean:.3f}{against}."


def _conditions(results: Results) -> list[str]:
    """The note of the experiment, and the runs that are missing."""
    return [*filter(None, [results.note]), *(f"Missing: {each}." for each in missing_runs(results))]


def _too_short(results: Results) -> Iterator[str]:
    """The arms that were stopped too early, and what the number of seeds does not allow."""
    stopped = [
        f"{arm.name} (seed{'s' if len(arm.unconverged) > 1 else ''} {', '.join(map(str, arm.unconverged))})"
        for arm in results.arms
        if arm.unconverged
    ]
    if stopped:
        yield f"Still improving when stopped, so that longer training may improve the score: {', '.join(stopped)}."
    if results.is_learned and results.tested and (few := _too_few(results)):
        yield few


def introduction(results: Results) -> str:
    """What was done, in a sentence for readers who do not know the experiment."""
    counts = sorted({len(arm.seeds) for arm in results.arms})
    times = "once" if counts == [1] else f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} times"
    models = "One model was" if len(results.arms) == 1 else f"{len(results.arms)} models, called arms, were each"
    tested = f"tested on the same {results.sentences:,} {results.item}s"
    better = f", where {results.main.direction} is better" if results.main.direction else ""
    return f"{models} trained {times} and {tested}; the score is {results.main.label}{better}."


def summary(results: Results) -> list[str]:
    """How the best arm compares, then the effect of length on the baseline or best arm, or the next finding.

    Without intervals and p-values, as `evidence` has them.
    """
    findings = [*(f"{each.claim}." for each in _best_first(results)), *_other_findings(results)]
    arms = dict.fromkeys([results.baseline or results.best.name, results.best.name])
    by_length = [each for arm in arms for each in _by_length(results, arm)] if results.is_learned else []
    return list(dict.fromkeys([*findings[:1], *(by_length or findings[1:])[:1]]))


def evidence(results: Results) -> str:
    """What the first sentence of `summary` follows from, as a sentence; "" if nothing was tested."""
    first = next(iter(_best_first(results)), None)
    if first is None or not first.evidence:
        return ""
    return f"{first.pair.arm} against {first.pair.baseline}: {first.evidence}."


def _best_first(results: Results) -> list[_Finding]:
    """The comparisons of the conclusion, that of the best arm with the baseline before the others."""
    best = results.best.name, results.baseline
    return sorted(_compared_arms(results), key=lambda each: (each.pair.arm, each.pair.baseline) != best)


def missing_runs(results: Results) -> list[str]:
    """The runs that failed, with the reason; an arm without any other run is said to be left out."""
    reported = [arm.name for arm in results.arms]

    def consequence(run: str) -> str:
        is_trial = any(run.startswith(f"{arm}, trial ") for arm in reported)
        return "" if run in reported or is_trial else ", whose arm is left out"

    return [f"{each.arm}, seed {each.seed}{consequence(each.arm)}: {each.reason}" for each in results.missing]


def _compared(results: Results, pair: PairedComparison, runs: int) -> _Finding:
    """The verdict on two arms with at most `runs` runs each; if there is none, what was seen in these runs."""
    metric = results.main
    difference = f"{metric.text(pair.difference, '+')} {metric.label}"
    gap = f"{metric.text(abs(pair.difference))} {metric.label}"
    low, high = (metric.text(limit, "+") for limit in pair.interval)
    if pair.low == pair.high == pair.difference == 0:
        return _Finding(pair, f"{pair.arm} and {pair.baseline} score the same on every resample of the test set")
    if pair.joint is not None:
        evidence = f"95 % interval {low} to {high} over training runs and {results.item}s, {_p(pair.joint.p_holm)}"
        verdict = results.verdict(pair)
        if verdict != "undecided":
            return _Finding(pair, f"{pair.arm} is {verdict} than {pair.baseline} by {gap}", evidence)
        power = (
            f"; an experiment like this detects a true difference of {metric.text(pair.joint.detectable)} with 80 % "
            "power"
            if pair.joint.detectable
            else ""
        )
        claim = f"{pair.arm} does not differ significantly from {pair.baseline}"
        return _Finding(pair, claim, f"{difference}, {evidence}{power}")
    these = "this training" if runs == 1 else "these training runs"
    if pair.p_reported is None:
        seen = f"{pair.arm} differs from {pair.baseline} by {difference} in {these}"
        return _Finding(pair, f"{seen}; a single test {results.item} allows no test")
    evidence = f"95 % interval {low} to {high} over test {results.item}s, {_p(pair.p_reported)}"
    if pair.differs_in_these_runs:
        more = "higher" if pair.difference > 0 else "lower"
        return _Finding(pair, f"{pair.arm} scored {gap} {more} than {pair.baseline} in {these}", evidence)
    claim = f"{pair.arm} does not differ significantly from {pair.baseline} in {these}"
    return _Finding(pair, claim, f"{difference}, {evidence}")


def _too_few(results: Results) -> str | None:
    """What the number of training runs or of sentences does not allow."""
    sources, pairs = results.different, results.sentences
    if sources < ENOUGH:
        different = "different " if sources < pairs else ""
        item = f"{different}test {results.item}"
        items = f"One {item}" if sources == 1 else f"{sources} {item}s"
        items += f" ({pairs} pairs)" if different else ""
        verb = "is" if sources == 1 else "are"
        return f"{items} {verb} too few to say which arm is better; use at least {ENOUGH}."
    several = {arm.name for arm in results.arms if len(arm.seeds) > 1}
    alike = {arm.name for arm in results.arms if results.score(arm).joint_low is None}  # in all their training runs
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


def _p(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _by_length(results: Results, arm: str) -> Iterator[str]:
    """The longest against the shortest band with enough sentences, if their intervals are disjoint."""
    groups = zip(results.by_length.groups, results.by_length.arms[arm], strict=True)
    bands = [(label, group.main) for label, group in groups if group is not None and not group.few]
    if len(bands) < 2:
        return
    (shortest, first), (longest, last) = bands[0], bands[-1]
    metric, unit, item = results.main, results.unit, results.item
    if _disjoint(first, last, metric):
        gap, more = metric.text(abs(first.value - last.value)), "less" if last.value < first.value else "more"
        yield (
            f"On {item}s of {longest} {unit}, {arm} scores {gap} {metric.label} {more} than on {item}s of "
            f"{shortest} {unit} ({metric.text(last.value)} against {metric.text(first.value)})."
        )


def _by_group(results: Results, best: str) -> Iterator[str]:
    """At most one sentence per breakdown and table of rates; none if the intervals overlap.

    They are intervals over sentences alone: where the joint test does not distinguish the arms, no group does.
    """
    where, baseline, metric = results.where, results.baseline, results.main
    if results.different < ENOUGH:
        return
    decided = "undecided" not in [results.verdict(pair) for pair in results.comparisons if pair.arm == best]
    for breakdown in where.breakdowns:
        if breakdown.by_own_groups:
            yield from _within(breakdown, best, metric, results.item)
        elif baseline is not None and decided:
            yield from _between(breakdown, best, baseline, metric)
    for rates in where.rates:
        if baseline is not None and decided:
            yield from _rates(rates, best, baseline)


def _within(breakdown: Breakdown, arm: str, metric: MetricRecord, item: str) -> Iterator[str]:
    """The first group of an arm against its last group."""
    results = breakdown.arms.get(arm, (None,))
    first, last = results[0], results[-1]
    if first and last and not (first.few or last.few) and _disjoint(first.main, last.main, metric):
        yield (
            f"Grouped by {breakdown.name}, {arm} has {metric.text(first.main.value)} {metric.label} on the "
            f"{breakdown.groups[0]} third of the {item}s and {metric.text(last.main.value)} on the "
            f"{breakdown.groups[-1]} third."
        )


def _between(breakdown: Breakdown, best: str, baseline: str, metric: MetricRecord) -> Iterator[str]:
    """The groups with the largest and the smallest gain, if the arms differ in both and these gains differ as well."""
    gains = []  # with the ends of its interval, whether the arms differ, and how it is reported
    for label, ours, theirs in _both(breakdown.groups, breakdown.arms, best, baseline):
        if not (ours.few or theirs.few):
            one, other = ours.main, theirs.main
            low, high = sorted((metric.sign * (one.low - other.high), metric.sign * (one.high - other.low)))
            scores = f"{label} ({metric.text(one.value)} against {metric.text(other.value)} {metric.label})"
            gains.append((metric.sign * (one.value - other.value), low, high, _disjoint(one, other, metric), scores))
    if len(gains) < 2:
        return
    (_, _, high, differs, least), (_, low, _, differs_too, most) = min(gains), max(gains)
    if differs and differs_too and low > high:
        yield f"Grouped by {breakdown.name}, {best} gains most over {baseline} for {most} and least for {least}."


def _rates(rates: Rates, best: str, baseline: str) -> Iterator[str]:
    """The rates in which the two arms differ; not those of a few words, which may be in a single sentence."""
    different = [
        f"{label} {ours.value:.1%} against {theirs.value:.1%}"
        for label, ours, theirs in _both(rates.groups, rates.arms, best, baseline)
        if min(ours.of, theirs.of) >= ENOUGH and _disjoint(ours, theirs)
    ]
    if different:
        yield f"{rates.name.capitalize()}, {best} against {baseline}: {', '.join(different)}."


def _both(
    groups: Sequence[str], arms: Mapping[str, Sequence[T | None]], one: str, other: str
) -> Iterator[tuple[str, T, T]]:
    """The groups of which two different arms have an entry, with both entries."""
    if one != other and {one, other} <= arms.keys():
        for label, ours, theirs in zip(groups, arms[one], arms[other], strict=True):
            if ours is not None and theirs is not None:
                yield label, ours, theirs


def _disjoint(one: GroupScore | Rate, other: GroupScore | Rate, metric: MetricRecord | None = None) -> bool:
    """Whether two intervals have no point in common, and the scores in a metric are not printed alike."""
    if metric is not None and metric.text(one.value) == metric.text(other.value):
        return False
    return one.high < other.low or other.high < one.low
