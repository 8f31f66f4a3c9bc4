"""What is measured, and how thoroughly: the records that go to a process, and into a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from seq2seq_attn.results.files import STRICT

What = Literal[
    "training",  # target tokens a second
    "products",  # target tokens a second that the necessary matrix products of training allow, all else being free
    "bytes",  # target tokens a second that the memory allows for what the rest must move
    "profile",  # milliseconds of a training step, by part
    "greedy",  # tokens a second, every sentence decoded for just so many steps
    "beam",
    "sentence-greedy",  # milliseconds, one sentence at a time
    "sentence-beam",
]
Precision = Literal["fp32", "bf16"]
Axis = Literal["length", "batch", "vocabulary", "threads"]
Device = Literal["cpu", "cuda"]

MILLISECONDS: tuple[What, ...] = ("profile", "sentence-greedy", "sentence-beam")  # less is better; else tokens/s

WHATS: tuple[What, ...] = get_args(What)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AXES: tuple[Axis, ...] = get_args(Axis)

DECODED_LENGTH = 20  # steps of every search: what stops an untrained model is no measure of anything
BEAM_SIZE = 5


@dataclass(frozen=True, config=STRICT)
class Job:
    """One figure: of this model, in this setting."""

    what: What
    model: str  # a name of `models.MODELS`
    precision: Precision
    threads: PositiveInt
    batch: PositiveInt = 64  # sentences
    length: PositiveInt | None = None  # of every sentence, `</s>` included; None: as the corpus has them
    vocabulary: PositiveInt | None = None  # None: the corpus's
    sweep: Axis | None = None  # along which it is one of several

    @property
    def steps(self) -> int:
        """How many steps a search takes."""
        return self.length or DECODED_LENGTH

    @property
    def unit(self) -> str:
        return "ms" if self.what in MILLISECONDS else "tokens/s"


@dataclass(frozen=True, config=STRICT)
class Effort:
    """What is alike for all figures of a sitting."""

    warm_up: NonNegativeInt = 5  # batches, not timed
    batches: PositiveInt = 30  # timed; in a search, at most as many as the test sentences fill
    device: Device = "cpu"
    folder: Path | None = None  # of the corpus; None: a synthetic one


class Outcome(NamedTuple):
    """What one process found."""

    value: float  # in the unit of the job's `what`
    peak_bytes: int  # of its memory
    parts: Mapping[str, float] = {}  # milliseconds a step, where the job tells them apart
