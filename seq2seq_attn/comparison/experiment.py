"""An experiment: a question, asked as arms that are each a small change on a common base."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.slug import slug
from seq2seq_attn.strict import Strict, load, merge, override, parse, read_yaml


class Experiment(Strict):
    """An experiment file.

    `base` is a run's configuration, or names a file with one, relative to the experiment's; `arms` names each arm and
    what it changes of the base, as a mapping or as `key.path=value` lines. An arm with `match_parameters: true` gets a
    wider decoder, so that it has as many parameters as the largest arm without.
    """

    name: str = Field(pattern=r"^[\w.-]+$")
    question: str = ""
    base: dict[str, Any] | Path
    arms: dict[str, dict[str, Any] | list[str]]
    baseline: str  # the arm that the others are compared with
    seeds: tuple[int, ...] = (1,)

    @model_validator(mode="before")
    @classmethod
    def _is_no_single_run(cls, values: Any) -> Any:
        if "arms" not in values and any(key in values for key in Config.model_fields):
            raise ValueError("this is the configuration of one run; train it with: seq2seq-attn train")
        return values

    @model_validator(mode="after")
    def _arms_make_sense(self) -> Experiment:
        if self.baseline not in self.arms:
            raise ValueError(f"baseline {self.baseline!r} is not among the arms: {', '.join(self.arms)}")
        folders = [slug(arm) for arm in self.arms]
        if len(set(folders)) < len(folders):
            raise ValueError("two arms differ in punctuation alone and would share a folder; rename one")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)}: give at least one, each once")
        return self


class ArmConfig(Config):
    """A run's configuration, and what an arm may ask for beside it."""

    match_parameters: bool = False  # widen the decoder to as many parameters as the largest arm without this has

    def run(self) -> Config:
        """The configuration of the arm's runs."""
        return Config.model_validate(self.model_dump(exclude={"match_parameters"}))


class ArmRun(NamedTuple):
    """One cell of the grid."""

    arm: str
    seed: int
    config: Config
    folder: Path
    match_parameters: bool = False  # `config` is as the file has it until `match_parameters.py` has resolved it

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"


class Grid(NamedTuple):
    """All runs of an experiment, arms in the file's order."""

    experiment: Experiment
    runs: list[ArmRun]

    def arms(self) -> Iterator[tuple[str, list[ArmRun]]]:
        """Each arm with its runs, one a seed."""
        for arm in self.experiment.arms:
            yield arm, [run for run in self.runs if run.arm == arm]


def read_experiment(path: Path, overrides: tuple[str, ...] = ()) -> Grid:
    """The grid of an experiment file. Overrides change the base; `seeds=[1,2,3]` and the like the experiment."""
    own = tuple(text for text in overrides if text.partition("=")[0].split(".")[0] in Experiment.model_fields)
    experiment = load(Experiment, path, own)
    base = experiment.base
    values = read_yaml(path.parent / base) if isinstance(base, Path) else base
    values = override(values, [text for text in overrides if text not in own])
    return make_grid(experiment, values, path)


def make_grid(experiment: Experiment, base: dict[str, Any], path: Path | None = None) -> Grid:
    """Arms x seeds; every configuration is checked before anything is trained."""
    runs = []
    for arm, change in experiment.arms.items():
        values = override(base, change) if isinstance(change, list) else merge(base, change)
        for seed in experiment.seeds:
            try:
                config = parse(ArmConfig, values | {"seed": seed})
            except UserError as error:
                raise UserError(f"{f'{path}: ' if path else ''}arm {arm!r}: {error}") from None
            folder = Path(experiment.name) / slug(arm) / f"seed-{seed}"
            runs.append(ArmRun(arm, seed, config.run(), folder, config.match_parameters))
    return Grid(experiment, runs)
