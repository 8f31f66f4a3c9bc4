"""The results of an experiment: the records of results.json.

The keys of the file are the fields below, in this order. Scores are in points from 0 to 100 (TER may be above), the
alignment error rate and all other rates from 0 to 1, times in seconds. Values are means over seeds, intervals are over
resampled test sentences unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from seq2seq_attn.text.json_files import STRICT, Many, NonEmpty, load_record, save_record

Probability = Annotated[float, Field(ge=0, le=1)]
Labels = Annotated[tuple[str, ...], Field(min_length=1)]

RESULTS = "results.json"

ENOUGH = 30  # different sentences; BLEU of fewer is too noisy to draw conclusions from
LEVEL = 0.05  # below which a corrected p-value counts as significant
LEARNED = 1.0  # BLEU of the best arm; below, all arms translate so badly that differences between them mean nothing

Test = Literal["joint", "randomization", "paired_bootstrap"]  # of two arms, by its key in `signatures`


def _require_both_limits(record: object, *intervals: str) -> None:
    """ValueError if one of these intervals has one of its limits, `NAME_low` and `NAME_high`, and not the other."""
    for name in intervals:
        low, high = f"{name}low", f"{name}high"
        if (getattr(record, low) is None) != (getattr(record, high) is None):
            raise ValueError(f"{low} and {high} are the limits of an interval: both are given, or neither")


# One arm


@dataclass(frozen=True, config=STRICT)
class Spread:
    """A score over the seeds of an arm. Limits that are None are omitted from the file."""

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

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, float]:
        return {key: value for key, value in dump(self).items() if value is not None}


class _Sentences:
    """A group of test sentences, some of which may have the same source."""

    sentences: int
    sources: int | None

    @property
    def different(self) -> int:
        """The number of different sources, from which intervals are drawn."""
        return self.sources or self.sentences

    @property
    def few(self) -> bool:
        """Whether it has too few different sources to draw conclusions from."""
        return self.different < ENOUGH


@dataclass(frozen=True, config=STRICT)
class BandResult(_Sentences):
    """BLEU of the test sentences whose source has `low` to `high` words, both included; None: no upper bound.

    Fields with a default are omitted from the file if they are None or False.
    """

    low: NonNegativeInt
    high: NonNegativeInt | None
    sentences: PositiveInt
    bleu: float
    bleu_low: float | None = None  # 95 % interval
    bleu_high: float | None = None
    chrf: float | None = None
    chrf_low: float | None = None
    chrf_high: float | None = None
    sources: PositiveInt | None = None  # different ones, from which the intervals are drawn; None: as many as sentences
    longer_than_training: bool = False  # whether all of its sources are longer than every training sentence

    @model_validator(mode="after")
    def _intervals_are_whole(self) -> BandResult:
        _require_both_limits(self, "bleu_", "chrf_")
        return self

    @property
    def label(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            key: value for key, value in dump(self).items() if key == "high" or not (value is None or value is False)
        }


@dataclass(frozen=True, config=STRICT)
class ArmResult:
    """One row of the comparison: a model, trained once per seed. A score is None if it was not measured.

    Metrics with their own field are named as in `evaluation/metrics.py`; others are in `further`. The last two fields
    are omitted from the file if they are empty.
    """

    name: str
    parameters: NonNegativeInt
    seeds: NonEmpty[int]
    bleu: Spread  # with its interval
    bleu_lc_tok: Spread | None
    chrf: Spread
    ter: Spread | None
    bleu_by_length: NonEmpty[BandResult]
    aer: Spread | None
    train_seconds: NonNegativeFloat  # mean over the seeds that were trained on the hardware of the first, as below
    perplexity: Spread | None = None
    attention_entropy: Spread | None = None
    tokens_per_second: NonNegativeFloat | None = None  # target tokens, in training
    matched_hidden_size: PositiveInt | None = None  # of the decoder, widened by match_parameters; None: as configured
    exact_match: Spread | None = None
    further: Mapping[str, Spread] = Field(default_factory=dict)  # by the key of the metric
    unconverged: Many[int] = ()  # seeds whose validation was still improving when training stopped

    @property
    def sentences(self) -> int:
        """Of the test set: each is in one band."""
        return sum(band.sentences for band in self.bleu_by_length)

    @property
    def sources(self) -> int:
        """Different ones of the test set: equal sources are in the same band."""
        return sum(band.different for band in self.bleu_by_length)

    def score(self, key: str) -> Spread | None:
        """The score of a metric by its key; None if it was not measured."""
        own: Spread | None = getattr(self, key) if key in SCORE_FIELDS else self.further.get(key)
        return own

    @field_validator("bleu")
    @classmethod
    def _has_an_interval(cls, bleu: Spread) -> Spread:
        if bleu.low is None or bleu.high is None:
            raise ValueError("needs low and high")
        return bleu

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if key not in ("further", "unconverged") or value}


SCORE_FIELDS = ("bleu", "bleu_lc_tok", "chrf", "ter", "aer", "perplexity", "attention_entropy", "exact_match")


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


@dataclass(frozen=True, config=STRICT)
class ChrfDifference:
    """As in PairedComparison, in chrF."""

    difference: float
    low: float
    high: float
    joint: JointTest | None = None


@dataclass(frozen=True, config=STRICT)
class PairedComparison:
    """An arm against another, its baseline here, on the same test set, with the runs of each pooled.

    `joint` supports a conclusion about the arms; all else is about these training runs alone. `joint` and `chrf` are
    omitted from the file if they are None.
    """

    arm: str
    baseline: str
    bleu_difference: float  # arm - baseline
    low: float  # 95 % interval of the difference over resampled test sets
    high: float
    p_value: Probability  # of sacrebleu's paired bootstrap; too small for a two-sided test, see `paired_bootstrap`
    p_holm: Probability  # p_value corrected as in Significance
    randomization: Significance | None = None  # paired approximate randomization; None: different numbers of runs
    joint: JointTest | None = None  # None: a single run of an arm, copies of one, or fewer than `ENOUGH` sources
    chrf: ChrfDifference | None = None

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"] | None:
        """What the joint test says of the arm, at 5 % over the whole table; None without this test."""
        if self.joint is None:
            return None
        if not self.joint.significant:
            return "undecided"
        return "better" if self.bleu_difference > 0 else "worse"

    @property
    def interval(self) -> tuple[float, float]:
        """Of the difference: over training runs and sentences if these are tested, else over sentences."""
        return (self.low, self.high) if self.joint is None else (self.joint.low, self.joint.high)

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
        if self.randomization is not None:
            return self.randomization.p_holm
        return self.p_holm

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

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None or key not in ("joint", "chrf")}


# Where arms differ: groups of sentences, rates, links


@dataclass(frozen=True, config=STRICT)
class GroupResult(_Sentences):
    """Scores of an arm on the sentences of a group."""

    sentences: PositiveInt
    words: NonNegativeFloat | None  # mean source length; groups that differ in it also differ by the effect of length
    bleu: float
    low: float  # 95 % interval of bleu
    high: float
    chrf: float
    bounds: str = ""  # of the property, if each arm is grouped by its own values
    chrf_low: float | None = None  # 95 % interval of chrf; omitted from the file if None
    chrf_high: float | None = None
    sources: PositiveInt | None = None  # as in BandResult; omitted likewise

    @model_validator(mode="after")
    def _interval_is_whole(self) -> GroupResult:
        _require_both_limits(self, "chrf_")
        return self

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        later = ("chrf_low", "chrf_high", "sources")
        return {key: value for key, value in dump(self).items() if value is not None or key not in later}


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
class Results:
    """An experiment: its arms, their comparisons with the baseline, and the provenance of the numbers.

    Fields with a default are omitted from the file if they are empty, except `where`.
    """

    experiment: str
    arms: NonEmpty[ArmResult]
    comparisons: Many[PairedComparison]
    signature: str  # sacrebleu's, of `bleu`
    version: str
    commit: str
    hardware: str
    signatures: Mapping[str, str]  # of each metric and test, by its key
    where: Breakdowns | None = None  # None: not measured
    note: str = ""  # what the experiment cannot show, from the experiment file
    contrasts: Many[PairedComparison] = ()  # planned comparisons between other arms
    aer_rivals: Mapping[str, float] = Field(default_factory=dict)  # AER of trivial alignments, and of other aligners
    tuned: Mapping[str, Tuned] = Field(default_factory=dict)  # by arm, those whose settings were searched for
    tuned_for_others: str = ""  # the tuned arm whose setting the other arms have
    missing: Many[MissingRun] = ()  # runs that failed; an arm without any other run is not in `arms`

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        added = "note", "contrasts", "aer_rivals", "tuned", "tuned_for_others", "missing"
        return {key: value for key, value in dump(self).items() if key not in added or value}

    @model_validator(mode="after")
    def _arms_are_comparable(self) -> Results:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"two arms have the same name: {', '.join(names)}")
        for arm in self.arms:
            if _bands(arm) != _bands(self.arms[0]):
                raise ValueError(f"arms {names[0]!r} and {arm.name!r} have different bands in bleu_by_length")
        unknown = {name for pair in self.tested for name in (pair.arm, pair.baseline)} - set(names)
        if unknown:
            raise ValueError(f"comparisons name {sorted(unknown)[0]!r}, which is not among the arms")
        if self.where is not None and (unknown := self.where.arms - set(names)):
            raise ValueError(f"where names {sorted(unknown)[0]!r}, which is not among the arms")
        if len({pair.baseline for pair in self.comparisons}) > 1:
            raise ValueError("comparisons have more than one baseline")
        return self

    @property
    def tested(self) -> tuple[PairedComparison, ...]:
        """All comparisons, those with the baseline first; p-values are corrected over all of them."""
        return *self.comparisons, *self.contrasts

    @property
    def best(self) -> ArmResult:
        """The arm with the highest BLEU."""
        return max(self.arms, key=lambda arm: arm.bleu.mean)

    @property
    def is_learned(self) -> bool:
        """Whether any arm has learned enough for differences between arms to mean something."""
        return self.best.bleu.mean >= LEARNED

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


def _bands(arm: ArmResult) -> list[tuple[int, int | None, int]]:
    return [(band.low, band.high, band.sentences) for band in arm.bleu_by_length]


_RESULTS = TypeAdapter(Results)
