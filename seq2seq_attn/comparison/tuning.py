"""An equal search for the settings of the arms that are compared, by validation score, before any run is trained.

A baseline that was trained with the settings of its rival proves little. With `tune` in the experiment file, the named
arms are each trained briefly with every combination of the given values, and trained in full with the best one:

    tune:
      arms: [attention, fixed]
      values: {training.optimizer.learning_rate: [0.0005, 0.001, 0.002], model.dropout.state: [0.2, 0.4]}
      trial: {training.max_epochs: 8}
      others: attention

The other arms take the setting that was found for the arm `others`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from seq2seq_attn.comparison.experiment import ArmRun, RunGrid, Tune
from seq2seq_attn.comparison.schedule import FailedRun, IfDone, complete_all
from seq2seq_attn.config import Config
from seq2seq_attn.results.records import slug
from seq2seq_attn.results.results import Tuned
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.strict import ConfigError, override, parse

FOLDER = Path("tuning")  # in the folder of all runs

Setting = Mapping[str, Any]  # by key of the configuration


def search_settings(
    grid: RunGrid, runs: Path, if_exists: IfDone, jobs: int, say: Say, bar: bool | None = True
) -> tuple[dict[str, Tuned], list[FailedRun]]:
    """The best setting of each tuned arm, and the trials that failed; trains those that are missing.

    Nothing without `tune`. An arm all of whose trials failed has no setting. UserError, before the first trial: a
    setting does not fit an arm, or one of those that take the setting of `others`.
    """
    tune = grid.experiment.tune
    if tune is None:
        return {}, []
    for setting in settings(tune):
        with_settings(grid, dict.fromkeys(tune.arms, Tuned(setting, (None,), "")))
    trials = {arm: _trials(arm, group[0], tune) for arm, group in grid.arms() if arm in tune.arms}
    failed = complete_all([run for each in trials.values() for run in each], runs, if_exists, jobs, say, bar)
    found = {}
    for arm, each in trials.items():
        scores = [_score(runs / run.folder) for run in each]
        finished = [score for score in scores if score is not None]
        if not finished:
            continue
        monitored = each[0].config.monitored
        best = (max if monitored.sign > 0 else min)(finished)
        found[arm] = Tuned(settings(tune)[scores.index(best)], scores, monitored.label)
        chosen = ", ".join(f"{key}={value}" for key, value in found[arm].setting.items())
        say(f"{arm}: {chosen} is the best of {len(finished)} settings, validation {monitored.label} {best:.2f}")
    return found, failed


def _score(folder: Path) -> float | None:
    """The best validation of a trial; None if it failed."""
    score = read_metrics(folder).get("training", {}).get("best")
    return float(score) if score is not None and math.isfinite(score) else None


def settings(tune: Tune) -> list[dict[str, Any]]:
    """Every combination of the values, the last key changing first."""
    return [dict(zip(tune.values, combination, strict=True)) for combination in product(*tune.values.values())]


def _trials(arm: str, first: ArmRun, tune: Tune) -> list[ArmRun]:
    """One run per setting, with the first seed and without a test set."""
    return [
        first._replace(
            arm=f"{arm}, trial {number}",
            config=_changed(first, {**setting, **tune.trial, "data.test": None}),
            folder=FOLDER / slug(arm) / f"trial-{number}",
        )
        for number, setting in enumerate(settings(tune), start=1)
    ]


def with_settings(grid: RunGrid, tuned: Mapping[str, Tuned]) -> RunGrid:
    """The grid with the settings that were found, without the runs whose setting was not."""
    tune = grid.experiment.tune
    if tune is None:
        return grid
    source = {arm: arm if arm in tune.arms else tune.others for arm in grid.experiment.arms}
    runs = [
        run if arm is None else run._replace(config=_changed(run, tuned[arm].setting))
        for run in grid.runs
        if (arm := source[run.arm]) is None or arm in tuned
    ]
    return grid._replace(runs=runs)


def _changed(run: ArmRun, setting: Setting) -> Config:
    try:
        return parse(Config, override(run.config.model_dump(mode="json"), list(setting.items())))
    except ConfigError as error:
        raise ConfigError(f"tune: arm {run.arm!r}: {error}", error.keys) from None
