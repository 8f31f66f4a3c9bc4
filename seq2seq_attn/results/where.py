"""Where the arms of an experiment differ: by groups of test sentences, in kinds of words and faults, in their links.

Scores are in points from 0 to 100, rates are shares of 1. Values are means over seeds, intervals are over resampled
test sentences. What an arm does not have is None: an empty group, or nothing to count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.results.files import STRICT

Labels = Annotated[tuple[str, ...], Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class GroupResult:
    """What an arm scores on the sentences of a group."""

    sentences: PositiveInt
    words: NonNegativeFloat | None  # of the source, mean: groups that differ in it differ by length, too
    bleu: float
    low: float  # 95 % interval of bleu
    high: float
    chrf: float
    bounds: str = ""  # of the property, where each arm is grouped by its own


@dataclass(frozen=True, config=STRICT)
class Rate:
    """A part of a whole, both summed over the test set."""

    value: NonNegativeFloat
    low: NonNegativeFloat  # 95 % interval
    high: NonNegativeFloat
    of: PositiveInt  # the whole: words, bigrams or sentences; mean over seeds


@dataclass(frozen=True, config=STRICT)
class Breakdown:
    """The test set cut into groups by one property of its sentences."""

    name: str
    meaning: str  # of the property and its groups, in a sentence
    groups: Labels
    arms: Mapping[str, tuple[GroupResult | None, ...]]  # one a group

    @property
    def by_own_groups(self) -> bool:
        """Whether arms are grouped differently, so that one cannot be laid beside another."""
        return any(result is not None and result.bounds for results in self.arms.values() for result in results)

    @model_validator(mode="after")
    def _one_a_group(self) -> Breakdown:
        _require_one_each(self.groups, self.arms)
        return self


@dataclass(frozen=True, config=STRICT)
class Rates:
    """Rates of one kind."""

    name: str
    meaning: str
    groups: Labels
    arms: Mapping[str, tuple[Rate | None, ...]]  # one a group

    @model_validator(mode="after")
    def _one_a_group(self) -> Rates:
        _require_one_each(self.groups, self.arms)
        return self


@dataclass(frozen=True, config=STRICT)
class LinkAgreement:
    """How far the links of two arms agree: F1, whichever of them is called gold.

    Mean over pairs of runs; of an arm with itself over pairs of different seeds, None with a single one.
    """

    arms: Labels
    f1: tuple[tuple[Share | None, ...], ...]  # (arms, arms)

    @model_validator(mode="after")
    def _is_square(self) -> LinkAgreement:
        if [len(row) for row in self.f1] != [len(self.arms)] * len(self.arms):
            raise ValueError(f"f1 needs {len(self.arms)} rows of as many numbers, one an arm")
        return self


@dataclass(frozen=True, config=STRICT)
class Where:
    """All of it."""

    breakdowns: tuple[Breakdown, ...] = ()
    rates: tuple[Rates, ...] = ()
    agreement: LinkAgreement | None = None  # None: fewer than two runs have links

    @property
    def arms(self) -> set[str]:
        """Those that are named anywhere."""
        tables = [*(each.arms for each in self.breakdowns), *(each.arms for each in self.rates)]
        return {arm for table in tables for arm in table} | set(self.agreement.arms if self.agreement else ())


def _require_one_each(groups: Labels, arms: Mapping[str, Sequence[object]]) -> None:
    for arm, values in arms.items():
        if len(values) != len(groups):
            raise ValueError(f"arm {arm!r} has {len(values)} entries for {len(groups)} groups")
