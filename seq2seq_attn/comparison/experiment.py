"""Experiments: arms that each change a common base configuration, and the grid of their runs, arms x seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, model_validator

from seq2seq_attn.comparison.samplers import Grid, Sampler, Setting, Values, ends
from seq2seq_attn.config import Config, EvaluationConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import Resources
from seq2seq_attn.results.records import run_folder, slug
from seq2seq_attn.runs.train import Draw
from seq2seq_attn.runs.warm_start import completed
from seq2seq_attn.strict import (
    ConfigError,
    Override,
    Seed,
    Strict,
    merge,
    overridden_key,
    override,
    parse,
    parse_overridden,
    read_yaml,
)

BASE = "base"  # the key of an experiment, and of an arm that changes another configuration
SEEDS = "seeds"  # the key of an experiment, and of an arm that is trained with others
RESOURCES = "resources"  # the key of an experiment, and of an arm that needs others


def _in_order(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError("give at least one seed, each once")
    return tuple(sorted(seeds))  # so that the runs of two arms with the same seeds correspond


Seeds = Annotated[tuple[Seed, ...], AfterValidator(_in_order)]


def _changes(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("give the changes of an arm as a mapping, or as a list of lines: [training.batch_size=32]")
    return value


class Tune(Strict):
    """A search over settings for some of the arms; see `tuning.py`."""

    arms: tuple[str, ...] = Field(min_length=1)  # each is tried with the values that the sampler suggests
    values: dict[str, Values] = Field(min_length=1)  # what to try, by key: a list, or a range to draw from
    sampler: Annotated[Sampler, SerializeAsAny()] = Grid()  # which combinations of the values are tried
    trial: dict[str, Any] = Field(default_factory=dict)  # further changes for the trials, by key, such as fewer epochs
    others: str | None = None  # the tuned arm whose setting the other arms take; null: they keep their own

    @model_validator(mode="after")
    def _names_values_and_arms(self) -> Tune:
        if "seed" in self.values or "seed" in self.trial:
            raise ValueError(
                "tune has a seed; trials are made with the first of seeds, and compared for their settings"
            )
        if self.others is not None and self.others not in self.arms:
            raise ValueError(f"tune.others = {self.others!r} is not among tune.arms: {', '.join(self.arms)}")
        for key, values in self.values.items():
            if isinstance(values, list) and (twice := [each for each in values if values.count(each) > 1]):
                raise ValueError(f"{key} has {twice[0]!r} twice among its values")
        self.sampler.count(self.values)
        return self


class Experiment(Strict):
    """An experiment file.

    `base` is the configuration of a run, or the path of a file with one, relative to the experiment file. `arms` maps
    the name of each arm to its changes to the base, given as a mapping or as `key.path=value` lines. Among them may be
    the options of `ArmConfig`, and a `base` of its own. Every arm is compared with the baseline, and the pairs in
    `contrasts` with each other, as in `contrasts: [[dot, general]]`. `note` states what the results cannot show, and is
    repeated with the conclusions.
    """

    name: str = Field(pattern=r"^[\w.-]+$")  # of its run folders and its report
    question: str = ""  # the heading of the report
    note: str = ""  # what the results cannot show; repeated with the conclusions
    base: dict[str, Any] | Path  # the configuration that arms change, or its file
    arms: dict[str, Annotated[dict[str, Any], BeforeValidator(_changes)]]  # changes by the name of the arm
    baseline: str  # the name of the arm that the others are compared with
    seeds: Seeds = (1,)  # each arm is trained once per seed
    contrasts: tuple[tuple[str, str], ...] = ()  # further pairs of arms to test, planned before training
    tune: Tune | None = None  # settings to search for before training
    resources: Resources = Resources()  # what each run gets on a cluster

    @model_validator(mode="before")
    @classmethod
    def _is_no_single_run(cls, values: Any) -> Any:
        if "arms" not in values and any(key in values for key in Config.model_fields):
            raise ValueError("this is the configuration of one run; train it with: seq2seq-attn train")
        return _with_mappings(values)

    @model_validator(mode="after")
    def _arms_make_sense(self) -> Experiment:
        named = {
            "baseline": [self.baseline],
            "tune.arms": self.tune.arms if self.tune else (),
            "contrasts": [arm for pair in self.contrasts for arm in pair],
        }
        for key, arms in named.items():
            if unknown := [arm for arm in arms if arm not in self.arms]:
                raise ValueError(f"{key}: {unknown[0]!r} is not among the arms: {', '.join(self.arms)}")
        folders = [slug(arm) for arm in self.arms]
        if len(set(folders)) < len(folders):
            raise ValueError("two arms differ in punctuation alone and would share a folder; rename one")
        pairs = [frozenset(pair) for pair in self.contrasts]
        planned = {frozenset((arm, self.baseline)) for arm in self.arms}
        for pair in pairs:
            if len(pair) < 2 or pair in planned or pairs.count(pair) > 1:
                raise ValueError(
                    f"contrasts: {sorted(pair)} is an arm with itself, with the baseline (which is always tested), "
                    "or given twice"
                )
        for arm, change in self.arms.items():
            if "seed" in change:
                raise ValueError(
                    f"arm {arm!r} has a seed; every arm is trained with each of the experiment's seeds, or with its "
                    "own: seeds: [5]"
                )
            if not isinstance(own := change.get(BASE), dict | str | Path | None):
                raise ValueError(f"arm {arm!r}: base = {own!r} is neither a file nor a mapping")
        return self

    def base_of(self, arm: str) -> dict[str, Any] | Path:
        """What the arm changes, or its file: the base of the experiment, unless it has one of its own."""
        own = self.arms[arm].get(BASE)
        return self.base if own is None else Path(own) if isinstance(own, str) else own


def _with_mappings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an experiment, in which every change of an arm that is given as lines is a mapping."""
    arms = values.get("arms")
    if not isinstance(arms, Mapping):
        return dict(values)
    lines = {
        arm: each for arm, each in arms.items() if isinstance(each, list) and all(isinstance(e, str) for e in each)
    }
    return {**values, "arms": {**arms, **{arm: override({}, each) for arm, each in lines.items()}}}


