"""The comparison of an experiment: trains and tests the missing runs and writes the results. Also the demo."""

from __future__ import annotations

import gzip
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
from seq2seq_attn.results.records import RUNS
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import CACHE_FOLDER, Cache, read_test
from seq2seq_attn.runs.folder import COMPARISON, MARKER
from seq2seq_attn.strict import load, merge
from seq2seq_attn.text.files import read_lines, write_bytes
from seq2seq_attn.text.synthetic import make_corpus


def compare(
    grid: RunGrid,
    folder: Path,
    *,
    if_exists: IfDone = "resume",
    jobs: int = 1,
    command: str = "",
    say: Say = lambda _: None,
    bar: bool | None = True,
) -> Results:
    """Trains and tests the runs of the grid that are missing, and writes the JSON files of the report into `folder`.

    Run folders are `folder/runs/ARM/seed-N`. An interrupted comparison continues where it stopped. `jobs` runs are
    trained in parallel, each in a process with an equal share of the processor's cores. `command` is the command line
    that reproduces the comparison, for the report. `bar` as in `runs.train.train`.

    UserError: the folder contains a run, another comparison or other files, which stay unchanged.
    """
    runs = folder / RUNS
    test = read_test(_test_files(grid))
    claim(folder, grid.experiment.name)
    grid = match_parameters(grid, Cache(runs / CACHE_FOLDER, say), say)
    complete_all(grid.runs, runs, if_exists, jobs, say, bar)
    results = collect(grid, runs, test, say)
    results.save(folder / "results.json")
    observe(grid, runs, test, folder, results.signatures["chrf"])
    save_reproduction(_reproduction(grid, command), folder / "making.json")
    return results


def claim(folder: Path, experiment: str) -> None:
    """Marks the folder as the comparison of this experiment.

    UserError: the folder contains something else.
    """
    path = folder / COMPARISON
    marker = {"format": "seq2seq_attn comparison", "version": 1, "experiment": experiment}
    another = "name another folder with --output"
    if path.exists():
        try:
            name = json.loads(path.read_text(encoding="utf-8"))["experiment"]
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: not the marker of a comparison; {another}") from None
        if name != experiment:
            raise UserError(f"{folder}: holds the comparison {name!r}, not {experiment!r}; {another}")
    elif (folder / MARKER).exists():
        raise UserError(f"{folder}: holds a run of `train` ({MARKER}), not a comparison; {another}")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: exists and is not a comparison (no {COMPARISON}); {another}")
    else:
        write_bytes(path, f"{json.dumps(marker)}\n".encode())


def _test_files(grid: RunGrid) -> TestFiles:
    files = grid.runs[0].config.data.test
    if files is None:
        raise UserError(f"experiment {grid.experiment.name}: data.test is missing; a comparison needs a test set")
    return files


def _reproduction(grid: RunGrid, command: str) -> Reproduction:
    """Question, command and configurations, with paths below the working directory relative to it, for any checkout."""
    here = f"{Path.cwd()}{os.sep}"
    configurations = {arm: json.loads(group[0].config.model_dump_json()) for arm, group in grid.arms()}
    return Reproduction(grid.experiment.question, command, _shortened(configurations, here))


def _shortened(value: Any, prefix: str) -> Any:
    """The value with the prefix removed from all of its strings."""
    if isinstance(value, dict):
        return {key: _shortened(each, prefix) for key, each in value.items()}
    return value.removeprefix(prefix) if isinstance(value, str) else value


CORPUS = "tom-and-jerry"
SHORT = 10  # maximum source length in words in the quick demo
QUICK_ARMS = ("distracted (C at every step)", "additive attention")
QUICK: dict[str, Any] = {
    "training": {
        "optimiser": {"learning_rate": 0.008, "warmup_steps": 100},
        "batch_size": 300,
        "max_epochs": 5,
        "validate_every": 1,
    },
    "evaluation": {"bands": [4, 6, 8, SHORT]},
}
QUICK_NOTE = (
    f"This is the quick demo: two of the four arms, one seed, {QUICK['training']['max_epochs']} epochs on sentences of "
    f"at most {SHORT} words. It shows which arm learns faster. It shows neither the effect of sentence length nor the "
    "final quality of the arms; `seq2seq-attn demo`, which trains longer on sentences of up to 50 words, shows both."
)


def demo(
    folder: Path,
    quick: bool = False,
    *,
    if_exists: IfDone = "resume",
    jobs: int = 1,
    command: str = "seq2seq-attn demo",
    say: Say = lambda _: None,
    bar: bool | None = True,
) -> Results:
    """Trains and compares the arms of `demo.yaml`, or two of them briefly; writes everything into `folder`.

    An interrupted demo continues where it stopped; a finished one recomputes its results from its runs. The other
    arguments are those of `compare`.
    """
    claim(folder, _demo(quick).name)  # before its corpus is written
    grid = demo_grid(folder, quick)
    return compare(grid, folder, if_exists=if_exists, jobs=jobs, command=command, say=say, bar=bar)


def demo_grid(folder: Path, quick: bool = False) -> RunGrid:
    """The runs of the demo; corpus files that are not in a checkout are generated in `folder`."""
    experiment = _demo(quick)
    if isinstance(experiment.base, Path):
        raise UserError("demo.yaml must contain its base configuration, not the path of one")
    values = merge(experiment.base, QUICK) if quick else experiment.base
    corpus = _short(_corpus(folder), folder) if quick else _corpus(folder)
    return make_grid(experiment, merge(values, {"data": _paths(values["data"], corpus)}))


def _demo(quick: bool) -> Experiment:
    with as_file(files(__package__) / "demo.yaml") as path:
        experiment = load(Experiment, path)
    if not quick:
        return experiment
    arms = {arm: experiment.arms[arm] for arm in QUICK_ARMS}
    return experiment.model_copy(update={"name": f"{experiment.name}-quick", "arms": arms, "note": QUICK_NOTE})


def _corpus(folder: Path) -> Path:
    """The folder of the embedded corpus: the one in the checkout, or the same files generated in `folder`."""
    committed = Path(__file__).resolve().parents[2] / "data" / CORPUS
    if committed.is_dir():
        return committed
    generated = folder / "data" / CORPUS
    return generated if (generated / "test.align").exists() else make_corpus(CORPUS, generated)


def _short(corpus: Path, folder: Path) -> Path:
    """A folder with the pairs of at most `SHORT` source words, in files with the same names as those of the corpus."""
    short = folder / "data" / f"{CORPUS}-short"
    for part in ("train", "validation", "test"):
        files = {path.name: read_lines(path) for path in sorted(corpus.glob(f"{part}.*"))}
        source = next(lines for name, lines in files.items() if name.startswith((f"{part}.en", f"{part}.source")))
        for name, lines in files.items():
            kept = [line for line, words in zip(lines, source, strict=True) if len(words.split()) <= SHORT]
            text = "".join(f"{line}\n" for line in kept).encode()
            write_bytes(short / name, gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
    return short


def _paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data section with all files in `folder`."""
    return {
        key: _paths(value, folder) if isinstance(value, dict) else str(folder / Path(value).name)
        for key, value in values.items()
    }
