"""The comparison of an experiment: trains and tests the missing runs and writes the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from seq2seq_attn.analysis.word_alignment import align_by_eflomal, eflomal_program
from seq2seq_attn.comparison.arms import Scoring
from seq2seq_attn.comparison.collect import collect
from seq2seq_attn.comparison.evidence import configuration, gather, known_settings, read_run, reusable
from seq2seq_attn.comparison.experiment import ArmRun, RunGrid, with_settings
from seq2seq_attn.comparison.launchers import Launcher, On
from seq2seq_attn.comparison.match_parameters import match_parameters
from seq2seq_attn.comparison.observe import observe
from seq2seq_attn.comparison.progress import Row, RunProgress, run_progress
from seq2seq_attn.comparison.schedule import IfDone, complete_all, is_complete, refuse_others
from seq2seq_attn.comparison.tuning import known_trials, search_settings
from seq2seq_attn.config import TestFiles
from seq2seq_attn.errors import FailedError, UserError, one_line
from seq2seq_attn.evaluation.alignment import format_links, symmetrize
from seq2seq_attn.files.checksums import SUMS
from seq2seq_attn.files.json_files import STRICT, load_record, save_record
from seq2seq_attn.files.lock import locked
from seq2seq_attn.results.curves import CURVES, Curve
from seq2seq_attn.results.evidence import EVIDENCE, Evidence, RunEvidence
from seq2seq_attn.results.records import RUNS
from seq2seq_attn.results.reproduction import REPRODUCTION, Reproduction
from seq2seq_attn.results.results import RESULTS, MissingRun, Results, Tuned
from seq2seq_attn.runs import CONFIG, Say
from seq2seq_attn.runs.cache import CACHE_FOLDER, Cache
from seq2seq_attn.runs.corpora import TestSet, read_test, source_words
from seq2seq_attn.runs.folder import COMPARISON, is_run, is_vacant, read_config, refuse_folder


def compare(
    grid: RunGrid,
    folder: Path,
    *,
    if_exists: IfDone = "resume",
    launcher: Launcher | None = None,
    command: str = "",
    evidence: Path | None = None,
    say: Say = lambda _: None,
    bar: bool | None = True,
) -> Results:
    """Trains and tests the runs of the grid that are missing, and writes the JSON files of the report into `folder`.

    Run folders are `folder/runs/ARM/seed-N`. An interrupted comparison continues where it stopped. The launcher trains
    runs in parallel; without one, they are trained one after the other in this process. `command` is the command line
    that reproduces the comparison, for the report. Runs in the file `evidence`, which an earlier comparison wrote, are
    not trained again, and arms are not tuned again. `bar` as in `runs.train.train`.

    Several processes may work on the same comparison: they share its runs, and each one's results are whole. A run that
    fails does not stop the others; the results say what is missing.

    UserError: the folder contains a run, another comparison or other files, which stay unchanged; as in `reusable`; or
    no run is left to report on.
    """
    grid = grid.placed(runs := folder / RUNS)
    test = read_test(_test_files(grid), source_words(grid.runs[0].config))
    claim(folder, grid.experiment.name)
    grid = match_parameters(grid, Cache(runs / CACHE_FOLDER, say), say)
    missing, known, aligners = [], dict[tuple[str, int], RunEvidence](), None
    if evidence is None:
        tuned, failed = search_settings(grid, if_exists, launcher, say, bar)
        missing += [_missing(*each) for each in failed]
        whole, grid = grid, with_settings(grid, {arm: each.setting for arm, each in tuned.items()})
        missing += [_missing(run, "no trial of its settings finished") for run in whole.without(grid.runs).runs]
    else:
        before = Evidence.load(evidence)
        grid, tuned, known = _from_evidence(before, evidence, grid)
        aligners = before.aligners
        say(f"{len(known)} of {len(grid.runs)} runs are in {evidence}")
    own = grid._replace(runs=[run for run in grid.runs if (run.arm, run.seed) not in known])
    while True:
        failed = complete_all(own.runs, if_exists, launcher, say, bar)
        finished = own.without(each.run for each in failed)
        with _all_locked(folder, [run.place for run in finished.runs]):
            if not all(map(is_complete, finished.runs)):
                if_exists = "resume"  # another process has begun to overwrite them
                continue
            missing += [_missing(*each) for each in failed]
            grid = grid.without(each.run for each in failed)
            if not grid.runs:
                first = missing[0]
                raise FailedError(f"{folder}: no run finished; {first.arm}, seed {first.seed}: {first.reason}")
            tested = {
                arm: [known.get((arm, run.seed)) or read_run(run.place, run.seed, len(test.pairs)) for run in group]
                for arm, group in grid.arms()
            }
            gathered = gather(grid, tested, aligners or _align(finished, test, say), tuned, missing)
            scoring = Scoring.of(grid.runs[0].config, test)
            results = collect(grid, gathered, test, scoring, say)
            results.save(folder / RESULTS)
            gathered.save(folder / EVIDENCE)
            CURVES.save({arm: tuple(run.curve for run in each) for arm, each in tested.items()}, folder)
            # The first run of an arm is observed; where it is in the evidence, so are its observations.
            observed = {arm for arm, group in grid.arms() if (arm, group[0].seed) in known}
            here = finished._replace(runs=[run for run in finished.runs if run.arm not in observed])
            translations = {arm: each[0].translations for arm, each in tested.items()}
            observe(here, test, folder, translations, scoring.of_sentences, evidence and evidence.parent)
            REPRODUCTION.save(_reproduction(grid, command), folder)
            return results


def plan(grid: RunGrid, folder: Path, on: On = "local", evidence: Path | None = None) -> list[Row]:
    """What `compare` would train and how far each run is: trials of `tune` whose settings are known, then the arms.

    UserError as by `compare`, for the folders and the evidence; nothing is written.
    """
    grid = grid.placed(runs := folder / RUNS)
    refuse_folder(folder)
    _refuse_other_contents(folder, grid.experiment.name)
    if evidence is None:
        known: dict[tuple[str, int], RunEvidence] = {}
        trials = known_trials(grid)
        exact = [run for run in grid.runs if grid.experiment.tune is None and not run.match_parameters]
    else:
        with TemporaryDirectory() as cache:
            grid = match_parameters(grid, Cache(Path(cache)))
        grid, _, known = _from_evidence(Evidence.load(evidence), evidence, grid)
        trials, exact = [], [run for run in grid.runs if (run.arm, run.seed) not in known]
    refuse_others([*trials, *exact])
    rows = []
    for run in [*trials, *grid.runs]:
        place = str(run.folder)
        if before := known.get((run.arm, run.seed)):
            progress, place = _at_end(before.curve), f"in {evidence}"
        else:
            # What another configuration will be trained with is not known yet, so what is there must be it.
            run = run if run in [*trials, *exact] else _as_trained(run)
            progress = run_progress(run.place)
            if is_complete(run):
                progress = progress._replace(state="done")
        resources = {} if on == "local" else {"resources": run.resources.in_words(on)}
        rows.append(Row(run, progress, resources | {f"folder in {runs}": place}))
    return rows


def _at_end(curve: Curve) -> RunProgress:
    """The last validation of a run that is done."""
    if not curve.epoch:
        return RunProgress("done")
    return RunProgress("done", curve.epoch[-1], None, curve.validation_loss[-1], curve.validation_score[-1])


def _from_evidence(
    evidence: Evidence, path: Path, grid: RunGrid
) -> tuple[RunGrid, dict[str, Tuned], dict[tuple[str, int], RunEvidence]]:
    """The grid with the settings that were found before, these settings, and the runs that are in the evidence."""
    tuned = known_settings(evidence, path, grid.experiment.tune)
    grid = with_settings(grid, {arm: each.setting for arm, each in tuned.items()})
    return grid, tuned, reusable(evidence, path, grid)


def _as_trained(run: ArmRun) -> ArmRun:
    """The run with the configuration in its folder, once it has begun; one that waits has been cleared."""
    begun = is_run(run.place) and (run.place / CONFIG).exists()
    return run._replace(config=read_config(run.place)) if begun else run


def _missing(run: ArmRun, reason: str) -> MissingRun:
    return MissingRun(run.arm, run.seed, one_line(reason))


@contextmanager
def _all_locked(folder: Path, runs: Sequence[Path]) -> Iterator[None]:
    """Waits for the lock of a comparison and those of its runs: nothing changes while the results are computed.

    A process that trains a run waits for no other run or comparison, so this cannot deadlock.
    """
    with ExitStack() as locks:
        for each in (folder, *runs):
            locks.enter_context(locked(each, wait=True))
        yield


def _align(grid: RunGrid, test: TestSet, say: Say) -> dict[str, list[str]]:
    """The links of eflomal, if it is installed and there are gold links; it learns from the text of the first run."""
    is_text = grid.runs and grid.runs[0].config.source is None
    if test.gold is None or not is_text or eflomal_program() is None:
        return {}
    both = align_by_eflomal(grid.runs[0].place, test.pairs, say)
    links = [symmetrize(*pair) for pair in zip(both.forward, both.backward, strict=True)]
    return {"eflomal": [format_links(each) for each in links]}


def claim(folder: Path, experiment: str) -> None:
    """Marks the folder as the comparison of this experiment.

    UserError: the folder contains something else, or is the current folder.
    """
    refuse_folder(folder)
    _refuse_other_contents(folder, experiment)
    with locked(folder, wait=True):
        _refuse_other_contents(folder, experiment)  # another process may have claimed it
        if not (folder / COMPARISON).exists():
            save_record(_MARKER, _Marker("seq2seq_attn comparison", 1, experiment), folder / COMPARISON)


@dataclass(frozen=True, config=STRICT)
class _Marker:
    format: Literal["seq2seq_attn comparison"]
    version: int
    experiment: str


_MARKER = TypeAdapter(_Marker)


def _refuse_other_contents(folder: Path, experiment: str) -> None:
    path = folder / COMPARISON
    another = "name another folder with --output"
    if path.exists():
        name = load_record(_MARKER, path, another).experiment
        if name != experiment:
            raise UserError(f"{folder}: holds the comparison {name!r}, not {experiment!r}; {another}")
    elif folder.is_dir() and is_run(folder):
        raise UserError(f"{folder}: holds a run of `train` ({SUMS}), not a comparison; {another}")
    elif not is_vacant(folder):
        raise UserError(f"{folder}: exists and is not a comparison (no {COMPARISON}); {another}")


def _test_files(grid: RunGrid) -> TestFiles:
    files = grid.runs[0].config.data.test
    if files is None:
        raise UserError(f"experiment {grid.experiment.name}: data.test is missing; a comparison needs a test set")
    return files


def _reproduction(grid: RunGrid, command: str) -> Reproduction:
    """Question, command and configurations."""
    configurations = {arm: configuration(group[0].config) for arm, group in grid.arms()}
    return Reproduction(grid.experiment.question, command, configurations)
