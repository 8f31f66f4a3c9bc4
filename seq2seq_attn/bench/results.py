"""What a sitting found: the records of its JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.bench.job import Job
from seq2seq_attn.results.files import STRICT, Many, NonEmpty, load
from seq2seq_attn.text.files import write_bytes

OURS = "seq2seq_attn"


@dataclass(frozen=True, config=STRICT)
class Figure:
    """What one system did of one job, once a round."""

    system: str  # OURS, or a peer's name
    job: Job  # of a peer: with the model of ours that is like it
    values: NonEmpty[PositiveFloat]  # in the job's unit
    peak_bytes: NonEmpty[NonNegativeInt]
    parts: Mapping[str, NonEmpty[float]]  # milliseconds a step; empty where they are not told apart

    @property
    def name(self) -> str:
        """The system in its setting."""
        return ", ".join([self.system, *([self.job.model] if self.system == OURS else []), self.job.precision])

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def peak(self) -> float:
        return median(self.peak_bytes)

    @property
    def milliseconds(self) -> dict[str, float]:
        """The median of each part."""
        return {part: median(values) for part, values in self.parts.items()}


@dataclass(frozen=True, config=STRICT)
class Sitting:
    """Figures that may be compared with each other: of one machine, at one time, the systems in turn."""

    started: str  # ISO 8601
    version: str
    commit: str | None
    hardware: str
    corpus: str
    warm_up: NonNegativeInt  # batches before those that were timed
    batches: PositiveInt
    figures: Many[Figure]

    @classmethod
    def load(cls, path: Path) -> Sitting:
        """UserError with the file and the key if it is not what `save` writes."""
        return load(_SITTING, path, writer="seq2seq-attn bench --json")

    def save(self, path: Path) -> None:
        """Write JSON, whole or not at all."""
        write_bytes(path, _SITTING.dump_json(self, indent=2) + b"\n")

    def ours(self, job: Job) -> Figure | None:
        """Our own figure of that job, if it was measured."""
        return next((figure for figure in self.figures if (figure.system, figure.job) == (OURS, job)), None)

    def products(self, training: Job) -> float | None:
        """Target tokens a second that the matrix products of this training allow; None if it was not measured."""
        figure = self.ours(replace(training, what="products"))
        return None if figure is None else figure.value

    def bytes(self, training: Job) -> float | None:
        """Those that the memory allows for the rest."""
        figure = self.ours(replace(training, what="bytes"))
        return None if figure is None else figure.value

    def floor(self, training: Job) -> float | None:
        """Those of the products and, after them, the bytes."""
        products, moved = self.products(training), self.bytes(training)
        return None if products is None or moved is None else 1 / (1 / products + 1 / moved)


_SITTING = TypeAdapter(Sitting)
