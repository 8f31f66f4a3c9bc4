"""How an arm differs from its baseline, and the tests of that difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT

Probability = Annotated[float, Field(ge=0, le=1)]
Test = Literal["joint", "randomization", "paired_bootstrap"]  # of two arms, by its key in `Results.signatures`

LEVEL = 0.05  # below which a corrected p-value counts as significant


def p_text(p: float) -> str:
    """A p-value with three digits, or that it is below the least of them."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


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


class _Tested:
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
