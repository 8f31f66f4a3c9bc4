"""The evidence of a comparison: everything from which its results are recomputed without training.

One compressed JSON file, small enough to be committed and published with the results: for every run its scores, its
translations of the test set, its word alignments and its learning curve; for every arm its configuration; and the
checksums of the corpora.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, NonNegativeInt, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import OPEN, STRICT, Many, NonEmpty, load_record, save_record
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.metrics import tested_metrics
from seq2seq_attn.results.results import MissingRun, Tuned

EVIDENCE = "evidence.json.gz"


@dataclass(frozen=True, config=STRICT)
class RunEvidence:
    """A run and what it did with the test set; all lists have one entry per test sentence."""

    seed: NonNegativeInt
    metrics: Annotated[Mapping[str, Any], AfterValidator(tested_metrics)]  # its metrics.json, and `made_with`
    curve: Curve
    translations: NonEmpty[str]
    links: Many[str] | None  # in the Pharaoh format; None: no attention weights
    entropies: Many[float | None] | None  # of the attention weights, in bits

    @model_validator(mode="after")
    def _one_per_sentence(self) -> RunEvidence:
        for name, values in (("links", self.links), ("entropies", self.entropies)):
            if values is not None and len(values) != len(self.translations):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.translations)} translations")
        return self


@dataclass(frozen=True, config=STRICT)
class ArmEvidence:
    """The runs of an arm, which differ in their seed alone."""

    name: str
    configuration: Mapping[str, Any]  # of its first run, complete
    match_parameters: bool
    runs: NonEmpty[RunEvidence]


class _Tune(BaseModel):
    model_config = OPEN

    arms: list[str]


class _Experiment(BaseModel):
    """The fields of the experiment file that name arms; `comparison/experiment.py` checks all of them."""

    model_config = OPEN

    baseline: str
    contrasts: list[tuple[str, str]] = []
    tune: _Tune | None = None


def _experiment(values: Mapping[str, Any]) -> Mapping[str, Any]:
    _Experiment.model_validate(values)
    return values


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """An experiment with its tested runs."""

    # The fields of the experiment file besides `base`, `arms` and `seeds`.
    experiment: Annotated[Mapping[str, Any], AfterValidator(_experiment)]
    arms: NonEmpty[ArmEvidence]
    data: Mapping[str, str]  # the SHA-256 of every file that a training read, by its path
    tuned: Mapping[str, Tuned] = Field(default_factory=dict)  # as in Results
    aligners: Mapping[str, Many[str]] = Field(default_factory=dict)  # links of other aligners, in the Pharaoh format
    missing: Many[MissingRun] = ()  # as in Results

    @model_validator(mode="after")
    def _runs_are_of_one_test_set(self) -> Evidence:
        counts = {len(run.translations) for arm in self.arms for run in arm.runs}
        if len(counts) > 1:
            raise ValueError(f"runs have {' and '.join(map(str, sorted(counts)))} translations of one test set")
        return self

    @classmethod
    def load(cls, path: Path) -> Evidence:
        return load_record(_EVIDENCE, path, f"`seq2seq-attn compare` writes it as {EVIDENCE}")

    def save(self, path: Path) -> None:
        save_record(_EVIDENCE, self, path)


_EVIDENCE = TypeAdapter(Evidence)
