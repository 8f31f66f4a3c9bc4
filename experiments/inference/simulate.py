"""How often is a verdict on two arms wrong, and how often does it miss a difference? Experiments with a known truth.

The score of a simulated training is BLEU itself, computed by sacrebleu from translations in which every word of the
reference is wrong with a probability that depends on the training, on the sentence (the same for all runs), on the
arm and sentence together, and on the run and sentence together. So scores vary over training runs as those of real
models do, and over test sentences as well. For each of several tests the script prints how often it calls two arms
different.

    python experiments/inference/simulate.py               # a quarter of an hour; writes results.json beside this file
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import t, ttest_ind

from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, bleu_counting
from seq2seq_attn.evaluation.resampling import approximate_randomization
from seq2seq_attn.evaluation.significance import (
    JointResult,
    RunScores,
    TrainingNoise,
    detectable_difference,
    joint_test,
)

SENTENCES = 1000
RESAMPLES = 250
VERSIONS = 12  # translations of each sentence at each error rate
LEVELS = np.linspace(0.02, 0.6, 59)  # error rates, in steps of 0.01
RATE = 0.33  # of a word, in the middle of all training runs and sentences
TRAINING, SENTENCE, ARM, RUN = 0.005, 0.08, 0.03, 0.05  # standard deviations of the rate


class World:
    """Translations to draw from, and the experiments that are drawn."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        words = np.array([f"w{number}" for number in range(300)])
        references = [" ".join(self.draw.choice(words, self.draw.integers(6, 20))) for _ in range(SENTENCES)]
        pool, self.counting = [], bleu_counting(Expected([references]))
        for level in LEVELS:
            runs = [[self._spoil(line, level) for line in references] for _ in range(VERSIONS)]
            pool.append(CorpusCounts.of(self.counting, runs))
        self.counts = np.array([each.counts for each in pool])  # (levels, versions, sentences, 10)

    def _spoil(self, line: str, rate: float) -> str:
        return " ".join("x" if self.draw.random() < rate else word for word in line.split())

    def arms(self, runs: int, gain: float = 0.0, others: int | None = None) -> list[CorpusCounts]:
        """Two arms with `runs` training runs each, or `others` of the second; words of the first are wrong less often,
        by `gain`."""
        shared = self.draw.normal(0, SENTENCE, SENTENCES)
        arms = []
        for advantage, count in ((gain, runs), (0.0, others or runs)):
            sentence = RATE - advantage + shared + self.draw.normal(0, ARM, SENTENCES)
            rates = sentence + self.draw.normal(0, TRAINING, (count, 1)) + self.draw.normal(0, RUN, (count, SENTENCES))
            level = np.clip(np.rint((rates - LEVELS[0]) * 100), 0, len(LEVELS) - 1).astype(int)
            version = self.draw.integers(VERSIONS, size=level.shape)
            arms.append(CorpusCounts(self.counts[level, version, np.arange(SENTENCES)], self.counting))
        return arms


def run_scores(counts: CorpusCounts) -> RunScores:
    return RunScores(counts.scores(), counts.resampled_scores(RESAMPLES))


def verdicts(arms: list[CorpusCounts]) -> dict[str, bool]:
    """Which tests call the arms different at 5 %; the one over sentences needs equally many training runs."""
    found = {}
    if arms[0].runs == arms[1].runs:
        found["sentences"] = approximate_randomization(*arms, trials=199).p_value <= 0.05
    if arms[0].runs > 1:
        scores = [run_scores(each) for each in arms]
        found["bootstrap of both"] = bootstrap_p(*scores) <= 0.05
        found["runs (Welch)"] = ttest_ind(*(each.scores for each in scores), equal_var=False).pvalue < 0.05
        joint = joint_test(*scores)
        found["joint"] = joint is not None and joint.p_value < 0.05
        if arms[0].runs != arms[1].runs:
            found["joint, own df"] = joint is not None and p_with_own_freedom(joint) < 0.05
    return found


