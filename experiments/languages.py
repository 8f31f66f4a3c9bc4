"""An experiment in several languages: a comparison in each, then one table over all of them.

    python experiments/languages.py experiments/inflection/medium.yaml                  # trains what is missing
    python experiments/languages.py experiments/inflection/medium.yaml finnish turkish  # in two of the languages
    python experiments/languages.py experiments/inflection/medium.yaml --results experiments/inflection/results-medium

The paths of the experiment file are those of one language, as in data/downloaded/g2p-2020/kor/train.letters; the other
languages are the folders beside it. A comparison, its report included, is in comparisons/NAME/LANGUAGE. Over all
languages, a score is the mean of theirs, with the standard deviation of that mean over runs, and differences are tested
as independent ones (`seq2seq_attn.results.test_sets`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from math import hypot, isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import seq2seq_attn as s2s
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.evaluation.significance import holm
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.differences import p_text
from seq2seq_attn.results.results import MetricRecord, Results
from seq2seq_attn.results.test_sets import mean_difference
from seq2seq_attn.strict import read_yaml


def in_language(language: str, experiment: Path) -> dict[str, Any]:
    """The experiment with the files of this language, in its base and in its arms."""
    grid = read_experiment(experiment)
    base = grid.experiment.base
    values = read_yaml(experiment) | {
        "base": read_yaml(experiment.parent / base) if isinstance(base, Path) else base,
        "name": f"{grid.experiment.name}-{language}",
    }
    named = named_language(grid.runs[0].config)
    translated: dict[str, Any] = json.loads(json.dumps(values).replace(f"/{named}/", f"/{language}/"))
    return translated


def named_language(config: Config) -> str:
    """The language of these paths: the folder of the training files."""
    return config.data.train.paths[0].parent.name


def all_languages(config: Config) -> list[str]:
    """The folders beside that of the training files which have a file of the same name."""
    path = config.data.train.paths[0]
    return sorted(each.parent.name for each in path.parent.parent.glob(f"*/{path.name}"))


def by_language(languages: Mapping[str, Results], metric: MetricRecord) -> str:
    """Markdown: a row per language, a column per arm that one of them has."""
    scores = {language: scores_of(results, metric) for language, results in languages.items()}
    arms = dict.fromkeys(arm for each in scores.values() for arm in each)
    rows = [
        [language, *(_text(metric, *each[arm]) if arm in each else "" for arm in arms)]
        for language, each in scores.items()
    ]
    return markdown_table(["language", *arms], rows)


def over_all(
    languages: Mapping[str, Results], metric: MetricRecord, baseline: str, contrasts: Sequence[tuple[str, str]] = ()
) -> str:
    """Markdown: a row per arm that all languages have, with its difference from the baseline, and one per contrast."""
    scores = [scores_of(results, metric) for results in languages.values()]
    arms = [arm for arm in scores[0] if all(arm in each for each in scores)]
    pairs = [(arm, baseline) for arm in arms if arm != baseline]
    pairs += [pair for pair in contrasts if set(pair) <= set(arms) and baseline not in pair]
    found = {pair: mean_difference(list(languages.values()), *pair, metric.key) for pair in pairs}
    tested = {pair: each.p_value for pair, each in found.items() if each.p_value is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))

    def cells(pair: tuple[str, str]) -> list[str]:
        difference, low, high = (metric.text(each, "+") for each in found[pair][:3])
        p = corrected.get(pair)
        return [f"{difference} [{low}, {high}]", "" if p is None else p_text(p)]

    rows = []
    for arm in arms:
        each = [one[arm] for one in scores]
        mean, std = fmean(mean for mean, _ in each), hypot(*(std for _, std in each)) / len(each)
        rows.append([arm, _text(metric, mean, std), *(["", ""] if arm == baseline else cells((arm, baseline)))])
    rows += [[f"{arm} against {other}", "", *cells((arm, other))] for arm, other in pairs if other != baseline]
    return markdown_table(["arm", "mean", f"difference from {baseline}", "p"], rows)


def scores_of(results: Results, metric: MetricRecord) -> dict[str, tuple[float, float]]:
    """The mean score of each arm over its runs, by its name, and their standard deviation, which is NaN for one."""
    scores = [(arm, arm.scores[metric.key]) for arm in results.arms]
    return {arm.name: (each.mean, each.std if len(arm.seeds) > 1 else nan) for arm, each in scores}


def _text(metric: MetricRecord, mean: float, std: float) -> str:
    return metric.text(mean) + ("" if isnan(std) else f" ± {metric.text(std)}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path, help="its file, in which the paths are those of one language")
    parser.add_argument("languages", nargs="*", help="all by default")
    parser.add_argument("--output", type=Path, help="of the comparisons; by default comparisons/NAME")
    parser.add_argument("--results", type=Path, help="comparisons that are finished: only print their tables")
    given = parser.parse_intermixed_args(arguments)
    grid = read_experiment(given.experiment)
    place = given.results or given.output or Path("comparisons") / grid.experiment.name
    for language in [] if given.results else given.languages or all_languages(grid.runs[0].config):
        s2s.compare(in_language(language, given.experiment), place / language)
    finished = {path.parent.name: Results.load(path) for path in sorted(place.glob("*/results.json"))}
    chosen = {name: each for name, each in finished.items() if not given.languages or name in given.languages}
    if not chosen:
        parser.error(f"{place}: no comparison that is finished")
    first = next(iter(chosen.values()))
    for metric in first.metrics:
        if metric is not first.main and metric.key not in first.tested[0].others:
            continue  # such as the entropy of the weights, in which nothing is compared
        print(f"{metric.label}: {metric.meaning}\n")
        print(by_language(chosen, metric), "", sep="\n")
        print(over_all(chosen, metric, grid.experiment.baseline, grid.experiment.contrasts), "", sep="\n")


if __name__ == "__main__":
    main()
