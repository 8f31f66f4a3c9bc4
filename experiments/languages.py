"""An experiment in several languages: a comparison in each, then one table over all of them.

    python experiments/languages.py experiments/pronunciation-2020          # trains what is missing, in every language
    python experiments/languages.py experiments/pronunciation-2020 kor hin  # in two of them
    python experiments/languages.py experiments/pronunciation-2020 --results experiments/pronunciation-2020/results

The paths of the experiment file are those of one language, as in data/downloaded/g2p-2020/kor/train.letters; the other
languages are the folders beside it. A comparison, its report included, is in comparisons/NAME/LANGUAGE. Over all
languages, a score is that of their test sets together, which is the mean over languages where all test sets are of one
size, and run i of an arm is its run i in each language; intervals and tests are those of `compare`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

import seq2seq_attn as s2s
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.evaluation.counts import CorpusCounts
from seq2seq_attn.evaluation.metrics import Metric
from seq2seq_attn.evaluation.significance import RunScores, holm, joint_interval, joint_test
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.evidence import EVIDENCE, Evidence
from seq2seq_attn.runs.corpora import read_test


def compare_in(language: str, experiment: Path, output: Path) -> None:
    """The comparison in one language, in output/LANGUAGE; what is finished is not trained again."""
    grid = read_experiment(experiment)
    config = grid.runs[0].config
    files = config.data.model_dump_json(exclude_unset=True)
    data = json.loads(files.replace(f"/{named_language(config)}/", f"/{language}/"))
    s2s.compare(experiment, output / language, name=f"{grid.experiment.name}-{language}", data=data)


def named_language(config: Config) -> str:
    """The language of these paths: the folder of the training files."""
    return config.data.train.paths[0].parent.name


def all_languages(config: Config) -> list[str]:
    """The folders beside that of the training files which have a file of the same name."""
    path = config.data.train.paths[0]
    return sorted(each.parent.name for each in path.parent.parent.glob(f"*/{path.name}"))


def scores_of(evidences: Sequence[Evidence], metric: Metric) -> dict[str, RunScores]:
    """By arm that all these comparisons have: its runs on their test sets together."""
    references, sources = [], []
    for number, evidence in enumerate(evidences):
        test = read_test(Config.model_validate(evidence.arms[0].configuration).data.test)
        references += test.pairs.target
        sources += [f"{number} {source}" for source in test.pairs.source]
    config = Config.model_validate(evidences[0].arms[0].configuration)
    counting = metric.counting(config.expected([references], sources))
    trained = [{arm.name: arm.runs for arm in evidence.arms} for evidence in evidences]
    found = {}
    for name in trained[0]:
        if all(name in arms for arms in trained):
            runs = zip(*(arms[name] for arms in trained), strict=True)
            joined = [[line for run in together for line in run.translations] for together in runs]
            found[name] = RunScores.of(CorpusCounts.of(counting, joined, sources))
    return found


def by_language(scores: Mapping[str, Mapping[str, RunScores]]) -> str:
    """Markdown: a row per language, a column per arm that one of them has."""
    arms = dict.fromkeys(arm for each in scores.values() for arm in each)
    rows = [
        [language, *(spread(each[arm].scores) if arm in each else "" for arm in arms)]
        for language, each in scores.items()
    ]
    return markdown_table(["language", *arms], rows)


def over_all(scores: Mapping[str, RunScores], baseline: str, contrasts: Sequence[tuple[str, str]] = ()) -> str:
    """Markdown: a row per arm, with its interval and the joint test with the baseline, and a row per contrast."""
    pairs = [(arm, baseline) for arm in scores if arm != baseline]
    pairs += [pair for pair in contrasts if set(pair) <= set(scores)]
    tests = {(arm, other): joint_test(scores[arm], scores[other]) for arm, other in pairs}
    tested = {pair: test for pair, test in tests.items() if test is not None}
    corrected = dict(zip(tested, holm([test.p_value for test in tested.values()]), strict=True))

    def cells(pair: tuple[str, str]) -> list[str]:
        if pair not in tested:
            return ["", ""]
        test, p = tested[pair], corrected[pair]
        return [f"{test.difference:+.1f} [{test.low:+.1f}, {test.high:+.1f}]", "< 0.001" if p < 0.001 else f"{p:.3f}"]

    rows = []
    for arm, each in scores.items():
        ends = joint_interval(each)
        shown = [arm, spread(each.scores), f"[{ends[0]:.1f}, {ends[1]:.1f}]" if ends else ""]
        rows.append([*shown, *(["baseline", ""] if arm == baseline else cells((arm, baseline)))])
    rows += [[f"{arm} against {other}", "", "", *cells((arm, other))] for arm, other in pairs if other != baseline]
    return markdown_table(["arm", "all languages", "95 % interval", "difference", "p"], rows)


def spread(scores: Sequence[float]) -> str:
    """Mean ± standard deviation over the runs."""
    return f"{mean(scores):.1f}" + (f" ± {stdev(scores):.1f}" if len(scores) > 1 else "")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the experiment, as in experiments/pronunciation-2020")
    parser.add_argument("languages", nargs="*", help="all by default")
    parser.add_argument("--output", type=Path, help="of the comparisons; by default comparisons/NAME")
    parser.add_argument("--results", type=Path, help="comparisons that are finished: only print their tables")
    given = parser.parse_intermixed_args(arguments)
    experiment = given.folder / "experiment.yaml"
    grid = read_experiment(experiment)
    place = given.results or given.output or Path("comparisons") / grid.experiment.name
    for language in [] if given.results else given.languages or all_languages(grid.runs[0].config):
        compare_in(language, experiment, place)
    finished = {path.parent.name: Evidence.load(path) for path in sorted(place.glob(f"*/{EVIDENCE}"))}
    evidences = {name: each for name, each in finished.items() if not given.languages or name in given.languages}
    if not evidences:
        parser.error(f"{place}: no comparison that is finished")
    for metric in grid.runs[0].config.evaluation.chosen:
        print(f"{metric.label}: {metric.meaning}\n")
        print(by_language({name: scores_of([each], metric) for name, each in evidences.items()}), "", sep="\n")
        together = scores_of(list(evidences.values()), metric)
        print(over_all(together, grid.experiment.baseline, grid.experiment.contrasts), "", sep="\n")


if __name__ == "__main__":
    main()
