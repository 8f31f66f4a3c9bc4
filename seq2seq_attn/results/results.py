"""The results of an experiment: the records of results.json.

The keys of the file are the fields below, in this order; an optional field that has its default is left out. The file
says which metrics there are, and which of their scores are better. The first metric is the main one: arms are compared
in it. Rates are from 0 to 1, times in seconds. Values are means over seeds, intervals are over resampled test sentences
unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT, Many, NonEmpty, load_record, save_record
from seq2seq_attn.results.breakdowns import Breakdown, Breakdowns
from seq2seq_attn.results.differences import PairedComparison

RESULTS = "results.json"


@dataclass(frozen=True, config=STRICT)
class MetricRecord:
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


@dataclass(frozen=True, config=STRICT)
class Spread:
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
        for kind in ("", "seeds_", "joint_"):
            if (getattr(self, f"{kind}low") is None) != (getattr(self, f"{kind}high") is None):
                raise ValueError(f"{kind}low and {kind}high are the limits of an interval: both are given, or neither")
        return self

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Over training runs and sentences if there are several seeds, else over sentences."""
        return (self.low, self.high) if self.joint_low is None else (self.joint_low, self.joint_high)


@dataclass(frozen=True, config=STRICT)
class ArmResult:
    """One row of the comparison: a model, trained once per seed."""

    name: str
    parameters: NonNegativeInt
    seeds: NonEmpty[int]
    scores: Mapping[str, Spread]  # by the key of the metric; those that were measured
    train_seconds: NonNegativeFloat  # mean over the seeds that were trained on the hardware of the first, as below
    tokens_per_second: NonNegativeFloat | None = None  # target tokens, in training
    matched_hidden_size: PositiveInt | None = None  # of the decoder, widened by match_parameters; None: as configured
    unconverged: Many[int] = ()  # seeds whose validation was still improving when training stopped


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
    settings: Many[Mapping[str, Any]] = ()  # one per score

    @property
    def shown(self) -> str:
        """The setting as `key=value, key=value`, with four digits of what was drawn."""
        rounded = {key: float(f"{each:.4g}") if isinstance(each, float) else each for key, each in self.setting.items()}
        return ", ".join(f"{key}={each}" for key, each in rounded.items())


@dataclass(frozen=True, config=STRICT)
class Results:
    """An experiment: its arms, their comparisons with the baseline, and the provenance of the numbers."""

    experiment: str
    metrics: NonEmpty[MetricRecord]  # those that any arm has; arms are compared in the first, the main one
    sentences: PositiveInt  # of the test set
    arms: NonEmpty[ArmResult]
    comparisons: Many[PairedComparison]
    by_length: Breakdown  # by the number of words of the source, or of another `unit`
    signatures: Mapping[str, str]  # of each metric and test, by its key
    version: str
    commit: str
    hardware: str
    unit: str = "words"  # what the length of a source is counted in
    sources: PositiveInt | None = None  # different ones of the test set; None: as many as sentences
    where: Breakdowns = Breakdowns((), (), None)
    note: str = ""  # what the experiment cannot show, from the experiment file
    contrasts: Many[PairedComparison] = ()  # planned comparisons between other arms
    aer_rivals: Mapping[str, float] = Field(default_factory=dict)  # AER of trivial alignments, and of other aligners
    tuned: Mapping[str, Tuned] = Field(default_factory=dict)  # by arm, those whose settings were searched for
    tuned_for_others: str = ""  # the tuned arm whose setting the other arms have
    tuned_by: str = ""  # what suggested the settings, with its options
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
        if unknown := self.where.arms - set(names):
            raise ValueError(f"where names {min(unknown)!r}, which is not among the arms")
        if len({pair.baseline for pair in self.comparisons}) > 1:
            raise ValueError("comparisons have more than one baseline")
        return self

    @property
    def item(self) -> str:
        """What one line of the test set is called."""
        return "sentence" if self.unit == "words" else "source"

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
        save_record(_RESULTS, self, path, indent=2, exclude_defaults=True)

    def values(self) -> dict[str, Any]:
        """As plain values, as in the file."""
        values: dict[str, Any] = _RESULTS.dump_python(self, mode="json", exclude_defaults=True)
        return values


_RESULTS = TypeAdapter(Results)