class ArmConfig(Config):
    """The configuration of a run, with the options that belong to an arm only."""

    match_parameters: bool = False  # widen the decoder to the parameter count of the largest arm without this
    seeds: Seeds | None = None  # null: those of the experiment
    resources: Resources = Resources()  # what each of its runs gets on a cluster; the rest as in the experiment

    def run(self, seed: int) -> Config:
        """The configuration of the arm's run with this seed."""
        own = ArmConfig.model_fields.keys() - Config.model_fields.keys()
        return Config.model_validate(self.model_dump(exclude=own) | {"seed": seed})


class ArmRun(NamedTuple):
    """One run of the grid: an arm with one seed."""

    arm: str
    seed: int
    config: Config
    folder: Path  # relative to `runs`
    match_parameters: bool = False  # as requested; `match_parameters.py` widens `config`
    draw: Draw | None = None  # of its pictures of attention
    resources: Resources = Resources()
    runs: Path = Path()  # the folder of all runs of a comparison

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def place(self) -> Path:
        """The folder of the run, as the working directory sees it."""
        return self.runs / self.folder


class RunGrid(NamedTuple):
    """All runs of an experiment, or those that are left of it; arms in the order of the file."""

    experiment: Experiment
    runs: list[ArmRun]

    def arms(self) -> Iterator[tuple[str, list[ArmRun]]]:
        """Each arm with its runs, one per seed; arms without any run are left out."""
        for arm in self.experiment.arms:
            if group := [run for run in self.runs if run.arm == arm]:
                yield arm, group

    def without(self, runs: Iterable[ArmRun]) -> RunGrid:
        """The grid without the runs in these folders."""
        folders = {run.folder for run in runs}
        return self._replace(runs=[run for run in self.runs if run.folder not in folders])

    def placed(self, runs: Path) -> RunGrid:
        """The grid whose runs are in this folder."""
        return self._replace(runs=[run._replace(runs=runs) for run in self.runs])


def read_experiment(path: Path, overrides: Sequence[Override] = ()) -> RunGrid:
    """The grid of an experiment file.

    Overrides change the base, or fields of the experiment: `seeds=[1,2]` gives all arms these seeds,
    `arms.dot.seeds=[1,2]` one of them.
    """
    return experiment_grid(read_yaml(path), path, overrides)


def experiment_grid(values: Mapping[str, Any], path: Path | None = None, overrides: Sequence[Override] = ()) -> RunGrid:
    """The grid of an experiment with these values, from the file `path` or given in Python."""
    own = [each for each in overrides if overridden_key(each).split(".")[0] in Experiment.model_fields]
    if any(overridden_key(each) == "seed" for each in overrides):
        raise UserError("an experiment has no seed; give its seeds, as in seeds=[5]")
    values = _with_mappings(values)
    if SEEDS in map(overridden_key, own) and isinstance(values.get("arms"), Mapping):
        values["arms"] = {arm: _without(SEEDS, change) for arm, change in values["arms"].items()}
    experiment = parse_overridden(own, lambda given: parse(Experiment, override(values, given), path))

    def base_of(arm: str) -> dict[str, Any]:
        given = experiment.base_of(arm)
        try:
            return read_yaml(path.parent / given if path else given) if isinstance(given, Path) else given
        except UserError as error:
            if given is experiment.base:
                raise
            raise UserError(f"{f'{path}: ' if path else ''}arm {arm!r}: {error}") from None

    bases = {arm: base_of(arm) for arm in experiment.arms}
    return parse_overridden(
        [each for each in overrides if each not in own],
        lambda given: _make_grid(experiment, {arm: override(each, given) for arm, each in bases.items()}, path),
    )


