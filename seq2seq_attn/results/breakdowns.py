"""Where arms differ: scores on groups of sentences, rates such as repetition, and the agreement of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT
from seq2seq_attn.results.differences import Probability

Labels = Annotated[tuple[str, ...], Field(min_length=1)]

ENOUGH = 30  # different sentences; the score of fewer is too noisy to draw conclusions from


@dataclass(frozen=True, config=STRICT)
class GroupScore:
    """The score of a group of sentences, whose counts are summed."""

    value: float
    low: float  # 95 % interval
    high: float


@dataclass(frozen=True, config=STRICT)
class GroupResult:
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


class _PerGroup:
    """A table with one entry for each arm and group."""

    groups: Labels
    arms: Mapping[str, Sequence[object]]

    @model_validator(mode="after")
    def _one_per_group(self) -> _PerGroup:
        for arm, values in self.arms.items():
            if len(values) != len(self.groups):
                raise ValueError(f"arm {arm!r} has {len(values)} entries for {len(self.groups)} groups")
        return self


@dataclass(frozen=True, config=STRICT)
class Breakdown(_PerGroup):
    """Scores on the test set divided into groups by one property of its sentences."""

    name: str
    meaning: str  # explains the property and its groups, in a sentence
    groups: Labels
    arms: Annotated[Mapping[str, tuple[GroupResult | None, ...]], Field(min_length=1)]  # one per group; None: empty

    @property
    def by_own_groups(self) -> bool:
        """Whether each arm has its own groups, so that arms cannot be compared group by group."""
        return any(result is not None and result.bounds for results in self.arms.values() for result in results)


@dataclass(frozen=True, config=STRICT)
class Rates(_PerGroup):
    """Rates of one kind."""

    name: str
    meaning: str
    groups: Labels
    arms: Mapping[str, tuple[Rate | None, ...]]  # one per group; None: nothing to count


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

    breakdowns: tuple[Breakdown, ...]
    rates: tuple[Rates, ...]
    agreement: LinkAgreement | None  # None: fewer than two runs have links

    @property
    def arms(self) -> set[str]:
        """All arms that occur."""
        named = {arm for table in (*self.breakdowns, *self.rates) for arm in table.arms}
        return named | set(self.agreement.arms if self.agreement else ())
