"""What the mean of the weights of the last epochs brings, beside the weights of the best epoch of the same runs.

python experiments/recipe/average.py comparisons/recipe  # minutes; writes results/average.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import seq2seq_attn as s2s
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, bleu_counting
from seq2seq_attn.evaluation.significance import RunScores, joint_test
from seq2seq_attn.runs.corpora import read_pairs

ARM = "no-averaged-weights"  # the folder of its runs, which keep the weights of their last epochs


def translations(runs: list[Path], source: list[str]) -> dict[str, list[list[str]]]:
    """Of each run, with its best epoch's weights and with the mean of those of its last epochs."""
    models = [s2s.load(run) for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        averages = [model.average(Path(folder) / str(number)) for number, model in enumerate(models)]
    rows = {"best epoch": models, "mean": averages}
    return {name: [each.translate(source).sentences for each in group] for name, group in rows.items()}


def effect(rows: dict[str, list[list[str]]], references: list[str]) -> dict[str, Any]:
    """BLEU of both, and the difference by the joint test over training runs and sentences."""
    counting = bleu_counting(Expected([references], tokenize="none"))
    counts = {name: CorpusCounts.of(counting, runs) for name, runs in rows.items()}
    test = joint_test(*(RunScores.of(counts[name]) for name in ("mean", "best epoch")), paired=True)
    assert test is not None
    scores = {name: each.scores().tolist() for name, each in counts.items()}
    return scores | {"difference": test.difference, "low": test.low, "high": test.high, "p": test.p_value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder that compare wrote")
    runs = sorted((parser.parse_args().comparison / "runs" / ARM).glob("seed-*"))
    data = s2s.load(runs[0]).config.data
    assert data.test is not None
    pairs = read_pairs(data.test)
    found = effect(translations(runs, list(pairs.source)), list(pairs.target))
    (Path(__file__).parent / "results" / "average.json").write_text(f"{json.dumps(found, indent=1)}\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
