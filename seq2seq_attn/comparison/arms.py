"""The arms of a comparison: the tested runs of each, and the differences from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from seq2seq_attn.analysis.scoring import AttentionRecord
from seq2seq_attn.comparison.experiment import ArmRun
from seq2seq_attn.config import Config
from seq2seq_attn.evaluation.alignment import parse_links
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, Counting, chrf_counting
from seq2seq_attn.evaluation.metrics import METRICS, Metric, score_translations, with_given_files
from seq2seq_attn.evaluation.resampling import approximate_randomization, paired_bootstrap
from seq2seq_attn.evaluation.significance import RunScores, detectable_difference, holm, joint_signature, joint_test
from seq2seq_attn.results.breakdowns import ENOUGH
from seq2seq_attn.results.differences import Difference, JointTest, PairedComparison, Significance
from seq2seq_attn.results.evidence import RunEvidence
from seq2seq_attn.runs.corpora import TestSet


class Scoring(NamedTuple):
    """How the translations of the arms of a comparison are scored, which is the same for all of them.

    It counts the references and each system once, for all statistics.
    """

    expected: Expected
    metrics: list[Metric]  # of translations; the first is the main one
    countings: dict[str, Counting]  # by the key of each metric that counts
    of_sentences: Counting  # chrF, whatever the corpus is scored by: sentence BLEU is too noisy on short lines

    @classmethod
    def of(cls, config: Config, test_set: TestSet) -> Scoring:
        expected = config.expected(test_set.references, test_set.pairs.source, test_set.lc_tok)
        metrics = with_given_files(config.evaluation.chosen, expected)
        found = {each.key: each.counting(expected) for each in metrics if each.counting is not None}
        countings = {key: each for key, each in found.items() if each is not None}
        return cls(expected, metrics, countings, countings.get("chrf") or chrf_counting(expected))

    @property
    def main(self) -> Metric:
        """The main metric."""
        return self.metrics[0]

    def score(self, translations: Sequence[str], metrics: Sequence[Metric]) -> dict[str, Any]:
        """As `score_translations`."""
        counted = {each.key: self.countings[each.key] for each in metrics if each.key in self.countings}
        scores = {key: {"value": c.score_corpus(translations), "signature": c.signature} for key, c in counted.items()}
        others = [each for each in metrics if each.key not in counted]
        return scores | score_translations(translations, self.expected, others)


class Arm(NamedTuple):
    """The tested runs of an arm; all lists have one entry per run, that is, per seed."""

    runs: list[ArmRun]
    tested: list[RunEvidence]
    attention: list[AttentionRecord]  # empty unless every run has one
    counts: dict[str, CorpusCounts]  # by the key of each metric that counts, the main one first

    @property
    def main(self) -> CorpusCounts:
        """The counts of the main metric."""
        return next(iter(self.counts.values()))

    @property
    def tests(self) -> list[Mapping[str, Any]]:
        """The scores of the test set."""
        return [each.metrics["test"] for each in self.tested]

    @classmethod
    def of(cls, runs: list[ArmRun], tested: Sequence[RunEvidence], scoring: Scoring) -> Arm:
        """From the tested runs, in the order of `runs`. Scores of translations that a run lacks are computed here."""

        def scored(run: RunEvidence) -> RunEvidence:
            lacking = [metric for metric in scoring.metrics if metric.key not in run.metrics["test"]]
            found = scoring.score(run.translations, lacking)
            return replace(run, metrics={**run.metrics, "test": {**run.metrics["test"], **found}})

        attention = [
            AttentionRecord([parse_links(line).sure for line in each.links], list(each.entropies))
            for each in tested
            if each.links is not None and each.entropies is not None
        ]
        translations = [each.translations for each in tested]
        return cls(
            runs,
            [*map(scored, tested)],
            attention if len(attention) == len(runs) else [],
            {
                key: CorpusCounts.of(counting, translations, scoring.expected.sources)
                for key, counting in scoring.countings.items()
            },
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
    main, *others = arms[pairs[0][0]].counts
    both = {key: [(arms[arm].counts[key], arms[other].counts[key]) for arm, other in pairs] for key in (main, *others)}
    bootstraps = {key: [paired_bootstrap(*each) for each in both[key]] for key in both}
    joint = {key: _joint_tests(arms, key, pairs) for key in both}
    randomizations = [  # swaps runs, so both arms need equally many
        approximate_randomization(ours, theirs) if ours.runs == theirs.runs else None for ours, theirs in both[main]
    ]
    corrected, randomized = _holm(bootstraps[main]), _holm(randomizations)
    comparisons = []
    for place, (arm, other) in enumerate(pairs):
        found, random = bootstraps[main][place], randomizations[place]
        in_others = {key: bootstraps[key][place] for key in others}
        comparisons.append(
            PairedComparison(
                arm,
                other,
                found.difference,
                found.low,
                found.high,
                found.p_value,
                corrected[place],
                None if random is None else Significance(random.p_value, randomized[place]),
                joint[main][place],
                {key: Difference(o.difference, o.low, o.high, joint[key][place]) for key, o in in_others.items()},
            )
        )
    signatures = {"paired_bootstrap": "; ".join(dict.fromkeys(each.signature for each in bootstraps[main]))}
    if any(randomizations):
        signatures["randomization"] = "; ".join(dict.fromkeys(each.signature for each in randomizations if each))
    if any(joint[main]):
        signatures["joint"] = joint_signature(both[main][0][0])
    return Differences(comparisons, signatures)


def _joint_tests(arms: Mapping[str, Arm], key: str, pairs: Sequence[tuple[str, str]]) -> list[JointTest | None]:
    """One per pair, in the metric with this key; p-values are corrected over all pairs."""
    if arms[pairs[0][0]].main.sources < ENOUGH:
        return [None] * len(pairs)
    runs = {name: RunScores.of(arms[name].counts[key]) for name in {name for pair in pairs for name in pair}}
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
        """Of each run: its initial weights, and what determines its batches."""
        found: list[object] = []
        for run, tested in zip(arm.runs, arm.tested, strict=True):
            data, training = run.config.data, run.config.training
            batches = data.train, data.longest_training, run.config.text, training.batch_size, training.batch_unit
            found.append((tested.metrics["initial_weights"], run.seed, batches))
        return found

    return beginnings(one) == beginnings(other)