def _make_grid(experiment: Experiment, bases: Mapping[str, Mapping[str, Any]], path: Path | None = None) -> RunGrid:
    """Arms x seeds. `bases` are the configurations that the arms change, by the name of the arm.

    UserError: a configuration is invalid, or arms are not scored alike; all are checked before any run is trained.
    """
    place = f"{path}: " if path else ""
    resources = experiment.resources.model_dump()
    runs: list[ArmRun] = []
    for arm, change in experiment.arms.items():
        if SEEDS in bases[arm]:
            raise ConfigError(
                f"arm {arm!r}: its base has seeds; give them to the experiment, or to the arm", (SEEDS,), place
            )
        try:
            given = merge({RESOURCES: resources}, merge(bases[arm], _without(BASE, change)))
            config = parse(ArmConfig, completed(given))
        except ConfigError as error:
            base = experiment.base_of(arm)
            origin = f"{base}: " if isinstance(base, Path) and not _is_changed(change, error.keys) else ""
            raise ConfigError(f"arm {arm!r}: {origin}{error}", error.keys, place) from None
        runs += [
            ArmRun(
                arm,
                seed,
                config.run(seed),
                run_folder(arm, seed),
                config.match_parameters,
                resources=config.resources,
            )
            for seed in config.seeds or experiment.seeds
        ]
        if key := _scored_otherwise(runs[-1].config, runs[0].config):
            raise ConfigError(
                f"arm {arm!r} has another {key} than arm {runs[0].arm!r}; arms are compared on one test set and "
                "scored alike: set it in base, and alike where an arm has a base of its own",
                tuple(key.split(".")),
                place,
            )
    sizes = [key for key in (experiment.tune.values if experiment.tune else ()) if _may_change_sizes(key)]
    if sizes and any(run.match_parameters for run in runs):
        raise ConfigError(
            f"tune.values has {sizes[0]}, and an arm has match_parameters; arms are matched before any is "
            "tuned: leave one of the two out",
            ("tune", "values"),
            place,
        )
    grid = RunGrid(experiment, runs)
    try:
        for setting in ends(experiment.tune.values) if experiment.tune else ():
            with_setting(grid, setting)
    except ConfigError as error:
        raise ConfigError(error.message, error.keys, place) from None
    return grid


def with_setting(grid: RunGrid, setting: Setting) -> RunGrid:
    """The grid with one setting in all arms that are tuned, or take the setting of one that is.

    ConfigError: it does not fit one of them, or a trial of one.
    """
    tune = grid.experiment.tune
    assert tune is not None
    for run in grid.runs:
        if run.arm in tune.arms:
            trial_of(run, setting, tune)
    return with_settings(grid, dict.fromkeys(tune.arms, setting))


def with_settings(grid: RunGrid, settings: Mapping[str, Setting]) -> RunGrid:
    """The grid with the settings of the tuned arms, without the runs whose setting was not found."""
    tune = grid.experiment.tune
    if tune is None:
        return grid
    source = {arm: arm if arm in tune.arms else tune.others for arm in grid.experiment.arms}
    runs = [
        run if arm is None else run._replace(config=_changed(run, settings[arm]))
        for run in grid.runs
        if (arm := source[run.arm]) is None or arm in settings
    ]
    return grid._replace(runs=runs)


def trial_of(run: ArmRun, setting: Setting, tune: Tune) -> Config:
    """The configuration of a trial, which has no test set."""
    return _changed(run, {**setting, **tune.trial, "data.test": None})


def _changed(run: ArmRun, setting: Setting) -> Config:
    try:
        return parse(Config, override(run.config.model_dump(mode="json"), list(setting.items())))
    except ConfigError as error:
        raise ConfigError(f"tune: arm {run.arm!r}: {error}", error.keys) from None


def _without(key: str, change: Any) -> Any:
    return {each: value for each, value in change.items() if each != key} if isinstance(change, Mapping) else change


def _may_change_sizes(key: str) -> bool:
    """Whether the parameter count of a model may depend on the value of this key."""
    return key.split(".")[0] in ("model", "text") and not key.startswith("model.dropout")


def _is_changed(change: Mapping[str, Any], keys: Sequence[str]) -> bool:
    """Whether an arm's change has a value at the place of these keys, or one that holds that place."""
    changed: object = change
    for key in keys:
        if not isinstance(changed, Mapping):
            return True
        if key not in changed:
            return False
        changed = changed[key]
    return True


def _scored_otherwise(one: Config, other: Config) -> str | None:
    """The first key by which the scores of two arms would be of different things; None if they can be compared."""
    keys = ("data.test", *(f"evaluation.{key}" for key in EvaluationConfig.model_fields))
    return next((key for key in keys if attrgetter(key)(one) != attrgetter(key)(other)), None)
