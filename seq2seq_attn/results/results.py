"""The results of an experiment: the records of results.json.

The keys of the file are the fields below, in this order; those whose value is that of an optional field are left out.
The file says which metrics there are, and which of their scores are better. The first metric is the main one: arms are
compared in it. Rates are from 0 to 1, times in seconds. Values are means over seeds, intervals are over resampled test
sentences unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT, Many, NonEmpty, load_record, save_record

Probability = Annotated[float, Field(ge=0, le=1)]
Labels = Annotated[tuple[str, ...], Field(min_length=1)]

RESULTS = "results.json"

ENOUGH = 30  # different sentences; the score of fewer is too noisy to draw conclusions from
LEVEL = 0.05  # below which a corrected p-value counts as significant

Test = Literal["joint", "randomization", "paired_bootstrap"]  # of two arms, by its key in `signatures`


def _require_both_limits(record: object, *intervals: str) -> None:
    """ValueError if one of these intervals has one of its limits, `NAME_low` and `NAME_high`, and not the other."""
    for name in intervals:
        low, high = f"{name}low", f"{name}high"
        if (getattr(record, low) is None) != (getattr(record, high) is None):
            raise ValueError(f"{low} and {high} are the limits of an interval: both are given, or neither")


class _Compact:
    """A record whose optional fields are left out of the file where they have their default, or are empty."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        optional = {
            each.name
            for each in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
            if each.default is not MISSING or each.default_factory is not MISSING
        }
        return {key: value for key, value in dump(self).items() if key not in optional or not _is_empty(value)}


def _is_empty(value: object) -> bool:
    return value is None or value is False or (isinstance(value, (str, tuple, list, dict)) and not value)


# Metrics


@dataclass(frozen=True, config=STRICT)
class MetricRecord(_Compact):
    """What is known of a metric: how to show its scores, and which are better; see `evaluation.metrics.Metric`."""

    key: str
    label: str
    digits: NonNegativeInt
    direction: Literal["higher", "lower"] | None  # which is better; None: neither
    meaning: str  # follows the label and a colon
    floor: float | None = None  # a worse score is that of a model that has learned nothing
    is_prominent: bool = False  # shown even in a narrow terminal

    @property
    def sign(self) -> int:
        """-1 if lower scores are better, else 1."""
        return -1 if self.direction == "lower" else 1

    @property
    def explanation(self) -> str:
        """The meaning with the better direction, as notes below a table have it."""
        better = "" if self.direction is None else f", {self.direction} is better"
        return f"{self.label}: {self.meaning}{better}"

    def text(self, score: float, sign: str = "") -> str:
        """The score as it is shown; `sign`: "+" for a difference."""
        return f"{score:{sign}.{self.digits}f}"


# One arm