def p_with_own_freedom(joint: JointResult) -> float:
    """Of the joint test if each arm had the degrees of freedom of its own training runs."""
    of_runs = sum(each.squared_error**2 / each.degrees_of_freedom for each in joint.training_noise)
    return float(2 * t.sf(abs(joint.difference) / joint.variance**0.5, joint.variance**2 / of_runs))


def bootstrap_p(system: RunScores, baseline: RunScores) -> float:
    """Of a bootstrap over sentences and runs: each resample of the sentences takes resampled runs of each arm."""
    draw = np.random.default_rng(1)  # its own: the experiments do not depend on which tests are tried
    gaps = np.zeros(RESAMPLES)
    for arm, sign in ((system, 1), (baseline, -1)):
        drawn = draw.integers(len(arm.scores), size=(len(arm.scores), RESAMPLES))
        gaps += sign * np.take_along_axis(arm.resampled, drawn, axis=0).mean(axis=0)
    return min(1.0, 2 * min(np.mean(gaps <= 0), np.mean(gaps >= 0)))


def rates(found: list[dict[str, bool]]) -> dict[str, float]:
    return {test: round(float(np.mean([each[test] for each in found])), 4) for test in found[0]}


def slope(world: World) -> float:
    """BLEU points for each unit of gain in the error rate."""
    gaps = [np.subtract(*(each.scores().mean() for each in world.arms(8, gain=0.02))) for _ in range(60)]
    return float(np.mean(gaps)) / 0.02


def variances(world: World) -> tuple[float, float]:
    """The true terms of the joint test's variance: s^2 of a training run, and the noise of sentences."""
    tests = [joint_test(*map(run_scores, world.arms(8))) for _ in range(60)]
    known = [test for test in tests if test is not None]
    training = np.mean([each.squared_error * 8 for test in known for each in test.training_noise])
    return float(training), float(np.mean([test.sentences for test in known]))


def power(world: World, runs: int, comparisons: int, trials: int) -> dict[str, object]:
    """The share of experiments in which the joint test detects the difference that `detectable_difference` names.

    That difference is computed from the true variances; `printed` are the quartiles of what the experiments
    themselves would print, from the variances that each estimates.
    """
    training, sentences = variances(world)
    template = None
    while template is None:
        template = joint_test(*map(run_scores, world.arms(runs)))
    noise = TrainingNoise(training / runs, runs - 1)
    test = replace(template, training_noise=(noise, noise), sentences=sentences)
    difference = detectable_difference(test, comparisons)
    assert difference is not None
    gain = difference / slope(world)
    tests = [joint_test(*map(run_scores, world.arms(runs, gain))) for _ in range(trials)]
    found = np.mean([test is not None and test.p_value < 0.05 / comparisons for test in tests])
    printed = [detectable_difference(test, comparisons) for test in tests if test is not None]
    return {
        "detectable": round(difference, 2),
        "power": round(float(found), 4),
        "printed": np.quantile(np.array(printed, dtype=float), [0.25, 0.5, 0.75]).round(2).tolist(),
    }


def other_numbers(world: World, trials: int) -> dict[str, dict[str, float]]:
    """False verdicts on arms with different numbers of training runs."""
    return {
        f"{runs} against {others}": rates([verdicts(world.arms(runs, 0.0, others)) for _ in range(trials)])
        for runs, others in ((3, 2), (5, 3), (5, 2))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    world = World(options.seed)
    scores = [arm.scores() for _ in range(20) for arm in world.arms(20)]
    results: dict[str, object] = {
        "trials": options.trials,
        "seed": options.seed,
        "BLEU": round(float(np.mean(scores)), 1),
        "standard deviation over training runs": round(float(np.mean(np.std(scores, axis=1, ddof=1))), 2),
        "false": {runs: rates([verdicts(world.arms(runs)) for _ in range(options.trials)]) for runs in (1, 2, 3, 5)},
        "detectable": {
            f"{runs} runs, {comparisons} comparisons": power(world, runs, comparisons, options.trials)
            for runs, comparisons in ((3, 1), (5, 1), (3, 13), (5, 13))
        },
        "false, other numbers": other_numbers(World(options.seed), options.trials),
    }
    text = json.dumps(results, indent=2)
    print(text)
    (Path(__file__).parent / "results.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
