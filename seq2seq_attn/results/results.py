"""What an experiment found: the records of results.json.

The keys of the file are the fields below, in their order; those with a default came later, and files from before do
without. Scores are in points from 0 to 100 (TER may be above), the alignment error rate from 0 to 1, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
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

from seq2seq_attn.results.files import STRICT, load
from seq2seq_attn.results.where import Where
from seq2seq_attn.text.files import write_bytes

T = TypeVar("T")
Many = Annotated[Sequence[T], AfterValidator(tuple)]  # any sequence comes in, a tuple stays
NonEmpty = Annotated[Many[T], Field(min_length=1)]
Probability = Annotated[float, Field(ge=0, le=1)]

ENOUGH = 30  # sentences; the BLEU of a handful says nothing
LEVEL = 0.05  # below which a corrected p-value counts as significant


@dataclass(frozen=True, config=STRICT)
class Spread:
    """A score over the seeds of an arm. Limits that are None are absent from the file."""

    mean: float
    std: NonNegativeFloat  # sample standard deviation over seeds; 0 with a single seed
    low: float | None = None  # 95 % interval over resampled test sets: these trainings, other sentences
    high: float | None = None
    seeds_low: float | None = None  # 95 % t interval over seeds: other trainings, these sentences
    seeds_high: float | None = None

    @model_serializer(mode="wrap")
    def _what_is_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, float]:
        return {key: value for key, value in dump(self).items() if value is not None}


@dataclass(frozen=True, config=STRICT)
class BandResult:
    """BLEU of the test sentences whose source has `low` to `high` words, both included; None: open above.

    What is None and came later is absent from the file.
    """

    low: NonNegativeInt
    high: NonNegativeInt | None
    sentences: PositiveInt
    bleu: float  # mean over seeds
    bleu_low: float | None = None  # 95 % interval over resampled sentences of the band
    bleu_high: float | None = None
    chrf: float | None = None  # mean over seeds

    @property
    def label(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"

    @model_serializer(mode="wrap")
    def _what_is_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        later = "bleu_low", "bleu_high", "chrf"
        return {key: value for key, value in dump(self).items() if value is not None or key not in later}


@dataclass(frozen=True, config=STRICT)
class ArmResult:
    """One row of the comparison: a model, trained once a seed."""

    name: str
    parameters: NonNegativeInt
    seeds: NonEmpty[int]
    bleu: Spread  # cased, detokenised, with its interval
    bleu_lc_tok: Spread | None  # lowercased, tokenised: the flavour that the literature on Multi30k reports
    chrf: Spread
    ter: Spread | None  # None: not asked for (evaluation.ter)
    bleu_by_length: NonEmpty[BandResult]
    aer: Spread | None  # None: no gold alignments, or the arm reads no source state
    train_seconds: NonNegativeFloat  # mean over seeds
    perplexity: Spread | None = None  # of a token of the references; None: not measured
    attention_entropy: Spread | None = None  # bits, mean over target tokens; None: as for aer
    tokens_per_second: NonNegativeFloat | None = None  # target tokens, in training; mean over seeds
    matched_hidden_size: PositiveInt | None = None  # of the decoder, widened by match_parameters; None: as configured
    exact_match: Spread | None = None  # translations of 100 that are the reference itself; None: not measured

    @field_validator("bleu")
    @classmethod
    def _has_an_interval(cls, bleu: Spread) -> Spread:
        if bleu.low is None or bleu.high is None:
            raise ValueError("needs low and high")
        return bleu


@dataclass(frozen=True, config=STRICT)
class Significance:
    """What a test says against the hypothesis that there is no difference; two-sided."""

    p_value: Probability
    p_holm: Probability  # p_value corrected over the comparisons of the table (Holm, 1979)


@dataclass(frozen=True, config=STRICT)
class AcrossSeeds:
    """Welch's t test over seeds: would other trainings differ, too, on this test set?"""

    p_value: Probability
    p_holm: Probability
    low: float  # 95 % interval of the difference
    high: float
    degrees_of_freedom: PositiveFloat
    detectable: NonNegativeFloat  # as in Comparison, by these seeds


@dataclass(frozen=True, config=STRICT)
class Comparison:
    """An arm against the baseline on the same test set, the runs of each pooled."""

    arm: str
    baseline: str
    bleu_difference: float  # arm - baseline
    low: float  # 95 % interval of the difference over resampled test sets
    high: float
    p_value: Probability  # of sacrebleu's paired bootstrap; too small for a two-sided test, see evaluation/bootstrap.py
    p_holm: Probability | None = None  # p_value corrected as in Significance
    detectable: NonNegativeFloat | None = None  # smallest difference found in 80 % of such test sets, tested at 5 %
    randomisation: Significance | None = None  # paired approximate randomisation
    seeds: AcrossSeeds | None = None  # None: an arm has a single seed, or its seeds all score the same

    @property
    def significant(self) -> bool:
        """Whether the test set tells the two apart, at 5 % over the whole table.

        By approximate randomisation, which keeps its level; in files from before by the uncorrected interval.
        """
        if self.randomisation is None:
            return not self.low <= 0 <= self.high
        return self.randomisation.p_holm < LEVEL


@dataclass(frozen=True, config=STRICT)
class Results:
    """An experiment: its arms, the others compared with the baseline, and how the numbers were made."""

    experiment: str
    arms: NonEmpty[ArmResult]
    comparisons: Many[Comparison]
    signature: str  # sacrebleu's, of `bleu`
    version: str
    commit: str
    hardware: str
    signatures: Mapping[str, str] = Field(default_factory=dict)  # of each score and test, by its key
    where: Where | None = None  # where the arms differ; None: not measured

    @model_validator(mode="after")
    def _arms_can_be_laid_side_by_side(self) -> Results:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError(f"two arms have the same name: {', '.join(names)}")
        for arm in self.arms:
            if _bands(arm) != _bands(self.arms[0]):
                raise ValueError(f"arms {names[0]!r} and {arm.name!r} differ in their bands of bleu_by_length")
        strangers = {name for pair in self.comparisons for name in (pair.arm, pair.baseline)} - set(names)
        if strangers:
            raise ValueError(f"comparisons name {sorted(strangers)[0]!r}, which is not among the arms")
        if self.where is not None and (strange := self.where.arms - set(names)):
            raise ValueError(f"where names {sorted(strange)[0]!r}, which is not among the arms")
        if len({pair.baseline for pair in self.comparisons}) > 1:
            raise ValueError("comparisons have more than one baseline")
        return self

    @property
    def baseline(self) -> str | None:
        """The arm that the others are compared with; None where nothing is compared."""
        return self.comparisons[0].baseline if self.comparisons else None

    @classmethod
    def load(cls, path: Path) -> Results:
        """UserError with the file and the key if it is not what `save` writes."""
        return load(_RESULTS, path)

    def save(self, path: Path) -> None:
        """Write JSON, whole or not at all."""
        write_bytes(path, _RESULTS.dump_json(self, indent=2) + b"\n")


def _bands(arm: ArmResult) -> list[tuple[int, int | None, int]]:
    return [(band.low, band.high, band.sentences) for band in arm.bleu_by_length]


_RESULTS = TypeAdapter(Results)
