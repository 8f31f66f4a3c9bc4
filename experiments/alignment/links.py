"""Alignment error rates by rule: how links are made of the weights of one direction, or of two.

    python experiments/alignment/links.py runs/alignment  # the folders de-en-1, en-fr-1, fr-en-1, de-en-2, ...
    python experiments/alignment/links.py                 # the table of the page again, without the training runs

Counts the links of every training run and rule in results/links.json, and prints the table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any, get_args

from error_rate import counts_of, error_rates

from seq2seq_attn import Model
from seq2seq_attn.corpora.corpus import read_parallel
from seq2seq_attn.evaluation.alignment import Agreement, Method, read_gold_of
from seq2seq_attn.report.table import markdown_table

GOLD = Path("data/downloaded/alignments")
SETS = {"de-en": "bicici.de-en", "en-fr": "graca.en-fr"}
SEEDS = (1, 2, 3)
RULES: dict[str, dict[str, Any]] = {
    "argmax, step that predicts a word": {},
    "argmax, step that reads it (`--row read`)": {"row": "read"},
    "`--threshold 0.1`": {"threshold": 0.1},
    "`--threshold 0.3`": {"threshold": 0.3},
    "`--threshold 0.5`": {"threshold": 0.5},
}
BOTH: dict[str, Method] = {f"both directions, {method}": method for method in get_args(Method)}
FILE = Path(__file__).parent / "results/links.json"

Counts = Mapping[str, Mapping[str, list[Any]]]  # by languages and rule: (training runs, sources, 4) as in LinkCounts


def measure(runs: Path) -> Counts:
    """The links of every training run by every rule; by those for two directions where both were trained."""
    found: dict[str, dict[str, list[Any]]] = {}
    for languages, name in SETS.items():
        pairs = read_parallel(GOLD / f"{name}.src", GOLD / f"{name}.tgt")
        gold = read_gold_of(GOLD / f"{name}.align", pairs.source, pairs.target)
        opposite = [runs / f"{'-'.join(reversed(languages.split('-')))}-{seed}" for seed in SEEDS]
        both = BOTH if all(run.exists() for run in opposite) else {}
        rules = found[languages] = {}
        for seed, run in zip(SEEDS, opposite, strict=True):
            model, reverse = Model.load(runs / f"{languages}-{seed}"), Model.load(run) if both else None
            options = RULES | {rule: {"reverse": reverse, "symmetrize": method} for rule, method in both.items()}
            for rule, option in options.items():
                lines = [str(pair) for pair in model.align(pairs, **option)]
                rules.setdefault(rule, []).append(counts_of(lines, gold, pairs.source))
    return found


def table(found: Counts) -> str:
    """Markdown: one row per rule, means over training runs; AER with its standard deviation and interval."""
    header, rows = ["Links"], []
    for languages in found:
        header += [f"{languages}: AER", "95 % interval", "precision", "recall"]
    intervals = {
        languages: {rule: arm["interval"] for rule, arm in error_rates(rules, next(iter(rules)))["arms"].items()}
        for languages, rules in found.items()
    }
    for rule in (rule for rule in [*RULES, *BOTH] if any(rule in rules for rules in found.values())):
        cells = [rule]
        for languages, rules in found.items():
            if rule not in rules:
                cells += [""] * 4
                continue
            runs = [Agreement(*map(sum, zip(*pairs, strict=True))) for pairs in rules[rule]]
            errors = [run.error_rate for run in runs]
            cells += [
                f"{mean(errors):.3f} ± {stdev(errors):.3f}",
                "[{:.3f}, {:.3f}]".format(*intervals[languages][rule]),
                f"{mean(run.precision for run in runs):.3f}",
                f"{mean(run.recall for run in runs):.3f}",
            ]
        rows.append(cells)
    return markdown_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", help="the folder of the training runs")
    runs = parser.parse_args().runs
    found = measure(runs) if runs else json.loads(FILE.read_text(encoding="utf-8"))
    print(table(found))
    if runs:
        FILE.write_text(f"{json.dumps(found, separators=(',', ':'))}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
