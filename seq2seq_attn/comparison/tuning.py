"""An equal search for the settings of the arms that are compared, by validation score, before any run is trained.

A baseline that was trained with the settings of its rival proves little. With `tune` in the experiment file, the named
arms are each trained briefly with settings from one space, and trained in full with the best one:

    tune:
      arms: [attention, fixed]
      values: {training.optimizer.learning_rate: [0.0005, 0.001, 0.002], model.dropout.state: [0.2, 0.4]}
      trial: {training.max_epochs: 8}
      others: attention

The other arms take the setting that was found for the arm `others`. Every combination of listed values is tried, or
what another sampler suggests:

      values:
        training.optimizer.learning_rate: {low: 0.0003, high: 0.01, log: true}
        model.dropout.state: {low: 0.1, high: 0.5}
      sampler: {kind: random, trials: 20}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from seq2seq_attn.comparison.experiment import ArmRun, RunGrid, Tune, trial_of, with_setting
from seq2seq_attn.comparison.launchers import Launcher
from seq2seq_attn.comparison.samplers import Trial
from seq2seq_attn.comparison.schedule import FailedRun, IfDone, complete_all, delete_all, is_complete
from seq2seq_attn.config import Config
from seq2seq_attn.results.records import slug
from seq2seq_attn.results.results import Tuned
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.folder import read_metrics

FOLDER = Path("tuning")  # in the folder of all runs


def search_settings(
    grid: RunGrid, if_exists: IfDone, launcher: Launcher | None, say: Say, bar: bool | None = True
) -> tuple[dict[str, Tuned], list[FailedRun]]:
    """The best setting of each tuned arm, and the trials that failed; trains those that are missing.

    Nothing without `tune`. An arm all of whose trials failed has no setting. UserError: a setting does not fit an arm,
    or one of those that take the setting of `others`; or the sampler needs a package that is not installed.
    """
    tune = grid.experiment.tune
    if tune is None:
        return {}, []
    searches = _searches(grid)
    count = tune.sampler.count(tune.values)
    if if_exists == "overwrite":
        delete_all([search.run(number, search.first.config) for search in searches for number in range(count)])
    failed = []
    for trials in _batches(grid, searches):
        failed += complete_all(trials, "resume", launcher, say, bar)
    found = {search.arm: tuned for search in searches if (tuned := search.found(say)) is not None}
    return found, failed


def known_trials(grid: RunGrid) -> list[ArmRun]:
    """The trials whose settings are known already: all, unless the sampler waits for the scores of earlier ones."""
    found = []
    for trials in _batches(grid, _searches(grid)):
        found += trials
        if not all(map(is_complete, trials)):
            break
    return found


def _searches(grid: RunGrid) -> list[_Search]:
    tune = grid.experiment.tune
    return [_Search(arm, group[0], tune) for arm, group in grid.arms() if tune and arm in tune.arms]


def _batches(grid: RunGrid, searches: Sequence[_Search]) -> Iterator[list[ArmRun]]:
    """The trials of all searches that are suggested at once; whoever asks for the next ones has trained these."""
    if not searches:
        return
    tune = searches[0].tune
    count = tune.sampler.count(tune.values)
    size = tune.sampler.at_once or count
    for start in range(0, count, size):
        batches = [search.suggest(grid, range(start, min(start + size, count))) for search in searches]
        yield [run for batch in batches for run in batch]
        for search, batch in zip(searches, batches, strict=True):
            search.read(batch)


class _Search:
    """The trials of one arm."""

    def __init__(self, arm: str, first: ArmRun, tune: Tune) -> None:
        self.arm = arm
        self.first = first  # trials have its seed
        self.tune = tune
        self.trials: list[Trial] = []

    def run(self, number: int, config: Config) -> ArmRun:
        folder = FOLDER / slug(self.arm) / f"trial-{number + 1}"
        return self.first._replace(arm=f"{self.arm}, trial {number + 1}", config=config, folder=folder)

    def suggest(self, grid: RunGrid, numbers: Iterable[int]) -> list[ArmRun]:
        """The runs of further trials, none of which is trained yet."""
        batch = []
        for number in numbers:
            setting = self.tune.sampler.suggest(self.tune.values, self.trials)
            with_setting(grid, setting)  # it fits the other arms, too
            self.trials.append(Trial(setting, None))
            batch.append(self.run(number, trial_of(self.first, setting, self.tune)))
        return batch

    def read(self, batch: Sequence[ArmRun]) -> None:
        """Enters the scores of the last trials, once they are trained."""
        for trial, run in enumerate(batch, start=len(self.trials) - len(batch)):
            best = read_metrics(run.place).get("training", {}).get("best")
            if best is not None and math.isfinite(best):
                self.trials[trial] = self.trials[trial]._replace(score=run.config.monitored.sign * float(best))

    def found(self, say: Say) -> Tuned | None:
        """The best setting; None if every trial failed."""
        scores = [trial.score for trial in self.trials if trial.score is not None]
        if not scores:
            return None
        best = next(trial.setting for trial in self.trials if trial.score == max(scores))
        monitored = trial_of(self.first, best, self.tune).monitored
        tuned = Tuned(
            best,
            [None if trial.score is None else monitored.sign * trial.score for trial in self.trials],
            monitored.label,
            [trial.setting for trial in self.trials],
        )
        say(
            f"{self.arm}: {tuned.shown} is the best of {len(scores)} settings, "
            f"validation {monitored.label} {monitored.sign * max(scores):.2f}"
        )
        return tuned
