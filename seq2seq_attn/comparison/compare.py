"""The comparison of an experiment: trains and tests the missing runs and writes the results; and the demo."""

from __future__ import annotations

import json
import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from seq2seq_attn.comparison.collect import collect
from seq2seq_attn.comparison.experiment import Experiment, RunGrid, make_grid, match_parameters
from seq2seq_attn.comparison.observe import observe
from seq2seq_attn.comparison.schedule import IfDone, complete_all
from seq2seq_attn.config import TestFiles
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.observations import Reproduction, save_reproduction
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import CACHE_FOLDER, Cache, read_test
from seq2seq_attn.strict import load, merge
from seq2seq_attn.text.synthetic import make_corpus


def compare(
    grid: RunGrid,
    runs: Path,
    output: Path,
    *,
    if_exists: IfDone = "resume",
    jobs: int = 1,
    command: str = "",
    say: Say = lambda _: None,
    bar: bool | None = True,
) -> Results:
    """Trains and tests the runs of the grid that are missing, and writes the JSON files of the report into `output`.

    Run folders are `runs/EXPERIMENT/ARM/seed-N`. An interrupted comparison continues where it stopped. `jobs` runs are
    trained in parallel, each in a process with its share of the processor's cores. `command` is the command line that
    reproduces the comparison, for the report. `bar` as in `runs.train.train`.
    """
    test = read_test(_test_files(grid))
    grid = match_parameters(grid, Cache(runs / CACHE_FOLDER, say), say)
    complete_all(grid.runs, runs, if_exists, jobs, say, bar)
    results = collect(grid, runs, test, say)
    results.save(output / "results.json")
    observe(grid, runs, test, output, results.signatures["chrf"])
    save_reproduction(_reproduction(grid, command), output / "making.json")
    return results


def _test_files(grid: RunGrid) -> TestFiles:
    files = grid.runs[0].config.data.test
    if files is None:
        raise UserError(f"experiment {grid.experiment.name}: data.test is missing; a comparison needs a test set")
    return files


def _reproduction(grid: RunGrid, command: str) -> Reproduction:
    """Paths below the working directory are written relative to it, so that they are valid in any checkout."""
    here = f"{Path.cwd()}{os.sep}"
    configurations = {arm: json.loads(group[0].config.model_dump_json()) for arm, group in grid.arms()}
    return Reproduction(grid.experiment.question, command, _shortened(configurations, here))


def _shortened(value: Any, prefix: str) -> Any:
    """The value without the prefix in any of its strings."""
    if isinstance(value, dict):
        return {key: _shortened(each, prefix) for key, each in value.items()}
    return value.removeprefix(prefix) if isinstance(value, str) else value


CORPUS = "tom-and-jerry"
# For --quick: a check that everything runs.
QUICK: dict[str, Any] = {"data": {"max_length": 12}, "training": {"max_epochs": 1, "validate_every": 1}}


def demo(
    output: Path,
    quick: bool = False,
    say: Say = lambda _: None,
    if_exists: IfDone = "resume",
    command: str = "seq2seq-attn demo",
) -> Results:
    """Trains and compares the four arms of `demo.yaml`; results and run folders are written into `output`.

    An interrupted demo continues where it stopped; a finished one computes its results again from its runs.
    """
    return compare(
        demo_grid(output, quick),
        output / "runs",
        output,
        if_exists=if_exists,
        jobs=os.cpu_count() or 1,
        command=command,
        say=say,
    )


def demo_grid(output: Path, quick: bool = False) -> RunGrid:
    """The runs of the demo; without a checkout, its corpus is generated in `output`."""
    with as_file(files(__package__) / "demo.yaml") as path:
        experiment = load(Experiment, path)
    if isinstance(experiment.base, Path):
        raise UserError("demo.yaml holds its base itself")
    base = merge(experiment.base, {"data": _paths(experiment.base["data"], _corpus(output))})
    return make_grid(experiment, merge(base, QUICK) if quick else base)


def _corpus(output: Path) -> Path:
    """The folder of the embedded corpus: that of the checkout, or the same files generated again."""
    committed = Path(__file__).resolve().parents[2] / "data" / CORPUS
    if committed.is_dir():
        return committed
    generated = output / "data" / CORPUS
    return generated if (generated / "test.align").exists() else make_corpus(CORPUS, generated)


def _paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data section with all its files in `folder`."""
    return {
        key: _paths(value, folder) if isinstance(value, dict) else str(folder / Path(value).name)
        for key, value in values.items()
    }
