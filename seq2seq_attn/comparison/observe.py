"""Observations on finished runs: learning curves, attention maps, beam searches, and the sentences that differ most."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_attn.analysis.beam_trace import example_lines, trace_pair
from seq2seq_attn.analysis.scoring import TRANSLATIONS
from seq2seq_attn.analysis.word_alignment import word_attention
from seq2seq_attn.comparison.experiment import ArmRun, RunGrid
from seq2seq_attn.evaluation.corpus_scores import sentence_chrf
from seq2seq_attn.results.observations import (
    SHOWN,
    ContrastiveSentence,
    ContrastiveSentences,
    DecodingTrace,
    Example,
    ScoredTranslation,
    save_examples,
    save_sentences,
)
from seq2seq_attn.runs.corpora import TestSet
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.files import read_lines, write_bytes


def observe(grid: RunGrid, runs: Path, test_set: TestSet, output: Path, chrf_signature: str) -> None:
    """Writes curves.json, attention.json, examples.json and sentences.json into `output`.

    The curves are those of all runs; the other files are about the first run of each arm.
    """
    pairs = test_set.pairs
    gold = test_set.gold and test_set.gold.sure
    lines = example_lines(test_set)
    maps: list[dict[str, Any]] = []
    readings: dict[int, list[DecodingTrace]] = {line: [] for line in lines}
    for arm, group in grid.arms():
        model = TrainedModel.load(runs / group[0].folder)
        attention = word_attention(model, [pairs.source[i] for i in lines], [pairs.target[i] for i in lines])
        maps += [
            {
                "arm": arm,
                "source": words.source,
                "target": words.target,
                "weights": np.round(words.weights, 4).tolist(),
                "gold": sorted(gold[line]) if gold else None,
            }
            for line, words in zip(lines, attention, strict=True)
            if words is not None and words.weights.any()
        ]
        for line in lines:
            readings[line].append(trace_pair(model, arm, pairs.source[line], pairs.target[line]))
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
    """The validation results of a run by epoch, including those before an interruption."""
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


def extremes(
    pairs: ParallelCorpus, translations: Mapping[str, Sequence[str]], baseline: str, signature: str
) -> ContrastiveSentences:
    """The sentences on which an arm gains or loses most over the baseline, `SHOWN` of each kind for each arm.

    The difference is that in sentence-level chrF. `translations` has those of one run per arm, `signature` is that of
    the corpus-level chrF.
    """
    scores = {
        arm: [round(score, 2) for score in sentence_chrf(lines, pairs.target)] for arm, lines in translations.items()
    }
    every = [
        ContrastiveSentence(
            index + 1,
            pairs.source[index],
            pairs.target[index],
            {arm: ScoredTranslation(lines[index], scores[arm][index]) for arm, lines in translations.items()},
        )
        for index in range(len(pairs))
    ]
    whole = ContrastiveSentences("chrF2", signature, tuple(every))
    ranked = [whole.ranked(arm, baseline) for arm in translations if arm != baseline]
    shown = {sentence.line for each in ranked for sentence in (*each[:SHOWN], *each[-SHOWN:])}
    return ContrastiveSentences("chrF2", signature, tuple(sentence for sentence in every if sentence.line in shown))


def _write_json(path: Path, values: Any) -> None:
    write_bytes(path, (json.dumps(values, ensure_ascii=False) + "\n").encode())
