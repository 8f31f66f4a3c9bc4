"""The numbers of complete runs, put together: over the seeds of an arm, and between the arms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_attn.comparison.arm import Arm
from seq2seq_attn.comparison.differences import differences
from seq2seq_attn.comparison.experiment import Grid
from seq2seq_attn.comparison.where import where_arms_differ
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.bootstrap import bleu_interval
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.groups import group_score
from seq2seq_attn.evaluation.lc_norm_tok import lc_norm_tok
from seq2seq_attn.evaluation.length import Band
from seq2seq_attn.evaluation.seeds import t_interval
from seq2seq_attn.results.results import ArmResult, BandResult, Results, Spread
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.data import TestSet, read_pairs
from seq2seq_attn.text.corpus import ParallelCorpus


def collect(grid: Grid, runs: Path, test_set: TestSet, say: Say = lambda _: None) -> Results:
    """The results of a grid whose runs are all trained and tested."""
    arms = {name: Arm.load(group, runs, test_set.pairs.target) for name, group in grid.arms()}
    compared = differences({name: arm.bleu for name, arm in arms.items()}, grid.experiment.baseline)
    signatures = _signatures(arms.values())
    made_with = [each["made_with"] for arm in arms.values() for each in arm.metrics]
    return Results(
        experiment=grid.experiment.name,
        arms=[_row(name, arm, test_set) for name, arm in arms.items()],
        comparisons=compared.comparisons,
        signature="; lowercased tokenised: ".join(signatures[k] for k in ("bleu", "bleu_lc_tok") if k in signatures),
        version=_all_of(made_with, "version"),
        commit=_all_of(made_with, "commit"),
        hardware=_all_of(made_with, "hardware"),
        signatures=signatures | compared.signatures,
        where=where_arms_differ(arms, test_set, grid.runs[0].config, training_text(grid, say)),
    )


def training_text(grid: Grid, say: Say) -> ParallelCorpus | None:
    """What all runs were trained on, to tell its rare words; None, and a word about it, where it cannot be had."""
    first, *others = (run.config.data.train for run in grid.runs)
    if any(other != first for other in others):
        say("no scores by the frequency of words: not all runs have the same data.train")
        return None
    try:
        return read_pairs(first)
    except UserError as error:
        say(f"no scores by the frequency of words: {error}")
        return None


def _row(name: str, arm: Arm, test_set: TestSet) -> ArmResult:
    """A row of the table."""
    first, tests = arm.runs[0], arm.tests
    trainings = [each["training"] for each in arm.metrics]
    interval = bleu_interval(arm.bleu)
    return ArmResult(
        name=name,
        parameters=arm.metrics[0]["parameters"],
        seeds=[run.seed for run in arm.runs],
        bleu=_spread([test["bleu"]["value"] for test in tests], interval.low, interval.high),
        bleu_lc_tok=_lc_tok(arm, test_set.lc_tok),
        chrf=_spread([test["chrf"]["value"] for test in tests]),
        ter=_where_known(tests, "ter"),
        bleu_by_length=_bands(arm, test_set.pairs.source),
        aer=_if_measured(tests, "aer"),
        train_seconds=float(np.mean([training["seconds"] for training in trainings])),
        perplexity=_if_measured(tests, "perplexity"),
        attention_entropy=_if_measured(tests, "attention_entropy"),
        tokens_per_second=float(np.mean([training["tokens_per_second"] for training in trainings])),
        matched_hidden_size=first.config.model.decoder.hidden_size if first.match_parameters else None,
        exact_match=_where_known(tests, "exact_match"),
    )


def _spread(values: Sequence[float], low: float | None = None, high: float | None = None) -> Spread:
    """Mean, standard deviation (n - 1 in the denominator; 0 with one seed) and interval over seeds."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    seeds_low, seeds_high = t_interval(values) or (None, None)
    return Spread(float(np.mean(values)), std, low, high, seeds_low, seeds_high)


def _lc_tok(arm: Arm, references: Sequence[str] | None) -> Spread | None:
    """The lowercased tokenised flavour, where the corpus has references for it."""
    if references is None:
        return None
    language = arm.runs[0].config.text.target_language
    processed = [[lc_norm_tok(line, language) for line in run] for run in arm.translations]
    interval = bleu_interval(BleuCounts.of(processed, references, tokenize="none", lowercase=True))
    return _spread([test["bleu_lc_tok"]["value"] for test in arm.tests], interval.low, interval.high)


def _where_known(tests: Sequence[dict[str, Any]], name: str) -> Spread | None:
    """A score that not every test set has, or not every configuration asks for."""
    values = [test[name]["value"] for test in tests if name in test]
    return _spread(values) if values else None


def _if_measured(tests: Sequence[dict[str, Any]], name: str) -> Spread | None:
    """A figure that only some models or test sets have."""
    values = [test[name] for test in tests if test.get(name) is not None]
    return _spread(values) if len(values) == len(tests) else None


def _bands(arm: Arm, sources: Sequence[str]) -> list[BandResult]:
    """The scores of each length band that the runs were tested by."""
    lengths = [len(line.split()) for line in sources]
    bands = []
    for tested in arm.tests[0]["bleu_by_length"]:
        band = Band(tested["low"], tested["high"])
        score = group_score([row for row, length in enumerate(lengths) if length in band], arm.bleu, arm.chrf)
        bands.append(BandResult(band.low, band.high, score.sentences, score.bleu, score.low, score.high, score.chrf))
    return bands


def _signatures(arms: Iterable[Arm]) -> dict[str, str]:
    """How each score was made."""
    scored = []
    for arm in arms:
        for run, test in zip(arm.runs, arm.tests, strict=True):
            scored.append({name: score["signature"] for name, score in test.items() if isinstance(score, dict)})
            if "perplexity" in test:  # that of a token, so it hangs on what a token is
                scored[-1]["perplexity"] = f"nrefs:1|tok:{run.config.text.tokeniser}|eos:yes|unit:token"
    return {name: _all_of(scored, name) for name in dict.fromkeys(name for each in scored for name in each)}


def _all_of(runs: Iterable[dict[str, Any]], key: str) -> str:
    """What the runs say of themselves; several values where they are not all alike."""
    return "; ".join(dict.fromkeys(str(each[key]) for each in runs if key in each))
