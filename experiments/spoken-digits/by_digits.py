"""Word error rates of spoken strings by their number of digits, where `compare` has bands of their length in frames.

    python experiments/spoken-digits/by_digits.py experiments/spoken-digits/results  # or the folder of any comparison

Reads the outputs in evidence.json.gz and prints a table: the mean over training runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, word_error_counting
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.evidence import Evidence


def by_digits(arms: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str]) -> dict[str, dict[int, float]]:
    """By arm and number of digits, the mean over runs of the word error rate, in percent."""
    counting = word_error_counting(Expected([references]))
    digits = np.array([len(line.split()) for line in references])
    groups = {count: np.flatnonzero(digits == count).tolist() for count in np.unique(digits).tolist()}
    counts = {arm: CorpusCounts.of(counting, runs) for arm, runs in arms.items()}
    return {
        arm: {count: float(each.select(rows).scores().mean()) for count, rows in groups.items()}
        for arm, each in counts.items()
    }


def table(found: Mapping[str, Mapping[int, float]]) -> str:
    """Markdown: one row per arm."""
    numbers = list(next(iter(found.values())))
    rows = ([arm, *(f"{each[number]:.1f}" for number in numbers)] for arm, each in found.items())
    return markdown_table(["WER", *(f"{number} digits" for number in numbers)], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table of the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a folder with evidence.json.gz")
    evidence = Evidence.load(parser.parse_args(arguments).results / "evidence.json.gz")
    target = Path(evidence.arms[0].configuration["data"]["test"]["target"])
    references = target.read_text(encoding="utf-8").splitlines()
    print(table(by_digits({arm.name: [run.translations for run in arm.runs] for arm in evidence.arms}, references)))


if __name__ == "__main__":
    main()
