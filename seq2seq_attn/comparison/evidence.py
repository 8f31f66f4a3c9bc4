"""The evidence of a comparison: collected from its run folders, and turned into results again without them.

`report --recompute` checks published results this way, and `compare --evidence` adds arms or seeds to runs that were
trained before, perhaps on another machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_attn.analysis.scoring import TRANSLATIONS, AttentionRecord
from seq2seq_attn.comparison.arms import Scoring
from seq2seq_attn.comparison.collect import collect, explaining_misfits
from seq2seq_attn.comparison.experiment import ArmRun, Experiment, RunGrid, Tune
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import alignment_error_rate, format_links, parse_links
from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.files.checksums import checked
from seq2seq_attn.files.nested import leaves, mapped
from seq2seq_attn.files.reading import digest, read_lines
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.evidence import EVIDENCE, ArmEvidence, Evidence, RunEvidence
from seq2seq_attn.results.records import run_folder
from seq2seq_attn.results.reproduction import differing_keys
from seq2seq_attn.results.results import RESULTS, MissingRun, Results, Tuned
from seq2seq_attn.runs import folder as run_files
from seq2seq_attn.runs import messages
from seq2seq_attn.runs.corpora import TestSet, read_test, source_words
from seq2seq_attn.runs.plugin import class_files
from seq2seq_attn.runs.provenance import data_files, made_with
from seq2seq_attn.strict import ConfigError, parse
from seq2seq_attn.training import CURVES
from seq2seq_attn.training.progress import read_curve_rows

OWN_FIELDS = {"base", "arms", "seeds"}  # of an experiment, whose values are those of the arms here


def read_run(folder: Path, seed: int, pairs: int) -> RunEvidence:
    """What a finished run did with its test set of this many pairs; no model is loaded.

    UserError: a file is missing, malformed, or not as long as the test set.
    """
    metrics = run_files.read_metrics(folder)
    for key in ("training", "test"):
        if key not in metrics:
            raise UserError(f"{folder / run_files.METRICS}: nothing about {key}; train or evaluate the run again")
    attention = AttentionRecord.load(folder, pairs)
    with explaining_misfits():
        return RunEvidence(
            seed,
            portable(metrics | {"made_with": made_with(folder)}),
            read_curve(folder, seed),
            read_lines(checked(folder, TRANSLATIONS)),
            None if attention is None else [format_links(links) for links in attention.links],
            None if attention is None else attention.entropies,
        )


def read_curve(folder: Path, seed: int) -> Curve:
    """The validation results of a run by epoch."""
    log = checked(folder, CURVES)
    try:
        rows = read_curve_rows(log)
    except (OSError, ValueError) as error:
        raise UserError(f"{log}: not the log of a training ({error}); restore it, or train the run again") from None
    validations = [  # those that can be drawn
        (row.epoch, row.validation_loss, row.validation_score)
        for row in rows
        if row.validation_loss is not None and math.isfinite(row.validation_loss + (row.validation_score or 0.0))
    ]
    return Curve(
        seed,
        tuple(epoch for epoch, _, _ in validations),
        tuple(loss for _, loss, _ in validations),
        tuple(score for _, _, score in validations),
    )


@explaining_misfits()
def gather(
    grid: RunGrid,
    tested: Mapping[str, Sequence[RunEvidence]],
    aligners: Mapping[str, Sequence[str]],
    tuned: Mapping[str, Tuned],
    missing: Sequence[MissingRun] = (),
) -> Evidence:
    """The evidence of a grid. Paths below the working directory become relative to it, for any checkout."""
    files = dict.fromkeys(path for run in grid.runs for path in _files(run.config))
    return Evidence(
        grid.experiment.model_dump(mode="json", exclude=OWN_FIELDS),
        [
            ArmEvidence(arm, configuration(group[0].config), group[0].match_parameters, tested[arm])
            for arm, group in grid.arms()
        ],
        {portable(str(path)): digest(path) for path in files},
        tuned,
        aligners,
        missing,
    )


def configuration(config: Config) -> dict[str, Any]:
    """The configuration as plain values, with all paths below the working directory relative to it."""
    values: dict[str, Any] = portable(config.model_dump(mode="json"))
    return values


def portable(value: Any) -> Any:
    """The value with all paths below the working directory relative to it."""
    here = f"{Path.cwd()}{os.sep}"
    return mapped(value, lambda _, each: each.removeprefix(here) if isinstance(each, str) else each)


def _files(config: Config) -> list[Path]:
    """The files that a training run depends on."""
    return [*data_files(config).values(), *class_files(config)]


def reusable(evidence: Evidence, path: Path, grid: RunGrid) -> dict[tuple[str, int], RunEvidence]:
    """The runs of the grid that are in the evidence of the file `path`, by arm and seed.

    UserError: the evidence is of another test set,
    an arm had another configuration, or a file that a run read is missing or another one.
    """
    for name, checksum in evidence.data.items():
        refuse_other_data(Path(name), checksum)
    with _naming(path):
        trained_with = {arm.name: _config(arm) for arm in evidence.arms}
    first = trained_with[evidence.arms[0].name], grid.runs[0].config
    before, now = (each.data.test for each in first)
    if before is None or before != now:
        named = before.name if before else "none"
        raise UserError(f"{path}: is of another test set, {named}; compare without --evidence")
    known = {arm.name: arm for arm in evidence.arms}
    found: dict[tuple[str, int], RunEvidence] = {}
    for run in grid.runs:
        if run.arm in known:
            trained = trained_with[run.arm].model_copy(update={"seed": run.seed})
            both = [configuration(each) for each in (trained, run.config)]
            for key, (old, new) in differing_keys(both).items():
                raise UserError(
                    f"{path}: arm {run.arm!r} was trained with {key}={old}, not {new}; "
                    "compare without --evidence, or rename the arm"
                )
            found |= {(run.arm, each.seed): each for each in known[run.arm].runs if each.seed == run.seed}
    return found


def _config(arm: ArmEvidence, seed: int = 1) -> Config:
    return parse(Config, {**arm.configuration, "seed": seed})


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Blames a mistake in a configuration on the file of evidence that holds it."""
    try:
        yield
    except ConfigError as error:
        raise UserError(f"{path}: {error}") from None


