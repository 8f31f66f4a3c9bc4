"""Write the splits of SCAN as parallel text: commands, and the actions that they stand for.

    python experiments/scan-length/prepare.py  # after: seq2seq-attn data get scan

SCAN has no validation set. The one written here is 500 pairs of the training text, which stay in it: it shows whether a
model has learned what it was trained on, and nothing is chosen by it.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

SPLITS = ("simple", "length")
VALIDATION_PAIRS = 500


def main(arguments: list[str] | None = None) -> None:
    """The files of every split, beside the ones that they are made from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/scan"))
    folder = parser.parse_args(arguments).folder
    for split in SPLITS:
        train = read_pairs(folder / split / f"tasks_train_{split}.txt.gz")
        step = len(train) / VALIDATION_PAIRS
        pairs = {
            "train": train,
            "validation": [train[int(index * step)] for index in range(VALIDATION_PAIRS)],
            "test": read_pairs(folder / split / f"tasks_test_{split}.txt.gz"),
        }
        for part, lines in pairs.items():
            for side, suffix in enumerate(("commands", "actions")):
                text = "".join(f"{pair[side]}\n" for pair in lines)
                (folder / split / f"{part}.{suffix}").write_text(text, encoding="utf-8")


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The pairs of a file whose lines read `IN: command OUT: actions`."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        pairs = [line.removeprefix("IN:").split("OUT:") for line in lines]
    return [(command.strip(), actions.strip()) for command, actions in pairs]


if __name__ == "__main__":
    main()
