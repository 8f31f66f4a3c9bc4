"""The comparison: train what is missing of a grid, and write what it found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from seq2seq_attn.comparison.collect import collect
from seq2seq_attn.comparison.complete import complete_all
from seq2seq_attn.comparison.experiment import Grid
from seq2seq_attn.comparison.match_parameters import match_parameters
from seq2seq_attn.comparison.observe import observe
from seq2seq_attn.config import TestFiles
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.making import Making, save_making
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.data import CACHE_FOLDER, Cache, read_test


def compare(
    grid: Grid,
    runs: Path,
    output: Path,
    *,
    if_exists: Literal["resume", "overwrite"] = "resume",
    jobs: int = 1,
    command: str = "",
    say: Say = lambda _: None,
) -> Results:
    """Trains and tests each arm and seed that is not there yet, and writes as JSON all that a report needs.

    Run folders are `runs/EXPERIMENT/ARM/seed-N`. An interrupted comparison goes on where it stopped. `jobs` runs are
    trained at a time, each in a process with its share of the processor's cores. `command` is what the report gives
    for making it again.
    """
    test = read_test(_test_files(grid))
    grid = match_parameters(grid, Cache(runs / CACHE_FOLDER, say), say)
    complete_all(grid.runs, runs, if_exists, jobs, say)
    results = collect(grid, runs, test, say)
    results.save(output / "results.json")
    observe(grid, runs, test, output, results.signatures["chrf"])
    save_making(_making(grid, command), output / "making.json")
    return results


def _test_files(grid: Grid) -> TestFiles:
    files = grid.runs[0].config.data.test
    if files is None:
        raise UserError(f"experiment {grid.experiment.name}: data.test is missing; a comparison needs a test set")
    return files


def _making(grid: Grid, command: str) -> Making:
    """Paths within the working directory are written as from there, so that they are those of any checkout."""
    here = f"{Path.cwd()}{os.sep}"
    configurations = {arm: json.loads(group[0].config.model_dump_json()) for arm, group in grid.arms()}
    return Making(grid.experiment.question, command, _shortened(configurations, here))


def _shortened(value: Any, prefix: str) -> Any:
    """The value with the prefix taken off all text in it."""
    if isinstance(value, dict):
        return {key: _shortened(each, prefix) for key, each in value.items()}
    return value.removeprefix(prefix) if isinstance(value, str) else value
