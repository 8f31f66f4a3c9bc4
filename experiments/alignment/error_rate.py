"""Alignment error rates, by the tests that `compare` has for BLEU: other training runs and other sentences.

    python experiments/alignment/error_rate.py experiments/alignment/results  # or the folder of any comparison

Reads the links in evidence.json.gz and the gold links of its test set; prints a table of the arms and one of their
differences, and writes error_rate.json beside them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.evaluation.alignment import GoldCorpus, agreement, parse_links, read_gold
from seq2seq_attn.evaluation.counts import CorpusCounts, Counting
from seq2seq_attn.evaluation.significance import RunScores, holm, joint_interval, joint_test
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.differences import p_text
from seq2seq_attn.results.evidence import Evidence
from seq2seq_attn.results.results import Results


def _error_rate(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Of rows of summed counts of `count_links`."""
    predicted, sure, of_sure, of_possible = sums.astype(np.float64).T
    return np.asarray(1.0 - (of_sure + of_possible) / (predicted + sure))


def link_counts(runs: Sequence[Sequence[Sequence[int]]]) -> CorpusCounts:
    """From the numbers of `count_links`, (runs, sources, 4)."""
    counts = np.array(runs, dtype=np.int64)
    return CorpusCounts(counts, Counting(lambda _: counts[0], _error_rate, ""))


def counts_of(lines: Sequence[str], gold: GoldCorpus, sources: Sequence[str]) -> list[tuple[int, ...]]:
    """The counts of each source, from the links of one training run in Pharaoh format."""
    return list(agreement([parse_links(line).sure for line in lines], *gold, sources=sources).pairs)


def error_rates(
    arms: Mapping[str, Sequence[Sequence[Sequence[int]]]],
    baseline: str,
    contrasts: Sequence[tuple[str, str]] = (),
    paired: Collection[tuple[str, str]] = (),
) -> dict[str, Any]:
    """From the counts of each arm's runs: their error rates, the differences from the baseline and of the contrasts.

    An arm has its interval, and a pair its joint test, corrected over all pairs, with two runs or more. `paired` are
    the pairs whose runs with the same seed began with the same weights and saw the same batches.
    """
    scores = {arm: RunScores.of(link_counts(runs)) for arm, runs in arms.items()}
    pairs = [*((arm, baseline) for arm in arms if arm != baseline), *((first, second) for first, second in contrasts)]
    tests = {pair: joint_test(*(scores[arm] for arm in pair), paired=pair in paired) for pair in pairs}
    tested = {pair: test for pair, test in tests.items() if test is not None}
    corrected = holm([test.p_value for test in tested.values()])
    return {
        "arms": {arm: {"runs": each.scores.tolist(), "interval": joint_interval(each)} for arm, each in scores.items()},
        "differences": [
            {
                "arm": arm,
                "against": other,
                "difference": [test.difference, test.low, test.high],
                "p_holm": p,
                "paired": test.paired,
            }
            for ((arm, other), test), p in zip(tested.items(), corrected, strict=True)
        ],
    }


def tables(found: Mapping[str, Any]) -> str:
    """Markdown: one row per arm, then one per difference."""
    arms, differences = [], []
    for arm, each in found["arms"].items():
        runs = np.array(each["runs"])
        deviation = f" ± {runs.std(ddof=1):.3f}" if len(runs) > 1 else ""
        interval = "[{:.3f}, {:.3f}]".format(*each["interval"]) if each["interval"] else ""
        arms.append([arm, f"{runs.mean():.3f}{deviation}", interval])
    for each in found["differences"]:
        middle, low, high = each["difference"]
        pair = f"*{each['arm']}* against *{each['against']}*"
        differences.append([pair, f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]", p_text(each["p_holm"])])
    both = (["arm", "AER", "95 % interval"], arms), (["difference", "AER", "p"], differences)
    return "\n\n".join(markdown_table(header, rows) for header, rows in both)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a folder with evidence.json.gz")
    folder = parser.parse_args(arguments).results
    evidence = Evidence.load(folder / "evidence.json.gz")
    test = evidence.arms[0].configuration["data"]["test"]
    gold, sources = read_gold(Path(test["alignments"])), read_lines(test["source"])
    links = {arm.name: [run.links for run in arm.runs] for arm in evidence.arms if arm.runs[0].links is not None}
    arms = {arm: [counts_of(lines, gold, sources) for lines in runs] for arm, runs in links.items()}
    contrasts = evidence.experiment.get("contrasts") or ()
    compared = Results.load(folder / "results.json").tested
    paired = {(pair.arm, pair.baseline) for pair in compared if pair.joint and pair.joint.paired}
    found = error_rates(arms, evidence.experiment["baseline"], [*map(tuple, contrasts)], paired)
    (folder / "error_rate.json").write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    print(tables(found))


if __name__ == "__main__":
    main()
