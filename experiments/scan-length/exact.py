"""Exact match on SCAN, by the tests of `compare`: other training runs and other sentences.

    python experiments/scan-length/exact.py experiments/scan-length/results  # or the folder of any comparison

Reads the translations in evidence.json.gz, prints the table, and writes exact.json and exact.png beside them: exact
match of each arm, its difference from the baseline, and exact match by the number of actions that a command stands for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, exact_match_counting
from seq2seq_attn.evaluation.significance import RunScores, holm, joint_interval, joint_test
from seq2seq_attn.report.figures import Picture, drawing, legend_below, line_styles, render
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.differences import p_text
from seq2seq_attn.results.evidence import Evidence


def exact_matches(
    arms: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str], baseline: str
) -> dict[str, Any]:
    """By arm: the score of each run, and with two runs or more its interval and the joint test with the baseline."""
    counting = exact_match_counting(Expected([references]))
    counts = {arm: CorpusCounts.of(counting, runs) for arm, runs in arms.items()}
    scores = {arm: RunScores.of(each) for arm, each in counts.items()}
    tests = {arm: joint_test(each, scores[baseline]) for arm, each in scores.items() if arm != baseline}
    tested = {arm: test for arm, test in tests.items() if test is not None}
    corrected = dict(zip(tested, holm([test.p_value for test in tested.values()]), strict=True))
    lengths = np.array([len(line.split()) for line in references])
    found: dict[str, Any] = {}
    for arm, each in counts.items():
        found[arm] = {"runs": scores[arm].scores.tolist(), "interval": joint_interval(scores[arm])}
        if arm in tested:
            test = tested[arm]
            found[arm] |= {"difference": [test.difference, test.low, test.high], "p_holm": corrected[arm]}
        found[arm]["by_length"] = {
            str(length): each.select(np.flatnonzero(lengths == length).tolist()).scores().tolist()
            for length in np.unique(lengths).tolist()
        }
    return found


def table(found: Mapping[str, Any]) -> str:
    """Markdown: one row per arm."""
    rows = []
    for arm, each in found.items():
        runs = np.array(each["runs"])
        deviation = f" ± {runs.std(ddof=1):.1f}" if len(runs) > 1 else ""
        # A rate is between 0 and 100, which an interval of a normal distribution does not know.
        low, high = (min(max(end, 0.0), 100.0) for end in each["interval"] or (np.nan, np.nan))
        interval = f"[{low:.1f}, {high:.1f}]" if each["interval"] else ""
        difference, p = "baseline", ""
        if "difference" in each:
            middle, low, high = each["difference"]
            difference = f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"
            p = p_text(each["p_holm"])
        rows.append([arm, f"{runs.mean():.1f}{deviation}", interval, difference, p])
    return markdown_table(["Arm", "Exact match, %", "95 % interval", "Difference", "p"], rows)


def picture(found: Mapping[str, Any]) -> bytes:
    """Exact match by the number of actions, mean over seeds, with the range over seeds behind it."""
    styles = line_styles(list(found))
    with drawing([]):
        figure = Picture(figsize=(7.6, 4.8), layout="constrained")
        axes = figure.subplots()
        for arm, each in found.items():
            lengths = [int(length) for length in each["by_length"]]
            runs = np.array(list(each["by_length"].values()))
            axes.plot(lengths, runs.mean(axis=1), label=arm, markersize=4, **styles[arm])
            axes.fill_between(lengths, runs.min(axis=1), runs.max(axis=1), color=styles[arm]["color"], alpha=0.1)
        axes.set(xlabel="actions that the command stands for", ylabel="exact match, %", ylim=(-2, 102))
        legend_below(figure, axes)
        return render(figure, "png")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a folder with evidence.json.gz")
    folder = parser.parse_args(arguments).results
    evidence = Evidence.load(folder / "evidence.json.gz")
    target = Path(evidence.arms[0].configuration["data"]["test"]["target"])
    references = target.read_text(encoding="utf-8").splitlines()
    arms = {arm.name: [run.translations for run in arm.runs] for arm in evidence.arms}
    found = exact_matches(arms, references, evidence.experiment["baseline"])
    (folder / "exact.json").write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    (folder / "exact.png").write_bytes(picture(found))
    print(table(found))


if __name__ == "__main__":
    main()
