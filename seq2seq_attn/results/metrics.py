"""The metrics of a run: what metrics.json holds, and with every run a file of evidence.

Keys that are not named here are those of metrics that a user registered, and notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    model_validator,
)

ABSENT: Any = None  # the default of a key that may be left out, but not be null


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)


class _Score(_Record):
    """A metric of translations."""

    value: float | None  # None: it is not finite
    signature: str


class _BandScore(_Record):
    """The main metric of the sentences whose source has `low` to `high` words; None: no upper bound."""

    low: NonNegativeInt
    high: NonNegativeInt | None
    sentences: PositiveInt
    score: float


class _Training(_Record):
    best: float | None  # value of the monitored metric; None: it is not finite
    epochs: NonNegativeInt
    seconds: NonNegativeFloat
    tokens_per_second: NonNegativeFloat
    stopped: str  # why


class _Test(_Record):
    """Scores of the test set: besides these, metrics of translations and, as a number, those of forced decoding."""

    by_length: list[_BandScore] = Field(min_length=1)
    __pydantic_extra__: dict[str, _Score | float | None]


class _Average(_Record):
    epochs: list[int]
    validation_score: float  # in the main metric


class _MadeWith(_Record):
    version: str
    commit: str
    hardware: str


class _Metrics(_Record):
    """Of a run at any time: a part that is not there yet is absent, and never null."""

    initial_weights: str = ""
    parameters: NonNegativeInt = 0
    training: _Training = ABSENT
    test: _Test = ABSENT
    average: _Average = ABSENT

    @model_validator(mode="after")
    def _an_ended_run_has_parameters(self) -> _Metrics:
        if self.training is not None and "parameters" not in self.model_fields_set:
            raise ValueError("the key parameters is missing")
        return self


class _TestedMetrics(_Metrics):
    """Of a run that was trained and tested, and made with what is recorded."""

    initial_weights: str
    training: _Training
    test: _Test
    made_with: _MadeWith


RUN_METRICS = TypeAdapter(_Metrics)


def tested_metrics(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values themselves. ValueError: they are not those of `_TestedMetrics`."""
    _TestedMetrics.model_validate(values)
    return values
