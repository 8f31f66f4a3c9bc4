"""Results of an experiment from its complete runs: over the seeds of each arm, and between arms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from seq2seq_attn.analysis.scoring import ScoredRun
from seq2seq_attn.comparison.arms import Arm, differences, signatures
from seq2seq_attn.comparison.breakdowns import where_arms_differ
from seq2seq_attn.comparison.experiment import RunGrid
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Links, alignment_error_rate, trivial_error_rates
from seq2seq_attn.evaluation.corpus_scores import lc_norm_tok
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.groups import Band, group_score, length_quantiles
from seq2seq_attn.evaluation.metrics import METRICS, score_value
from seq2seq_attn.evaluation.resampling import Interval, score_interval
from seq2seq_attn.evaluation.significance import RunScores, joint_interval, t_interval
from seq2seq_attn.results.observations import Curve
from seq2seq_attn.results.results import ENOUGH, SCORE_FIELDS, ArmResult, BandResult, MissingRun, Results, Spread, Tuned
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.corpora import TestSet, read_pairs
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.json_files import explained_record


@contextmanager
def _explaining_misfits() -> Iterator[None]:
    """UserError where the results of runs do not fit together, as if one was edited or scored with other options."""
    try:
        yield
    except ValidationError as error:
        raise UserError(
            f"the runs were not scored alike: {explained_record(error)}; evaluate them again, with one evaluation.bands"
        ) from None


@_explaining_misfits()
def collect(
    grid: RunGrid,
    tested: Mapping[str, Sequence[ScoredRun]],
    test_set: TestSet,
    curves: Mapping[str, Sequence[Curve]],
    say: Say = lambda _: None,
    *,
    aligners: Mapping[str, Sequence[Links]] | None = None,
    tuned: Mapping[str, Tuned] | None = None,
    missing: Sequence[MissingRun] = (),
) -> Results:
    """The results of a grid, from the tested runs and the learning curves of each arm, one per seed.

    `aligners` has links of the test pairs by aligners other than the arms, whose error rates are reported too;
    `tuned`, the settings that were found for arms; `missing`, the runs that failed. An arm without any run has no part
    in comparisons and contrasts.
    """
    arms = {name: Arm.of(group, tested[name], test_set) for name, group in grid.arms()}
    baseline = grid.experiment.baseline
    contrasts = [pair for pair in grid.experiment.contrasts if set(pair) <= arms.keys()]
    with_baseline = [(name, baseline) for name in arms if name != baseline and baseline in arms]
    compared = differences(arms, [*with_baseline, *contrasts])
    scored = signatures(arms)
    provenance = [each["made_with"] for arm in arms.values() for each in arm.metrics]
    return Results(
        experiment=grid.experiment.name,
        note=grid.experiment.note,
        arms=[_row(name, arm, curves[name], test_set) for name, arm in arms.items()],
        comparisons=compared.comparisons[: len(with_baseline)],
        contrasts=compared.comparisons[len(with_baseline) :],
        signature="; lowercased tokenized: ".join(scored[key] for key in ("bleu", "bleu_lc_tok") if key in scored),
        version=_distinct(provenance, "version"),
        commit=_distinct(provenance, "commit"),
        hardware=_distinct(provenance, "hardware"),
        signatures=scored | compared.signatures,
        aer_rivals=_aer_rivals(test_set, aligners or {}),
        tuned=tuned or {},
        tuned_for_others=(grid.experiment.tune.others or "") if grid.experiment.tune else "",
        missing=missing,
        where=where_arms_differ(arms, test_set, grid.runs[0].config, training_text(grid, say)),
    )


def _aer_rivals(test_set: TestSet, aligners: Mapping[str, Sequence[Links]]) -> dict[str, float]:
    """The AER that an arm has to beat; empty without gold links."""
    gold, pairs = test_set.gold, test_set.pairs
    if gold is None:
        return {}
    others = {name: alignment_error_rate(links, gold.sure, gold.possible) for name, links in aligners.items()}
    return trivial_error_rates(gold, pairs.source, pairs.target) | others


def training_text(grid: RunGrid, say: Say) -> ParallelCorpus | None:
    """The training text of all runs, for word frequencies; None, with a message, if it is not available."""
    first, *others = (run.config.data.train for run in grid.runs)
    if any(other != first for other in others):
        say("no breakdown by word frequency: the runs differ in data.train")
        return None
    try:
        return read_pairs(first)
    except UserError as error:
        say(f"no breakdown by word frequency: {error}")
        return None


def _row(name: str, arm: Arm, curves: Sequence[Curve], test_set: TestSet) -> ArmResult:
    """A row of the table."""
    first = arm.runs[0]
    timings = [each["training"] for each in arm.metrics]
    hardware = [each["made_with"]["hardware"] for each in arm.metrics]
    timed = [each for each, machine in zip(timings, hardware, strict=True) if machine == hardware[0]]
    scores = _scores(arm, test_set)
    return ArmResult(
        name=name,
        unconverged=[
            curve.seed
            for curve, training in zip(curves, timings, strict=True)
            if curve.still_improving and training["stopped"] != "patience"
        ],
        parameters=arm.metrics[0]["parameters"],
        seeds=[run.seed for run in arm.runs],
        bleu_by_length=_bands(arm, test_set.pairs.source),
        train_seconds=float(np.mean([training["seconds"] for training in timed])),
        tokens_per_second=float(np.mean([training["tokens_per_second"] for training in timed])),
        matched_hidden_size=first.config.model.decoder_size if first.match_parameters else None,
        further={key: score for key, score in scores.items() if key not in SCORE_FIELDS and score is not None},
        **{key: scores.get(key) for key in SCORE_FIELDS},  # type: ignore[arg-type]  # only optional scores are None
    )


def _scores(arm: Arm, test_set: TestSet) -> dict[str, Spread | None]:
    """Each metric over the seeds of an arm; None unless all runs of the arm have it."""
    intervals = _intervals(arm, test_set)
    scores: dict[str, Spread | None] = {}
    for key in METRICS:
        values = [score_value(test, key) for test in arm.tests]
        known = [value for value in values if value is not None]
        scores[key] = _spread(known, intervals.get(key)) if len(known) == len(values) else None
    for key, counts in (("bleu", arm.bleu), ("chrf", arm.chrf)):
        score = scores[key]
        if score is not None and counts.sources >= ENOUGH and (runs := RunScores.of(counts)).differ:
            low, high = joint_interval(runs) or (None, None)
            scores[key] = replace(score, joint_low=low, joint_high=high)
    return scores


def _spread(values: Sequence[float], interval: Interval | None) -> Spread:
    """Mean, standard deviation (n - 1 in the denominator; 0 with one seed) and the interval over seeds."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    seeds_low, seeds_high = t_interval(values) or (None, None)
    return Spread(float(np.mean(values)), std, low, high, seeds_low, seeds_high)