def known_settings(evidence: Evidence, path: Path, tune: Tune | None) -> dict[str, Tuned]:
    """The settings that were found for the tuned arms.

    UserError: the file `path` has none for one of them, or they were found among other values or in other trials.
    """
    if tune is None:
        return {}
    for arm in tune.arms:
        if arm not in evidence.tuned:
            raise UserError(f"{path}: arm {arm!r} was not tuned; compare without --evidence, or leave it out of tune")
    with _naming(path):
        before = parse(Tune, evidence.experiment.get("tune") or {}).model_dump(mode="json")
    now = tune.model_dump(mode="json")
    for key in ("values", "sampler", "trial"):
        if before[key] != now[key]:
            raise UserError(
                f"{path}: was tuned with tune.{key}={before[key]}, not {now[key]}; compare without --evidence"
            )
    return {arm: found for arm, found in evidence.tuned.items() if arm in tune.arms}


class Recomputed(NamedTuple):
    """Results recomputed from evidence, and where they differ from those that were stored."""

    results: Results
    differences: list[str]  # one line per value
    values: int  # how many were compared


def recompute(folder: Path) -> Recomputed:
    """Recomputes the results in a folder from the evidence beside them, and compares the two.

    Scores are those of the translations and the links. What needs the model is as the runs recorded it: COMET, the
    perplexity and the entropy of the attention weights; so are parameters, times, curves and provenance.

    UserError: the evidence is missing or malformed, or a corpus is missing or is not the one of the evidence.
    """
    evidence = Evidence.load(folder / EVIDENCE)
    with _naming(folder / EVIDENCE):
        grid = _grid(evidence)
    corpora = {
        str(path) for run in grid.runs for key, path in data_files(run.config).items() if key.startswith("data.")
    }
    for name, checksum in evidence.data.items():
        if name in corpora:  # the other files were only needed for training
            refuse_other_data(Path(name), checksum)
    files = grid.runs[0].config.data.test
    if files is None:
        raise UserError(f"{folder / EVIDENCE}: the configuration has no data.test")
    test = read_test(files, source_words(grid.runs[0].config))
    again = [replace(arm, runs=[_to_score_again(run, test) for run in arm.runs]) for arm in evidence.arms]
    scoring = Scoring.of(grid.runs[0].config, test)
    results = collect(grid, replace(evidence, arms=again), test, scoring, messages(silent=True))
    stored, found = (dict(leaves(each.values())) for each in (Results.load(folder / RESULTS), results))
    differences = [
        f"{key}: {stored.get(key, 'nothing')} stored, {found.get(key, 'nothing')} recomputed"
        for key in dict.fromkeys([*stored, *found])
        if not _equal(stored.get(key), found.get(key))
    ]
    return Recomputed(results, differences, len(stored))


def _to_score_again(run: RunEvidence, test_set: TestSet) -> RunEvidence:
    """The run without the scores of its translations, which `collect` computes where they are missing, and with the AER
    of its links."""
    scores = {
        key: score
        for key, score in run.metrics["test"].items()
        if key not in METRICS or not METRICS[key].is_of_translations or METRICS[key].needs == "comet"
    }
    if test_set.gold is not None and run.links is not None:
        scores["aer"] = alignment_error_rate([parse_links(line).sure for line in run.links], *test_set.gold)
    return replace(run, metrics={**run.metrics, "test": scores})


def refuse_other_data(path: Path, checksum: str) -> None:
    if not path.exists():
        raise UserError(
            f"{path}: no such file; the results were computed from it; put it there (`seq2seq-attn data list` names "
            "the corpora that can be downloaded), and run the command in the folder that the path is relative to"
        )
    if (found := digest(path)) != checksum:
        raise UserError(f"{path}: not the file that the results were computed from (SHA-256 {found}, not {checksum})")


def _grid(evidence: Evidence) -> RunGrid:
    first = evidence.arms[0]
    fields = {
        **evidence.experiment,
        "base": dict(first.configuration),
        "arms": {arm: {} for arm in [*(arm.name for arm in evidence.arms), *_named(evidence)]},
        "seeds": sorted({run.seed for arm in evidence.arms for run in arm.runs}),
    }
    runs = [
        ArmRun(arm.name, run.seed, _config(arm, run.seed), run_folder(arm.name, run.seed), arm.match_parameters)
        for arm in evidence.arms
        for run in arm.runs
    ]
    return RunGrid(parse(Experiment, fields), runs)


def _named(evidence: Evidence) -> list[str]:
    """The arms that the experiment names, which may be without any run."""
    tune = evidence.experiment.get("tune") or {}
    contrasts = evidence.experiment.get("contrasts") or ()
    return [evidence.experiment["baseline"], *(arm for pair in contrasts for arm in pair), *tune.get("arms", ())]


def _equal(stored: Any, found: Any) -> bool:
    """Equal, or equal but for the order in which floating-point numbers were added."""
    if isinstance(stored, float) and isinstance(found, (int, float)):
        return abs(stored - found) <= 1e-6 * max(1.0, abs(stored))
    return bool(stored == found)
