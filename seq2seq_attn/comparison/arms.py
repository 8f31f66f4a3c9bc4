"""The arms of a comparison: the tested runs of each, and the differences from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seq2seq_attn import __version__
from seq2seq_attn.analysis.scoring import AttentionRecord, ScoredRun, skipped_metrics
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.evaluation.counts import BleuCounts, ChrfCounts, CorpusCounts
from seq2seq_attn.evaluation.metrics import METRICS, TranslatedTest, score_translations
from seq2seq_attn.evaluation.resampling import approximate_randomization, paired_bootstrap
from seq2seq_attn.evaluation.significance import RunScores, detectable_difference, holm, joint_test
from seq2seq_attn.results.results import ENOUGH, ChrfDifference, JointTest, PairedComparison, Significance
from seq2seq_attn.runs.corpora import TestSet


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
    def of(cls, runs: list[ArmRun], tested: Sequence[ScoredRun], test_set: TestSet) -> Arm:
        """From the tested runs, in the order of `runs`.

        Translation metrics that a run lacks, because they are slow or were registered later, are computed here.
        """
        sources, references = test_set.pairs.source, test_set.references
        translations = [each.translations for each in tested]
        metrics = [each.metrics | {"test": dict(each.metrics["test"])} for each in tested]
        attention = [each.attention for each in tested if each.attention is not None]
        options, language = runs[0].config.evaluation, runs[0].config.text.target_language
        for each, lines in zip(metrics, translations, strict=True):
            test = TranslatedTest(
                lines, references[0], *options.bleu, test_set.lc_tok, language, sources, further=references[1:]
            )
            each["test"] |= score_translations(test, skip=(*each["test"], *skipped_metrics(options)))
        return cls(
            runs,
            translations,
            metrics,
            attention if len(attention) == len(runs) else [],
            BleuCounts.of(translations, references, *options.bleu, sources),
            ChrfCounts.of(translations, references, options.bleu[1], sources),
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
                    signature = metric.signature.format(tokenizer=run.config.text.tokenizer)
                    found.setdefault(metric.key, []).append(signature)
    return {key: "; ".join(dict.fromkeys(each)) for key, each in found.items()}


class Differences(NamedTuple):
    """Comparisons of arms, and the signature of each test."""

    comparisons: list[PairedComparison]
    signatures: dict[str, str]


def differences(arms: Mapping[str, Arm], pairs: Sequence[tuple[str, str]]) -> Differences:
    """Compare the first arm of each pair with the second; p-values are corrected over all pairs.

    Bootstrap and randomization pool the runs of an arm and generalize to other test sentences. The joint test
    generalizes to other training runs as well; it needs two runs of both arms and `ENOUGH` sources.
    """
    if not pairs:
        return Differences([], {})
    bleu = {name: arm.bleu for name, arm in arms.items()}
    bootstraps = [paired_bootstrap(bleu[arm], bleu[other]) for arm, other in pairs]
    randomizations = [  # swaps runs, so both arms need equally many
        approximate_randomization(bleu[arm], bleu[other]) if bleu[arm].runs == bleu[other].runs else None
        for arm, other in pairs
    ]
    joint = _joint_tests(arms, bleu, pairs)
    in_chrf = _chrf_differences(arms, pairs)
    rows = zip(
        pairs,
        bootstraps,
        _holm(bootstraps),
        [
            each and Significance(each.p_value, p_holm)
            for each, p_holm in zip(randomizations, _holm(randomizations), strict=True)
        ],
        joint,
        in_chrf,
        strict=True,
    )
    comparisons = [
        PairedComparison(
            arm,
            other,
            found.difference,
            found.low,
            found.high,
            found.p_value,
            p_holm=p_holm,
            randomization=randomization,
            joint=both,
            chrf=chrf,
        )
        for (arm, other), found, p_holm, randomization, both, chrf in rows
    ]
    signatures = {"paired_bootstrap": "; ".join(dict.fromkeys(each.signature for each in bootstraps))}
    if any(randomizations):
        signatures["randomization"] = "; ".join(dict.fromkeys(each.signature for each in randomizations if each))
    if any(joint):
        counts = bleu[pairs[0][0]]
        sources = "" if counts.source_of is None else f"|sources:{counts.sources}"
        signatures["joint"] = (
            f"test:obuchowski-rockette|df:hillis|bs:1000|seed:12345{sources}|version:seq2seq_attn-{__version__}"
        )
    return Differences(comparisons, signatures)


def _chrf_differences(arms: Mapping[str, Arm], pairs: Sequence[tuple[str, str]]) -> list[ChrfDifference]:
    chrf = {name: arm.chrf for name, arm in arms.items()}
    found = [paired_bootstrap(chrf[arm], chrf[other]) for arm, other in pairs]
    return [
        ChrfDifference(each.difference, each.low, each.high, joint)
        for each, joint in zip(found, _joint_tests(arms, chrf, pairs), strict=True)
    ]


def _joint_tests(
    arms: Mapping[str, Arm], counts: Mapping[str, CorpusCounts], pairs: Sequence[tuple[str, str]]
) -> list[JointTest | None]:
    """One per pair, in the metric of the counts; p-values are corrected over all pairs."""
    if next(iter(counts.values())).sources < ENOUGH:
        return [None] * len(pairs)
    runs = {name: RunScores.of(counts[name]) for name in {name for pair in pairs for name in pair}}
    tests = [joint_test(runs[arm], runs[other], are_paired(arms[arm], arms[other])) for arm, other in pairs]
    return [
        None
        if test is None
        else JointTest(
            test.p_value,
            p_holm,
            test.low,
            test.high,
            test.degrees_of_freedom,
            test.paired,
            detectable_difference(test, len(pairs)),
        )
        for test, p_holm in zip(tests, _holm(tests), strict=True)
    ]


def _holm(tests: Sequence[Any]) -> list[float]:
    """p-values corrected for the number of pairs, those without a test included: one number for the whole table."""
    return holm([1.0 if each is None else each.p_value for each in tests])


def are_paired(one: Arm, other: Arm) -> bool:
    """Whether both arms have the same seeds, and the runs with one seed began with the same weights and saw the same
    batches. Arms with other numbers of seeds are tested as if none of their runs were alike, which is conservative."""

    def beginnings(arm: Arm) -> list[object]:
        return [_beginning(*each) for each in zip(arm.runs, arm.metrics, strict=True)]

    return beginnings(one) == beginnings(other)


def _beginning(run: ArmRun, metrics: Mapping[str, Any]) -> tuple[object, ...]:
    """Initial weights, and what determines the batches."""
    config, training = run.config, run.config.training
    data = config.data.train, config.data.longest_training, config.text
    batches = *data, training.batch_size, training.batch_unit
    return metrics["initial_weights"], run.seed, *batches
