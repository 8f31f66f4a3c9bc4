"""Results of an experiment from its complete runs: over the seeds of each arm, and between arms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from pydantic import ValidationError

from seq2seq_attn.comparison.arms import Arm, Scoring, differences, signatures
from seq2seq_attn.comparison.breakdowns import by_length, where_arms_differ
from seq2seq_attn.comparison.experiment import RunGrid
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import alignment_error_rate, parse_links, trivial_error_rates
from seq2seq_attn.evaluation.counts import CorpusCounts
from seq2seq_attn.evaluation.groups import length_bands
from seq2seq_attn.evaluation.metrics import METRICS, Metric, score_value
from seq2seq_attn.evaluation.resampling import score_interval
from seq2seq_attn.evaluation.significance import RunScores, joint_interval, t_interval
from seq2seq_attn.files.json_files import explained_record
from seq2seq_attn.results.breakdowns import ENOUGH
from seq2seq_attn.results.evidence import Evidence
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results, Spread
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import TestSet, read_pairs


@contextmanager
def explaining_misfits() -> Iterator[None]:
    """UserError where the results of runs do not fit together, as if one was edited."""
    try:
        yield
    except ValidationError as error:
        raise UserError(f"the runs were not scored alike: {explained_record(error)}; evaluate them again") from None


@explaining_misfits()
def collect(
    grid: RunGrid, evidence: Evidence, test_set: TestSet, scoring: Scoring, say: Say = lambda _: None
) -> Results:
    """The results of a grid, from the evidence of its runs.

    An arm without any run has no part in comparisons and contrasts. UserError: the runs were not scored alike.
    """
    config = grid.runs[0].config
    arms = {
        arm.name: Arm.of(group, arm.runs, scoring) for (_, group), arm in zip(grid.arms(), evidence.arms, strict=True)
    }
    baseline = grid.experiment.baseline
    contrasts = [pair for pair in grid.experiment.contrasts if set(pair) <= arms.keys()]
    with_baseline = [(name, baseline) for name in arms if name != baseline and baseline in arms]
    compared = differences(arms, [*with_baseline, *contrasts])
    scored = signatures(arms)
    provenance = [run.metrics["made_with"] for arm in arms.values() for run in arm.tested]
    rows = [_row(name, arm, scoring.main) for name, arm in arms.items()]
    different, tune = len(set(test_set.pairs.source)), grid.experiment.tune
    return Results(
        experiment=grid.experiment.name,
        metrics=[_record(each, scoring) for each in _measured(rows, scoring)],
        sentences=len(test_set.pairs),
        sources=different if different < len(test_set.pairs) else None,
        note=grid.experiment.note,
        arms=rows,
        comparisons=compared.comparisons[: len(with_baseline)],
        contrasts=compared.comparisons[len(with_baseline) :],
        by_length=by_length(arms, test_set, length_bands(config.evaluation.bands), config.source_unit),
        unit=config.source_unit,
        version=_distinct(provenance, "version"),
        commit=_distinct(provenance, "commit"),
        hardware=_distinct(provenance, "hardware"),
        signatures=scored | compared.signatures,
        aer_rivals=_aer_rivals(test_set, evidence.aligners),
        tuned=evidence.tuned,
        tuned_for_others=(tune.others or "") if tune else "",
        tuned_by=tune.sampler.title if tune else "",
        missing=evidence.missing,
        where=where_arms_differ(arms, test_set, config, scoring.main, training_text(grid, say)),
    )


def _measured(rows: Sequence[ArmResult], scoring: Scoring) -> list[Metric]:
    """The metrics that any arm has, those of the configuration first."""
    keys = dict.fromkeys([*(each.key for each in scoring.metrics), *METRICS])
    return [METRICS[key] for key in keys if any(key in row.scores for row in rows)]


def _record(metric: Metric, scoring: Scoring) -> MetricRecord:
    counting = scoring.countings.get(metric.key)
    return MetricRecord(
        metric.key,
        metric.label,
        metric.digits,
        metric.direction,
        (counting and counting.meaning) or metric.meaning,
        metric.floor,
        metric.is_prominent,
    )


def _aer_rivals(test_set: TestSet, aligners: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The AER that an arm has to beat: of trivial alignments and of other aligners; empty without gold links."""
    gold = test_set.gold
    if gold is None:
        return {}
    others = {name: [parse_links(line).sure for line in lines] for name, lines in aligners.items()}
    return trivial_error_rates(gold, test_set.source_lengths, test_set.pairs.target) | {
        name: alignment_error_rate(links, *gold) for name, links in others.items()
    }


def training_text(grid: RunGrid, say: Say) -> ParallelCorpus | None:
    """The training text of all runs, for word frequencies; None, with a message, if they have different ones."""
    first, *others = (run.config.data.train for run in grid.runs)
    if any(other != first for other in others):
        say("no breakdown by word frequency: the runs differ in data.train")
        return None
    return read_pairs(first)


def _row(name: str, arm: Arm, main: Metric) -> ArmResult:
    """A row of the table."""
    first = arm.runs[0]
    timings = [each.metrics["training"] for each in arm.tested]
    hardware = [each.metrics["made_with"]["hardware"] for each in arm.tested]
    timed = [each for each, machine in zip(timings, hardware, strict=True) if machine == hardware[0]]
    return ArmResult(
        name=name,
        unconverged=[
            run.seed
            for run in arm.tested
            if run.curve.is_still_improving(main.sign, main.gain) and run.metrics["training"]["stopped"] != "patience"
        ],
        parameters=arm.tested[0].metrics["parameters"],
        seeds=[run.seed for run in arm.runs],
        scores=_scores(arm),
        train_seconds=float(np.mean([training["seconds"] for training in timed])),
        tokens_per_second=float(np.mean([training["tokens_per_second"] for training in timed])),
        matched_hidden_size=first.config.model.decoder_size if first.match_parameters else None,
    )


def _scores(arm: Arm) -> dict[str, Spread]:
    """Each metric that all runs of an arm have, over its seeds."""
    scores = {}
    for key in dict.fromkeys([*arm.counts, *METRICS]):
        values = [score_value(test, key) for test in arm.tests]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            scores[key] = _spread(known, arm.counts.get(key))
    return scores


def _spread(values: Sequence[float], counts: CorpusCounts | None) -> Spread:
    """Mean, standard deviation (n - 1 in the denominator; 0 with one seed) and intervals.

    Those over resampled test sets need a metric that counts; that over training runs as well needs enough sentences.
    """
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    sentences, seeds, joint = None if counts is None else score_interval(counts), t_interval(values), None
    if counts is not None and counts.sources >= ENOUGH and (runs := RunScores.of(counts)).differ:
        joint = joint_interval(runs)
    ends = [end for interval in (sentences, seeds, joint) for end in interval or (None, None)]
    return Spread(float(np.mean(values)), std, *ends)


def _distinct(runs: Iterable[dict[str, Any]], key: str) -> str:
    """The distinct values of a key over all runs; a run that was continued may have several."""
    values = [str(each[key]) for each in runs]
    if key != "hardware":  # whose descriptions contain semicolons
        values = [value for joined in values for value in joined.split("; ")]
    return "; ".join(dict.fromkeys(values))