@dataclass(frozen=True, config=STRICT)
class Spread(_Compact):
    """A score over the seeds of an arm."""

    mean: float
    std: NonNegativeFloat  # sample standard deviation over seeds; 0 with a single seed
    low: float | None = None  # 95 % interval over resampled test sets: the same training runs, other sentences
    high: float | None = None
    seeds_low: float | None = None  # 95 % t interval over seeds: other training runs, the same sentences
    seeds_high: float | None = None
    joint_low: float | None = None  # 95 % interval over training runs and sentences
    joint_high: float | None = None

    @model_validator(mode="after")
    def _intervals_are_whole(self) -> Spread:
        _require_both_limits(self, "", "seeds_", "joint_")
        return self

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Over training runs and sentences if there are several seeds, else over sentences."""
        return (self.low, self.high) if self.joint_low is None else (self.joint_low, self.joint_high)


@dataclass(frozen=True, config=STRICT)
class ArmResult(_Compact):
    """One row of the comparison: a model, trained once per seed."""

    name: str
    parameters: NonNegativeInt
    seeds: NonEmpty[int]
    scores: Mapping[str, Spread]  # by the key of the metric; those that were measured
    train_seconds: NonNegativeFloat  # mean over the seeds that were trained on the hardware of the first, as below
    tokens_per_second: NonNegativeFloat | None = None  # target tokens, in training
    matched_hidden_size: PositiveInt | None = None  # of the decoder, widened by match_parameters; None: as configured
    unconverged: Many[int] = ()  # seeds whose validation was still improving when training stopped


# Arms against the baseline


@dataclass(frozen=True, config=STRICT)
class Significance:
    """A two-sided test of the hypothesis that there is no difference."""

    p_value: Probability
    p_holm: Probability  # p_value corrected over the comparisons of the table (Holm, 1979)


@dataclass(frozen=True, config=STRICT)
class JointTest:
    """The test over training runs and sentences together that decides whether an arm is better; see `significance`."""

    p_value: Probability
    p_holm: Probability
    low: float  # 95 % interval of the difference
    high: float
    degrees_of_freedom: PositiveFloat
    paired: bool  # runs with the same seed began with the same weights and saw the same batches
    detectable: NonNegativeFloat | None  # true difference detected with 80 % power; None with fewer than three runs

    @property
    def significant(self) -> bool:
        return self.p_holm < LEVEL


class _Tested(_Compact):
    """A difference between two arms in one metric: that of the arm minus that of its baseline."""

    low: float
    high: float
    joint: JointTest | None

    @property
    def interval(self) -> tuple[float, float]:
        """Over training runs and sentences if these are tested, else over sentences."""
        return (self.low, self.high) if self.joint is None else (self.joint.low, self.joint.high)


@dataclass(frozen=True, config=STRICT)
class Difference(_Tested):
    """The difference in one of the other metrics; as in `PairedComparison`."""

    difference: float
    low: float
    high: float
    joint: JointTest | None = None


@dataclass(frozen=True, config=STRICT)
class PairedComparison(_Tested):
    """An arm against another, its baseline here, on the same test set, with the runs of each pooled.

    `joint` supports a conclusion about the arms; all else is about these training runs alone.
    """

    arm: str
    baseline: str
    difference: float  # in the main metric, arm - baseline
    low: float  # 95 % interval of the difference over resampled test sets
    high: float
    p_value: Probability  # of sacrebleu's paired bootstrap; too small for a two-sided test, see `paired_bootstrap`
    p_holm: Probability  # p_value corrected as in Significance
    randomization: Significance | None = None  # paired approximate randomization; None: different numbers of runs
    joint: JointTest | None = None  # None: a single run of an arm, copies of one, or fewer than `ENOUGH` sources
    others: Mapping[str, Difference] = Field(default_factory=dict)  # by the key of each other metric that can be tested

    @property
    def test(self) -> Test:
        """The test whose p-value is reported.

        That over training runs and sentences if there is one. Otherwise one of these training runs alone: approximate
        randomization, or the bootstrap for different numbers of runs.
        """
        if self.joint is not None:
            return "joint"
        return "paired_bootstrap" if self.randomization is None else "randomization"

    @property
    def p_reported(self) -> float | None:
        """The corrected p-value of `test`; None of a single sentence, which decides nothing."""
        if self.joint is not None:
            return self.joint.p_holm
        if self.is_one_sentence:
            return None
        return self.p_holm if self.randomization is None else self.randomization.p_holm

    @property
    def is_one_sentence(self) -> bool:
        """Whether all resamples of the test set are the same, although the arms differ."""
        return self.low == self.high != 0

    @property
    def differs_in_these_runs(self) -> bool:
        """Whether these training runs differ on other sentences, at 5 % over the whole table.

        By approximate randomization, which keeps its level; without it, by the interval of the bootstrap, with which
        its p-value has to agree.
        """
        if self.randomization is not None:
            return self.randomization.p_holm < LEVEL
        return not self.low <= 0 <= self.high and self.p_holm < LEVEL


# Where arms differ: groups of sentences, rates, links


@dataclass(frozen=True, config=STRICT)
class GroupScore:
    """The score of a group of sentences, whose counts are summed."""

    value: float
    low: float  # 95 % interval
    high: float


@dataclass(frozen=True, config=STRICT)
class GroupResult(_Compact):
    """Scores of an arm on the sentences of a group, some of which may have the same source."""

    sentences: PositiveInt
    scores: Mapping[str, GroupScore]  # by the key of the metric, the main one first
    words: NonNegativeFloat | None = None  # mean source length; groups that differ in it differ by its effect as well
    bounds: str = ""  # of the property, if each arm is grouped by its own values
    sources: PositiveInt | None = None  # different ones, from which the intervals are drawn; None: as many as sentences
    longer_than_training: bool = False  # whether all of its sources are longer than every training sentence

    @property
    def main(self) -> GroupScore:
        """The score in the main metric."""
        return next(iter(self.scores.values()))

    @property
    def different(self) -> int:
        """The number of different sources, from which intervals are drawn."""
        return self.sources or self.sentences

    @property
    def few(self) -> bool:
        """Whether it has too few different sources to draw conclusions from."""
        return self.different < ENOUGH


@dataclass(frozen=True, config=STRICT)
class Rate:
    """A ratio of counts that are summed over the test set."""

    value: NonNegativeFloat
    low: NonNegativeFloat  # 95 % interval
    high: NonNegativeFloat
    of: PositiveInt  # the denominator: words, bigrams or sentences; mean over seeds


@dataclass(frozen=True, config=STRICT)
class Breakdown:
    """Scores on the test set divided into groups by one property of its sentences."""

    name: str
    meaning: str  # explains the property and its groups, in a sentence
    groups: Labels
    arms: Annotated[Mapping[str, tuple[GroupResult | None, ...]], Field(min_length=1)]  # one per group; None: empty

    @property
    def by_own_groups(self) -> bool:
        """Whether each arm has its own groups, so that arms cannot be compared group by group."""
        return any(result is not None and result.bounds for results in self.arms.values() for result in results)

    @model_validator(mode="after")
    def _one_per_group(self) -> Breakdown:
        _require_one_per_group(self.groups, self.arms)
        return self


@dataclass(frozen=True, config=STRICT)
class Rates:
    """Rates of one kind."""

    name: str
    meaning: str
    groups: Labels
    arms: Mapping[str, tuple[Rate | None, ...]]  # one per group; None: nothing to count

    @model_validator(mode="after")
    def _one_per_group(self) -> Rates:
        _require_one_per_group(self.groups, self.arms)
        return self


@dataclass(frozen=True, config=STRICT)
class LinkAgreement:
    """F1 between the links of two arms; it is symmetric, so either may be called gold.

    Mean over pairs of runs; of an arm with itself over pairs of different seeds, None with a single seed.
    """

    arms: Labels
    f1: tuple[tuple[Probability | None, ...], ...]  # (arms, arms)

    @model_validator(mode="after")
    def _is_square(self) -> LinkAgreement:
        if [len(row) for row in self.f1] != [len(self.arms)] * len(self.arms):
            raise ValueError(f"f1 needs {len(self.arms)} rows of {len(self.arms)} numbers, one per arm")
        return self


@dataclass(frozen=True, config=STRICT)
class Breakdowns:
    """Everything that shows where arms differ."""

    breakdowns: tuple[Breakdown, ...] = ()
    rates: tuple[Rates, ...] = ()
    agreement: LinkAgreement | None = None  # None: fewer than two runs have links

    @property
    def arms(self) -> set[str]:
        """All arms that occur."""
        tables = [*(each.arms for each in self.breakdowns), *(each.arms for each in self.rates)]
        return {arm for table in tables for arm in table} | set(self.agreement.arms if self.agreement else ())


def _require_one_per_group(groups: Labels, arms: Mapping[str, Sequence[object]]) -> None:
    for arm, values in arms.items():
        if len(values) != len(groups):
            raise ValueError(f"arm {arm!r} has {len(values)} entries for {len(groups)} groups")


# The experiment


@dataclass(frozen=True, config=STRICT)
class MissingRun:
    """A run of the experiment that has no part in the results."""

    arm: str
    seed: int
    reason: str  # in one line


@dataclass(frozen=True, config=STRICT)
class Tuned:
    """The setting of an arm with the best validation score in short training runs, and the scores of all settings."""

    setting: Mapping[str, Any]  # by key of the configuration
    scores: NonEmpty[float | None]  # one per setting that was tried; None: its training failed
    monitor: str  # what is scored


@dataclass(frozen=True, config=STRICT)
class Results(_Compact):
    """An experiment: its arms, their comparisons with the baseline, and the provenance of the numbers."""

    experiment: str
    metrics: NonEmpty[MetricRecord]  # those that any arm has; arms are compared in the first, the main one
    sentences: PositiveInt  # of the test set
    arms: NonEmpty[ArmResult]
    comparisons: Many[PairedComparison]
    by_length: Breakdown  # by the number of words of the source that white space separates
    signatures: Mapping[str, str]  # of each metric and test, by its key
    version: str
    commit: str
    hardware: str
    sources: PositiveInt | None = None  # different ones of the test set; None: as many as sentences
    where: Breakdowns | None = None  # None: not measured
    note: str = ""  # what the experiment cannot show, from the experiment file
    contrasts: Many[PairedComparison] = ()  # planned comparisons between other arms
    aer_rivals: Mapping[str, float] = Field(default_factory=dict)  # AER of trivial alignments, and of other aligners
    tuned: Mapping[str, Tuned] = Field(default_factory=dict)  # by arm, those whose settings were searched for
    tuned_for_others: str = ""  # the tuned arm whose setting the other arms have
    missing: Many[MissingRun] = ()  # runs that failed; an arm without any other run is not in `arms`

    @model_validator(mode="after")
    def _arms_are_comparable(self) -> Results:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"two arms have the same name: {', '.join(names)}")
        for arm in self.arms:
            if arm.scores.get(self.main.key, Spread(0, 0)).low is None:
                raise ValueError(f"arm {arm.name!r} needs a score in {self.main.key!r}, with low and high")
            if unknown := arm.scores.keys() - {each.key for each in self.metrics}:
                raise ValueError(f"arm {arm.name!r} has a score in {min(unknown)!r}, which is not among the metrics")
        if set(self.by_length.arms) != set(names):
            raise ValueError("by_length needs the groups of each arm")
        unknown = {name for pair in self.tested for name in (pair.arm, pair.baseline)} - set(names)
        if unknown:
            raise ValueError(f"comparisons name {min(unknown)!r}, which is not among the arms")
        if self.where is not None and (unknown := self.where.arms - set(names)):
            raise ValueError(f"where names {min(unknown)!r}, which is not among the arms")
        if len({pair.baseline for pair in self.comparisons}) > 1:
            raise ValueError("comparisons have more than one baseline")
        return self

    @property
    def main(self) -> MetricRecord:
        """The metric that arms are compared in."""
        return self.metrics[0]

    @property
    def labels(self) -> dict[str, str]:
        """The label of each metric, by its key."""
        return {metric.key: metric.label for metric in self.metrics}

    @property
    def different(self) -> int:
        """The number of different sources of the test set."""
        return self.sources or self.sentences

    def score(self, arm: ArmResult) -> Spread:
        """The score of an arm in the main metric."""
        return arm.scores[self.main.key]

    @property
    def tested(self) -> tuple[PairedComparison, ...]:
        """All comparisons, those with the baseline first; p-values are corrected over all of them."""
        return *self.comparisons, *self.contrasts

    @property
    def best(self) -> ArmResult:
        """The arm with the best score in the main metric."""
        return max(self.arms, key=lambda arm: self.main.sign * self.score(arm).mean)

    @property
    def is_learned(self) -> bool:
        """Whether any arm has learned enough for differences between arms to mean something."""
        floor, sign = self.main.floor, self.main.sign
        return floor is None or sign * self.score(self.best).mean >= sign * floor

    def verdict(self, pair: PairedComparison) -> Literal["better", "worse", "undecided"] | None:
        """What the joint test says of the arm, at 5 % over the whole table; None without this test."""
        if pair.joint is None:
            return None
        if not pair.joint.significant:
            return "undecided"
        return "better" if self.main.sign * pair.difference > 0 else "worse"

    @property
    def baseline(self) -> str | None:
        """The arm that the others are compared with; None if nothing is compared."""
        return self.comparisons[0].baseline if self.comparisons else None

    @classmethod
    def load(cls, path: Path) -> Results:
        """UserError with the file and the key if it is not what `save` writes."""
        return load_record(_RESULTS, path)

    def save(self, path: Path) -> None:
        """Write JSON atomically."""
        save_record(_RESULTS, self, path, indent=2)

    def values(self) -> dict[str, Any]:
        """As plain values, as in the file."""
        values: dict[str, Any] = _RESULTS.dump_python(self, mode="json")
        return values


_RESULTS = TypeAdapter(Results)
