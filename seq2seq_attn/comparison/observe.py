"""What complete runs show beside their scores: learning curves, attention, beams, and where the arms differ most."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_attn.analysis.align import attend
from seq2seq_attn.analysis.evaluate import TRANSLATIONS
from seq2seq_attn.analysis.examples import read_pair, shown_pairs
from seq2seq_attn.comparison.experiment import ArmRun, Grid
from seq2seq_attn.comparison.extremes import extremes
from seq2seq_attn.results.examples import ArmReading, Example, save_examples
from seq2seq_attn.results.sentences import save_sentences
from seq2seq_attn.runs.data import TestSet
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.text.files import read_lines, write_bytes


def observe(grid: Grid, runs: Path, test_set: TestSet, output: Path, chrf_signature: str) -> None:
    """Writes curves.json, attention.json, examples.json and sentences.json; of each arm the first run is asked."""
    pairs = test_set.pairs
    gold = test_set.gold and test_set.gold.sure
    lines = shown_pairs(test_set)
    maps: list[dict[str, Any]] = []
    readings: dict[int, list[ArmReading]] = {line: [] for line in lines}
    for arm, group in grid.arms():
        model = TrainedModel.load(runs / group[0].folder)
        seen = attend(model, [pairs.source[i] for i in lines], [pairs.target[i] for i in lines])
        maps += [
            {
                "arm": arm,
                "source": words.source,
                "target": words.target,
                "weights": np.round(words.weights, 4).tolist(),
                "gold": sorted(gold[line]) if gold else None,
            }
            for line, words in zip(lines, seen, strict=True)
            if words is not None and words.weights.any()
        ]
        for line in lines:
            readings[line].append(read_pair(model, arm, pairs.source[line], pairs.target[line]))
    examples = [
        Example(
            line + 1, pairs.source[line], pairs.target[line], tuple(sorted(gold[line])) if gold else None, tuple(each)
        )
        for line, each in readings.items()
    ]
    translations = {arm: read_lines(runs / group[0].folder / TRANSLATIONS) for arm, group in grid.arms()}
    _write_json(output / "curves.json", {arm: [_curve(r, runs) for r in group] for arm, group in grid.arms()})
    _write_json(output / "attention.json", maps)
    save_examples(examples, output / "examples.json")
    save_sentences(extremes(pairs, translations, grid.experiment.baseline, chrf_signature), output / "sentences.json")


def _curve(run: ArmRun, runs: Path) -> dict[str, Any]:
    """The validation figures of a run, epoch by epoch, those before an interruption included."""
    epochs: dict[int, dict[str, str]] = {}
    versions = (runs / run.folder / "log").glob("version_*/metrics.csv")
    for path in sorted(versions, key=lambda path: int(path.parent.name.removeprefix("version_"))):
        with path.open(encoding="utf-8", newline="") as file:
            epochs |= {int(row["epoch"]) + 1: row for row in csv.DictReader(file) if row.get("validation_loss")}
    rows = [epochs[epoch] for epoch in sorted(epochs)]
    return {
        "seed": run.seed,
        "epoch": sorted(epochs),
        "validation_loss": [float(row["validation_loss"]) for row in rows],
        "validation_bleu": [float(row["validation_bleu"]) if row.get("validation_bleu") else None for row in rows],
    }


def _write_json(path: Path, values: Any) -> None:
    write_bytes(path, (json.dumps(values, ensure_ascii=False) + "\n").encode())
