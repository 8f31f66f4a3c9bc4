"""Where curves, beside `log/metrics.csv`, and pictures of a training are shown: a short adapter for each program."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import UserError

LoggerName = Literal["tensorboard", "wandb", "mlflow", "trackio"]

Pictures = Mapping[str, NDArray[np.uint8]]  # by name: (height, width, 3), red, green and blue

PROJECT = "seq2seq_attn"  # of runs that belong to no experiment


class TrackedRun(NamedTuple):
    """What the programs are told of a run."""

    name: str
    group: str = PROJECT  # the experiment of the run, whose arms are shown together
    key: str = ""  # of this run alone, by which a resumed training finds what was logged before
    config: Mapping[str, Any] = {}  # plain values
    pictures: Callable[[], Pictures] | None = None  # of the model as it is when this is called, after each validation


UNTRACKED = TrackedRun("training")


class Logger(Protocol):
    """A program that shows curves."""

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Shows values of a step."""
        ...

    def add_pictures(self, step: int, pictures: Pictures) -> None:
        """Shows pictures of the model after a step."""
        ...

    def flush(self) -> None:
        """Called with every checkpoint."""
        ...

    def close(self) -> None:
        """Called at the end."""
        ...


class TensorBoard:
    """Files of events, from which those after `step` are taken when training is resumed."""

    def __init__(self, log: Path, run: TrackedRun, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(log), purge_step=step + 1)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def add_pictures(self, step: int, pictures: Pictures) -> None:
        for name, picture in pictures.items():
            self.writer.add_image(name, picture, step, dataformats="HWC")

    def flush(self) -> None:
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """Weights & Biases, or Trackio, which has the same functions and finds runs by their names."""

    def __init__(self, log: Path, run: TrackedRun, step: int, library: str = "wandb") -> None:
        self.library: Any = importlib.import_module(library)
        same = {"name": run.name, "id": run.key} if library == "wandb" else {"name": f"{run.name} {run.key}"}
        self.library.init(project=PROJECT, group=run.group, resume="allow", config=dict(run.config), **same)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self.library.log(dict(values), step=step)

    def add_pictures(self, step: int, pictures: Pictures) -> None:
        self.library.log({name: self.library.Image(picture) for name, picture in pictures.items()}, step=step)

    def flush(self) -> None:
        """Nothing: a process of the program itself writes."""

    def close(self) -> None:
        self.library.finish()


class Trackio(WeightsAndBiases):
    """Trackio."""

    def __init__(self, log: Path, run: TrackedRun, step: int) -> None:
        super().__init__(log, run, step, "trackio")


class MLflow:
    """MLflow, with one experiment per group; `run_key` is a tag of the run."""

    def __init__(self, log: Path, run: TrackedRun, step: int) -> None:
        self.library: Any = importlib.import_module("mlflow")
        self.library.set_experiment(run.group)
        found = self.library.search_runs(filter_string=f"tags.run_key = '{run.key}'", output_format="list")
        before = found[0].info.run_id if found else None
        self.library.start_run(run_id=before, run_name=run.name, tags={"run_key": run.key})
        self.library.log_dict(dict(run.config), "config.yaml")

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self.library.log_metrics(dict(values), step=step)

    def add_pictures(self, step: int, pictures: Pictures) -> None:
        for name, picture in pictures.items():
            self.library.log_image(picture, artifact_file=f"{name}/step-{step}.png")

    def flush(self) -> None:
        """Nothing: values are sent at once."""

    def close(self) -> None:
        self.library.end_run()


_LOGGERS: dict[LoggerName, Any] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
    "trackio": Trackio,
}


def require_loggers(names: Sequence[LoggerName] | None) -> None:
    """UserError if one of these programs is not installed."""
    for name in names or ():
        if importlib.util.find_spec(name) is None:
            raise UserError(f"training.loggers: {name} is not installed; pip install 'seq2seq_attn[{name}]'")


def open_loggers(names: Sequence[LoggerName] | None, log: Path, run: TrackedRun, step: int) -> list[Logger]:
    """The loggers with these names; None: TensorBoard, if it is installed. Nothing else is imported.

    Args:
        names: As in `training.loggers`.
        log: The folder for files.
        run: What they are told.
        step: The last one that was logged before.
    """
    if names is None:
        return [TensorBoard(log, run, step)] if importlib.util.find_spec("tensorboard") else []
    require_loggers(names)
    return [_LOGGERS[name](log, run, step) for name in names]