def _intervals(arm: Arm, test_set: TestSet) -> dict[str, Interval]:
    """Intervals over resampled test sets, for the metrics whose counts can be resampled."""
    intervals = {"bleu": score_interval(arm.bleu), "chrf": score_interval(arm.chrf)}
    if test_set.lc_tok is not None:
        language = arm.runs[0].config.text.target_language
        processed = [[lc_norm_tok(line, language) for line in run] for run in arm.translations]
        counts = BleuCounts.of(processed, test_set.lc_tok, "none", lowercase=True, sources=test_set.pairs.source)
        intervals["bleu_lc_tok"] = score_interval(counts)
    return intervals


def _bands(arm: Arm, sources: Sequence[str]) -> list[BandResult]:
    """Scores by length band, or by length quantile if fewer than two of the tested bands have `ENOUGH` sources."""
    lengths = [len(line.split()) for line in sources]
    different = [len(line.split()) for line in dict.fromkeys(sources)]
    longest = max(run.config.data.longest_training for run in arm.runs)  # in tokens, hence at most as many words
    tested = [Band(band["low"], band["high"]) for band in arm.tests[0]["bleu_by_length"]]
    if sum(sum(length in band for length in different) >= ENOUGH for band in tested) < 2:
        tested = length_quantiles(different, ENOUGH) or tested
    bands = []
    for band in tested:
        score = group_score([row for row, length in enumerate(lengths) if length in band], arm.bleu, arm.chrf)
        bands.append(BandResult(band.low, band.high, *score, longer_than_training=band.low > longest))
    return bands


def _distinct(runs: Iterable[dict[str, Any]], key: str) -> str:
    """The distinct values of a key over all runs; a run that was continued may have several."""
    values = [str(each[key]) for each in runs]
    if key != "hardware":  # whose descriptions contain semicolons
        values = [value for joined in values for value in joined.split("; ")]
    return "; ".join(dict.fromkeys(values))
