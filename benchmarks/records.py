"""Jobs and measurements: the records for worker processes and for the JSON file of a sitting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple, get_args

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.files.json_files import STRICT, Many, NonEmpty, load_record
from seq2seq_attn.files.writing import write_bytes

Workload = Literal[
    "training",  # target tokens/s
    "products",  # target tokens/s if training consisted of its necessary matrix products alone
    "bytes",  # target tokens/s if training consisted of its other necessary memory traffic alone
    "profile",  # milliseconds of a training step, by part
    "greedy",  # tokens/s, every sentence decoded for a fixed number of steps
    "beam",
    "sentence-greedy",  # milliseconds, one sentence at a time
    "sentence-beam",
]
Precision = Literal["fp32", "bf16"]
Axis = Literal["length", "batch", "vocabulary", "threads"]
Device = Literal["cpu", "cuda"]
StepPart = Literal[
    "embedding",  # source and target
    "encoder",  # and H_0
    "attention",  # keys, scores, weighted sum
    "recurrence",  # the decoder's cell and its input; also attention if one autograd node computes both
    "readout",
    "vocabulary loss",
    "clipping",
    "optimizer",
]

WORKLOADS: tuple[Workload, ...] = get_args(Workload)
OF_RECURRENT_MODELS: tuple[Workload, ...] = ("products", "bytes", "profile")  # what a step consists of
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AXES: tuple[Axis, ...] = get_args(Axis)
PARTS: tuple[StepPart, ...] = get_args(StepPart)

IN_MILLISECONDS: tuple[Workload, ...] = ("profile", "sentence-greedy", "sentence-beam")  # lower is better
OTHER = "other"  # the time of a step that belongs to none of PARTS
OURS = "seq2seq_attn"
BATCH = 64  # sentences
DECODED_LENGTH = 20  # steps of every search, since an untrained model would stop at an arbitrary step
BEAM_SIZE = 5


@dataclass(frozen=True, config=STRICT)
class Job:
    """One measurement to make: a workload, a model and its setting."""

    what: Workload
    model: str  # a name in `common_task.MODELS`
    precision: Precision
    threads: PositiveInt
    batch: PositiveInt = BATCH  # sentences
    length: PositiveInt | None = None  # of every sentence, `</s>` included; None: lengths as in the corpus
    vocabulary: PositiveInt | None = None  # entries; None: as in the corpus
    sweep: Axis | None = None  # the axis that this job is one point of

    @property
    def steps(self) -> int:
        """The number of steps of a search."""
        return self.length or DECODED_LENGTH

    @property
    def unit(self) -> str:
        return "ms" if self.what in IN_MILLISECONDS else "tokens/s"

    def __str__(self) -> str:
        setting = [f"{self.sweep} {getattr(self, self.sweep):,}"] if self.sweep else []
        return ", ".join([self.what, self.model, self.precision, *setting])


@dataclass(frozen=True, config=STRICT)
class Effort:
    """Settings that all measurements of a sitting share."""

    warm_up: NonNegativeInt = 5  # batches, not timed
    batches: PositiveInt = 30  # timed; decoding stops earlier if the test sentences run out
    device: Device = "cpu"
    folder: Path | None = None  # with the corpus; None: a synthetic corpus


class Outcome(NamedTuple):
    """What one worker process measured."""

    value: float  # in the job's unit
    peak_bytes: int  # of its memory
    parts: Mapping[str, float] = {}  # milliseconds per step, for workloads that are broken down


@dataclass(frozen=True, config=STRICT)
class Measurement:
    """One system's values for one job, one per round."""

    system: str  # OURS, or a peer's name
    job: Job  # of a peer: with our comparable model
    values: NonEmpty[PositiveFloat]  # in the job's unit
    peak_bytes: NonEmpty[NonNegativeInt]
    parts: Mapping[str, NonEmpty[float]]  # milliseconds per step; empty if not broken down

    @property
    def name(self) -> str:
        """The system and its setting."""
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
    """Comparable measurements: made on one machine at one time, with the systems in turn."""

    started: str  # ISO 8601
    version: str
    commit: str | None
    hardware: str
    corpus: str
    warm_up: NonNegativeInt  # batches before those that were timed
    batches: PositiveInt
    figures: Many[Measurement]
    failures: Many[str] = ()  # measurements without a result, each with the reason

    @classmethod
    def load(cls, path: Path) -> Sitting:
        """Read what `save` wrote. Raises UserError with file and key if it is invalid."""
        return load_record(_SITTING, path, "`python -m benchmarks --output` writes it")

    def save(self, path: Path) -> None:
        """Write JSON atomically."""
        write_bytes(path, _SITTING.dump_json(self, indent=2) + b"\n")

    def ours(self, job: Job) -> Measurement | None:
        """Our own measurement of that job, if there is one."""
        return next((each for each in self.figures if (each.system, each.job) == (OURS, job)), None)

    def products(self, training: Job) -> float | None:
        """Target tokens/s that the matrix products of this training job allow; None if not measured."""
        measured = self.ours(replace(training, what="products"))
        return None if measured is None else measured.value

    def bytes(self, training: Job) -> float | None:
        """Target tokens/s that the remaining memory traffic allows; None if not measured."""
        measured = self.ours(replace(training, what="bytes"))
        return None if measured is None else measured.value

    def floor(self, training: Job) -> float | None:
        """Target tokens/s if the products are followed by the traffic: 1 / (1 / products + 1 / bytes)."""
        products, traffic = self.products(training), self.bytes(training)
        return None if products is None or traffic is None else 1 / (1 / products + 1 / traffic)


_SITTING = TypeAdapter(Sitting)
