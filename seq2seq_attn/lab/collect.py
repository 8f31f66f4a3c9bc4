"""The numbers of complete runs, put together: over the seeds of an arm, and between the arms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq_attn.evaluation.bootstrap import bleu_interval
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.lc_norm_tok import lc_norm_tok
from seq2seq_attn.evaluation.length import Band
from seq2seq_attn.evaluation.seeds import t_interval
from seq2seq_attn.lab.corpora import TestSet
from seq2seq_attn.lab.differences import differences
from seq2seq_attn.lab.evaluate import TRANSLATIONS
from seq2seq_attn.lab.experiment import ArmRun, Grid
from seq2seq_attn.lab.run import read_metrics
from seq2seq_attn.lab.scores import score_exact_match
from seq2seq_attn.report.results import ArmResult, BandResult, Results, Spread
from seq2seq_attn.text.files import read_lines


class Arm(NamedTuple):
    """The runs of an arm, one a seed, and what each has left in its folder."""

    runs: list[ArmRun]
    translations: list[list[str]]
    metrics: list[dict[str, Any]]

    @property
    def tests(self) -> list[dict[str, Any]]:
        return [each["test"] for each in self.metrics]


def collect(grid: Grid, runs: Path, test_set: TestSet) -> Results:
    """The results of a grid whose runs are all trained and tested."""
    references, tokenize = test_set.pairs.target, grid.runs[0].config.evaluation.tokenize
    arms = {name: _read(group, runs, references) for name, group in grid.arms()}
    counts = {name: BleuCounts.of(arm.translations, references, tokenize) for name, arm in arms.items()}
    compared = differences(counts, grid.experiment.baseline)
    signatures = _signatures(arms.values())
    made_with = [each["made_with"] for arm in arms.values() for each in arm.metrics]
    return Results(
        experiment=grid.experiment.name,
        arms=[_row(name, arm, counts[name], test_set) for name, arm in arms.items()],
        comparisons=compared.comparisons,
        signature="; lowercased tokenised: ".join(signatures[k] for k in ("bleu", "bleu_lc_tok") if k in signatures),
        version=_all_of(made_with, "version"),
        commit=_all_of(made_with, "commit"),
        hardware=_all_of(made_with, "hardware"),
        signatures=signatures | compared.signatures,
    )


def _read(group: list[ArmRun], runs: Path, references: Sequence[str]) -> Arm:
    folders = [runs / run.folder for run in group]
    arm = Arm(
        group, [read_lines(folder / TRANSLATIONS) for folder in folders], [read_metrics(folder) for folder in folders]
    )
    for test, translations in zip(arm.tests, arm.translations, strict=True):
        # Counted here, as runs that were tested before it was measured do not have it.
        test["exact_match"] = score_exact_match(translations, references)
    return arm


def _row(name: str, arm: Arm, counts: BleuCounts, test_set: TestSet) -> ArmResult:
    """A row of the table."""
    first, tests = arm.runs[0], arm.tests
    trainings = [each["training"] for each in arm.metrics]
    interval = bleu_interval(counts)
    return ArmResult(
        name=name,
        parameters=arm.metrics[0]["parameters"],
        seeds=[run.seed for run in arm.runs],
        bleu=_spread([test["bleu"]["value"] for test in tests], interval.low, interval.high),
        bleu_lc_tok=_lc_tok(arm, test_set.lc_tok),
        chrf=_spread([test["chrf"]["value"] for test in tests]),
        ter=_where_known(tests, "ter"),
        bleu_by_length=_bands([test["bleu_by_length"] for test in tests], counts, test_set.pairs.source),
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


def _bands(runs: list[list[dict[str, Any]]], counts: BleuCounts, sources: Sequence[str]) -> list[BandResult]:
    """BLEU of each length band, averaged over seeds, and its interval."""
    lengths = [len(line.split()) for line in sources]
    bands = []
    for first, *others in zip(*runs, strict=True):
        band = Band(first["low"], first["high"])
        interval = bleu_interval(counts.of_sentences([row for row, length in enumerate(lengths) if length in band]))
        bleu = float(np.mean([run["bleu"] for run in (first, *others)]))
        bands.append(BandResult(band.low, band.high, first["sentences"], bleu, interval.low, interval.high))
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
