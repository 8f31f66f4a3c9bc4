"""BLEU on sentences of the training text, by length: does the vector hold what the model was trained on?

python experiments/capacity/training_sentences.py comparisons/capacity  # a minute

Writes results/training_sentences.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

import seq2seq_attn as s2s
from seq2seq_attn.runs.corpora import read_pairs

SENTENCES = 1000  # the first of the training text


def scores_by_length(run: Path) -> dict[str, float]:
    """BLEU on the first training sentences, and on those of each band of source lengths."""
    model = s2s.load(run)
    pairs = read_pairs(model.config.data.train)
    sources, targets = pairs.source[:SENTENCES], pairs.target[:SENTENCES]
    scores = s2s.evaluate(
        model.translate(sources).sentences, targets, source=sources, tokenize=model.config.evaluation.tokenize
    )
    bands = {f"{band['low']}-{band['high']}": band["score"] for band in scores["by_length"]}
    return {name: round(bleu, 2) for name, bleu in ({"all": scores["bleu"]["value"]} | bands).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder that compare wrote")
    found: dict[str, list[dict[str, float]]] = {}
    for run in sorted((parser.parse_args().comparison / "runs").glob("*/seed-*")):
        found.setdefault(run.parent.name, []).append(scores_by_length(run))
    (Path(__file__).parent / "results" / "training_sentences.json").write_text(f"{json.dumps(found, indent=1)}\n")
    for arm, runs in found.items():
        print(arm, {name: round(mean(run[name] for run in runs), 1) for name in runs[0]})


if __name__ == "__main__":
    main()
