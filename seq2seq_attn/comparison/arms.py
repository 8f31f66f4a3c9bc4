"""The arms of a comparison: the tested runs of each, and the differences from the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import scipy

from seq2seq_attn.analysis.scoring import TRANSLATIONS, AttentionRecord, skipped_metrics
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.evaluation.counts import BleuCounts, ChrfCounts
from seq2seq_attn.evaluation.metrics import METRICS, TranslatedTest, score_translations
from seq2seq_attn.evaluation.resampling import approximate_randomisation, paired_bootstrap
from seq2seq_attn.evaluation.significance import SeedsResult, detectable_difference, holm, welch
from seq2seq_attn.results.results import AcrossSeeds, PairedComparison, Significance
from seq2seq_attn.runs.corpora import TestSet
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.text.files import read_lines


class Arm(NamedTuple):
    """The tested runs of an arm; all lists have one entry per run, that is, per seed."""

    runs: list[ArmRun]
    translations: list[list[str]]
    metrics: list[dict[str, Any]]
    attention: list[AttentionRecord]  # empty unless every run has one
    bleu: BleuCounts
    chrf: ChrfCounts

    @property
    def tests(self) -> list[dict[str, Any]]:
        return [each["test"] for each in self.metrics]

    @classmethod
    def load(cls, runs: list[ArmRun], folder: Path, test_set: TestSet) -> Arm:
        """Reads the run folders, which are below `folder`.

        Translation metrics that a run lacks because it was tested with an earlier version are computed here.
        """
        references = test_set.pairs.target
        folders = [folder / run.folder for run in runs]
        translations = [read_lines(each / TRANSLATIONS) for each in folders]
        metrics = [read_metrics(each) for each in folders]
        attention = [found for each in folders if (found := AttentionRecord.load(each, len(references))) is not None]
        options, language = runs[0].config.evaluation, runs[0].config.text.target_language
        for each, lines in zip(metrics, translations, strict=True):
            test = TranslatedTest(lines, references, options.tokenize, test_set.lc_tok, language)
            each["test"] |= score_translations(test, skip=(*each["test"], *skipped_metrics(options)))
        return cls(
            runs,
            translations,
            metrics,
            attention if len(attention) == len(runs) else [],
            BleuCounts.of(translations, references, options.tokenize),
            ChrfCounts.of(translations, references),
        )


def signatures(arms: Mapping[str, Arm]) -> dict[str, str]:
    """The signature of each metric that any run has; several if the runs differ."""
    found: dict[str, list[str]] = {}
    for metric in METRICS.values():
        for arm in arms.values():
            for run, test in zip(arm.runs, arm.tests, strict=True):
                if isinstance(test.get(metric.key), dict):
                    found.setdefault(metric.key, []).append(test[metric.key]["signature"])
                elif metric.signature and test.get(metric.key) is not None:
                    signature = metric.signature.format(tokeniser=run.config.text.tokeniser)
                    found.setdefault(metric.key, []).append(signature)
    return {key: "; ".join(dict.fromkeys(each)) for key, each in found.items()}


class Differences(NamedTuple):
    """The comparisons of a table, and the signature of each test."""

    comparisons: list[PairedComparison]
    signatures: dict[str, str]


def differences(arms: Mapping[str, BleuCounts], baseline: str) -> Differences:
    """Compare every other arm with the baseline, in their order.

    Bootstrap and randomisation generalise to other test sentences and pool the runs of an arm; the test over seeds
    generalises to other seeds. Each is performed once per arm, so its p-values are corrected over the arms.
    """
    others = [arm for arm in arms if arm != baseline]
    if not others:
        return Differences([], {})
    bootstraps = [paired_bootstrap(arms[arm], arms[baseline]) for arm in others]
    randomisations = [approximate_randomisation(arms[arm], arms[baseline]) for arm in others]
    seed_tests = [welch(arms[arm].bleu().tolist(), arms[baseline].bleu().tolist()) for arm in others]
    rows = zip(
        others,
        bootstraps,
        holm([pair.p_value for pair in bootstraps]),
        randomisations,
        holm([pair.p_value for pair in randomisations]),
        _across_seeds(seed_tests),
        strict=True,
    )
    comparisons = [
        PairedComparison(
            arm,
            baseline,
            pair.difference,
            pair.low,
            pair.high,
            pair.p_value,
            p_holm=p_holm,
            detectable=detectable_difference(pair.standard_error),
            randomisation=Significance(randomisation.p_value, randomised_p_holm),
            seeds=seeds,
        )
        for arm, pair, p_holm, randomisation, randomised_p_holm, seeds in rows
    ]
    signatures = {"paired_bootstrap": bootstraps[0].signature, "randomisation": randomisations[0].signature}
    if any(seed_tests):
        signatures["seeds"] = f"test:welch|version:scipy-{scipy.__version__}"
    return Differences(comparisons, signatures)


def _across_seeds(tests: list[SeedsResult | None]) -> Iterator[AcrossSeeds | None]:
    """One result per arm; p-values are corrected over the arms that have a test."""
    corrected = iter(holm([test.p_value for test in tests if test is not None]))
    for test in tests:
        if test is None:
            yield None
        else:
            detectable = detectable_difference(test.standard_error, test.degrees_of_freedom)
            yield AcrossSeeds(test.p_value, next(corrected), test.low, test.high, test.degrees_of_freedom, detectable)
