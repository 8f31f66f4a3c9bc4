"""ROUGE of two summaries that need no model: the first words of the text, and its first sentence.

python experiments/package-summaries/baselines.py  # after prepare.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq_attn.corpora.sentences import sentences
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.report.table import markdown_table

KEYS = "rouge_l", "rouge_1", "rouge_2"


def main(arguments: list[str] | None = None) -> None:
    """Prints a table of the test set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/debian-descriptions"))
    folder = parser.parse_args(arguments).folder
    texts, synopses = (
        (folder / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("text", "synopsis")
    )
    length = round(sum(len(each.split()) for each in synopses) / len(synopses))
    baselines = {
        f"the first {length} words": [" ".join(each.split()[:length]) for each in texts],
        "the first sentence": [sentences(each, "en")[0] for each in texts],
    }
    rows = []
    for name, summaries in baselines.items():
        scores = (METRICS[key].score(summaries, Expected([synopses])) for key in KEYS)
        rows.append([name, *(f"{score.value:.1f}" for score in scores if score)])
    print(markdown_table(["summary", *(METRICS[key].label for key in KEYS)], rows))


if __name__ == "__main__":
    main()
