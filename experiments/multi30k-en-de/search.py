"""What search brings to the trained models, and what faster search costs: beams, ensembles, precisions, and others.

Each row changes one thing of what the comparison tested (beam 5, length penalty 1, averaged weights of the best
validation). The settings were written down before the test set was translated with any of them.

    python experiments/multi30k-en-de/search.py comparisons/multi30k-en-de  # half an hour; writes results/search.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

import seq2seq_attn as s2s
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, bleu_counting
from seq2seq_attn.evaluation.resampling import score_interval
from seq2seq_attn.evaluation.significance import RunScores, holm, joint_test
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.differences import LEVEL
from seq2seq_attn.runs.corpora import read_pairs

ARM = "additive-attention"  # the folder of its runs
SETTINGS: dict[str, dict[str, Any]] = {
    "beam 5, length penalty 1": {},
    "greedy": {"beam_size": 1},
    "beam 2": {"beam_size": 2},
    "beam 10": {"beam_size": 10},
    "beam 20": {"beam_size": 20},
    "length penalty 0": {"length_penalty": 0.0},
    "length penalty 0.6": {"length_penalty": 0.6},
    "length penalty 1.4": {"length_penalty": 1.4},
    "minimum Bayes risk, chrF, the 20 best of beam 20": {"mbr": "chrf", "candidates": 20, "beam_size": 20},
    "minimum Bayes risk, BLEU, the 20 best of beam 20": {"mbr": "bleu", "candidates": 20, "beam_size": 20},
    "minimum Bayes risk, chrF, 20 samples": {"mbr": "chrf", "candidates": 20, "temperature": 1.0, "seed": 1},
    "a sample": {"temperature": 1.0, "seed": 1},
    "bf16": {"precision": "bf16"},
    "int8": {"precision": "int8"},
    "shortlist": {"shortlist": 50},
    "int8, shortlist": {"precision": "int8", "shortlist": 50},
}
LAST, LAST_AVERAGE = "weights of the last step", "averaged weights of the last step"
ENSEMBLE = "ensemble of these models"


def with_weights_of_the_last_step(folder: Path, averaged: bool) -> s2s.Model:
    """The run with the weights that its training ended with, or with their moving average."""
    model = s2s.load(folder)
    checkpoint = load_file(folder / "checkpoints" / "last.safetensors")
    weights = {name: each for name, each in model.trained.translator.named_parameters() if each.requires_grad}
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(checkpoint[f"average.{name}" if averaged else f"weights.{name}"])
    return model


def translations(runs: Sequence[Path], source: Sequence[str]) -> dict[str, list[list[str]]]:
    """By row of the table, the translations of each run; one for the ensemble."""
    models = [s2s.load(run) for run in runs]
    rows = {}
    for name, options in SETTINGS.items():
        rows[name] = [model.translate(source, **options).sentences for model in models]
        print(name, flush=True)
    for name, averaged in ((LAST, False), (LAST_AVERAGE, True)):
        rows[name] = [with_weights_of_the_last_step(run, averaged).translate(source).sentences for run in runs]
    first, *others = models
    rows[ENSEMBLE] = [first.translate(source, ensemble=others).sentences]
    return rows


def scores(rows: dict[str, list[list[str]]], references: Sequence[str]) -> dict[str, dict[str, Any]]:
    """BLEU of each row, and its difference from the first row by the joint test over training runs and sentences."""
    counting = bleu_counting(Expected([references], tokenize="none"))
    counts = {name: CorpusCounts.of(counting, runs) for name, runs in rows.items()}
    usual = next(iter(rows.values()))
    first = RunScores.of(next(iter(counts.values())))
    found: dict[str, dict[str, Any]] = {}
    tested = {}
    for name, each in counts.items():
        bleu = each.scores()
        found[name] = {"bleu": bleu.tolist(), "mean": bleu.mean()}
        if each.runs == 1:
            interval = score_interval(each)
            found[name] |= {"low": interval.low, "high": interval.high}
        else:
            same = np.mean(np.array(rows[name]) == np.array(usual))
            found[name] |= {"std": bleu.std(ddof=1), "same": float(same)}
            if (test := joint_test(RunScores.of(each), first, paired=True)) is not None:
                tested[name] = test
    for (name, test), p in zip(tested.items(), holm([test.p_value for test in tested.values()]), strict=True):
        found[name] |= {"difference": test.difference, "low": test.low, "high": test.high, "p_holm": p}
    return found


def table(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Markdown; a difference whose corrected p is below `LEVEL` is bold."""
    rows = []
    for name in found["test"]:
        cells = [name]
        for part in ("validation", "test"):
            row = found[part][name]
            cells.append(f"{row['mean']:.1f} ± {row['std']:.1f}" if "std" in row else f"{row['mean']:.1f}")
        row = found["test"][name]
        difference, same = "", f"{100 * row['same']:.0f} %" if "same" in row else ""
        if "difference" in row:
            difference = f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            difference = f"**{difference}**" if row["p_holm"] < LEVEL else difference
        rows.append([*cells, difference, same])
    header = ["change", "BLEU, validation", "BLEU, test", "difference, test", "same translation, test"]
    return markdown_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder that compare wrote")
    parser.add_argument("--sentences", type=int, help="of each set, for a quick look")
    options = parser.parse_args()
    runs = sorted((options.comparison / "runs" / ARM).glob("seed-*"))
    data = s2s.load(runs[0]).config.data
    assert data.test is not None
    found = {}
    for part, files in (("validation", data.validation), ("test", data.test)):
        pairs = read_pairs(files)
        source, target = (each[: options.sentences] for each in (pairs.source, pairs.target))
        found[part] = scores(translations(runs, source), target)
    if options.sentences is None:
        output = Path(__file__).parent / "results" / "search.json"
        output.write_text(f"{json.dumps(found, indent=1)}\n")
    print(table(found))


if __name__ == "__main__":
    main()
