"""Write the dialogues of dialog bAbI as parallel text: all that was said and found before, and the response.

    python experiments/dialog-babi/prepare.py  # after: seq2seq-attn data get dialog-babi

A source is what the system knows when it has to respond: all utterances of both sides and all facts that were found so
far, in their order, as Madotto et al. (2018) give it to their encoder-decoders. So each source of a dialogue begins
with the source and the response of the turn before. For validation, the first 200 dialogues of the development set are
enough; the other sets are complete.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

PARTS = {"train": "trn", "validation": "dev", "test": "tst", "test-oov": "tst-OOV"}
TASKS = {5: tuple(PARTS), 6: ("train", "validation", "test")}
VALIDATION_DIALOGUES = 200


def main(arguments: list[str] | None = None) -> None:
    """The files of every task, in a folder of its own beside the ones that they are made from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/dialog-babi"))
    folder = parser.parse_args(arguments).folder
    for task, parts in TASKS.items():
        (folder / f"task-{task}").mkdir(exist_ok=True)
        for part in parts:
            with gzip.open(folder / f"dialog-babi-task{task}{PARTS[part]}.txt.gz", "rt", encoding="utf-8") as lines:
                wanted = islice(dialogues(lines), VALIDATION_DIALOGUES if part == "validation" else None)
                pairs = [turn for dialogue in wanted for turn in turns(dialogue)]
            for side, suffix in enumerate(("history", "response")):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (folder / f"task-{task}" / f"{part}.{suffix}").write_text(text, encoding="utf-8")


def dialogues(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of each dialogue, between blank lines."""
    dialogue: list[str] = []
    for line in lines:
        if line.strip():
            dialogue.append(line)
        elif dialogue:
            yield dialogue
            dialogue = []
    if dialogue:
        yield dialogue


def turns(dialogue: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The history and the response of each turn; a line is `n utterance TAB response`, or `n fact`."""
    history: list[str] = []
    for line in dialogue:
        said, *responses = (" ".join(part.split()) for part in line.partition(" ")[2].split("\t"))
        history.append(said)
        for response in responses:
            yield " ".join(history), response
            history.append(response)


if __name__ == "__main__":
    main()
