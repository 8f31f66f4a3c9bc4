"""Write the splits of SCAN as parallel text: commands, and the actions that they stand for.

    python experiments/scan-length/prepare.py  # after: seq2seq-attn data get scan

SCAN has no validation set. The one written here is 500 pairs of the training text, which stay in it: it shows whether a
model has learned what it was trained on, and nothing is chosen by it. In `held-out`, made of the training text of the
length split, validation and test are longer than training: 500 and all other pairs of more than 16 actions.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from pathlib import Path

Pair = tuple[str, str]  # a command, and its actions

SPLITS = ("simple", "length")
VALIDATION_PAIRS = 500
LONGEST = 16  # actions of a training pair of `held-out`


def main(arguments: list[str] | None = None) -> None:
    """The files of every split, beside the ones that they are made from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/scan"))
    folder = parser.parse_args(arguments).folder
    for split in SPLITS:
        train = read_pairs(folder / split / f"tasks_train_{split}.txt.gz")
        test = read_pairs(folder / split / f"tasks_test_{split}.txt.gz")
        write(folder / split, train=train, validation=spread(train), test=test)
    short, long = (
        [pair for pair in read_pairs(folder / "length/tasks_train_length.txt.gz") if is_long(pair) == wanted]
        for wanted in (False, True)
    )
    validation = spread(long)
    write(folder / "held-out", train=short, validation=validation, test=[p for p in long if p not in set(validation)])


def is_long(pair: Pair) -> bool:
    """Whether it has more actions than the training pairs of `held-out`."""
    return len(pair[1].split()) > LONGEST


def spread(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs from the whole length of these, for validation."""
    step = len(pairs) / VALIDATION_PAIRS
    return [pairs[int(index * step)] for index in range(VALIDATION_PAIRS)]


def write(folder: Path, **parts: Sequence[Pair]) -> None:
    """Two files for each part, with a line per pair."""
    folder.mkdir(exist_ok=True)
    for part, pairs in parts.items():
        for side, suffix in enumerate(("commands", "actions")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{part}.{suffix}").write_text(text, encoding="utf-8")


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file whose lines read `IN: command OUT: actions`."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        pairs = [line.removeprefix("IN:").split("OUT:") for line in lines]
    return [(command.strip(), actions.strip()) for command, actions in pairs]


if __name__ == "__main__":
    main()
