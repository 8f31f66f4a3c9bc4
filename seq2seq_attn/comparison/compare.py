"""The comparison of an experiment: trains and tests the missing runs, and writes the results for the report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from seq2seq_attn.comparison.collect import collect
from seq2seq_attn.comparison.experiment import RunGrid, match_parameters
from seq2seq_attn.comparison.observe import observe
from seq2seq_attn.comparison.schedule import IfDone, complete_all
from seq2seq_attn.config import TestFiles
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.observations import Reproduction, save_reproduction
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.data import CACHE_FOLDER, Cache, read_test


def compare(
    grid: RunGrid,
    runs: Path,
    output: Path,
    *,
    if_exists: IfDone = "resume",
    jobs: int = 1,
    command: str = "",
    say: Say = lambda _: None,
) -> Results:
    """Trains and tests the runs of the grid that are missing, and writes the JSON files of the report into `output`.

    Run folders are `runs/EXPERIMENT/ARM/seed-N`. An interrupted comparison continues where it stopped. `jobs` runs are
    trained in parallel, each in a process with its share of the processor's cores. `command` is the command line that
    reproduces the comparison, for the report.
    """
    test = read_test(_test_files(grid))
    grid = match_parameters(grid, Cache(runs / CACHE_FOLDER, say), say)
    complete_all(grid.runs, runs, if_exists, jobs, say)
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
