"""Trains and translates again and again in one process, and checks that memory and open files stay as they are.

    nice python benchmarks/soak.py                  two hours
    nice python benchmarks/soak.py --minutes 10     a shorter look

A round trains a small model for one epoch on sentences of the embedded corpus, resumes it for another, loads it,
translates by beam search and greedily, and scores. After each round a line gives its number, the memory of the process
(resident, after freed memory was returned to the system), open files and threads. The first quarter of the rounds
warms up. Exit code 1: of the other three, the last third needs more than the first by over `MEMORY_LIMIT` of memory, or
has more open files or threads.
"""

import argparse
import gzip
import os
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import seq2seq_attn as s2s
from seq2seq_attn.ops.host import give_back_freed_memory, keep_freed_memory

CORPUS = Path(__file__).parents[1] / "data" / "tom-and-jerry"
SIDES = {"source": "en", "target": "zh"}
TRAINING, OTHERS, TRANSLATED = 1200, 60, 120  # sentences
MEMORY_LIMIT = 0.005  # share of the memory; single rounds differ by less than 0.1 %
MIN_ROUNDS = 8

CONFIG = {
    "text": {"tokenizer": "word", "target_language": "zh"},
    "model": {"embedding_size": 24, "encoder": {"hidden_size": 20}, "decoder": {"hidden_size": 28}},
    "training": {"batch_size": 40, "max_epochs": 1, "patience": None, "monitor": "loss", "accelerator": "cpu"},
}


class State(NamedTuple):
    """What a process holds."""

    memory: int  # resident, in bytes
    files: int
    threads: int


def state() -> State:
    """That of this process, on Linux."""
    give_back_freed_memory()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return State(pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), threading.active_count())


def write_corpus(folder: Path) -> dict[str, dict[str, str]]:
    """The first sentences of each part; returns the section `data` of a configuration."""
    section = {}
    for part, count in {"train": TRAINING, "validation": OTHERS, "test": TRANSLATED}.items():
        section[part] = {side: str(folder / f"{part}.{language}") for side, language in SIDES.items()}
        for language in SIDES.values():
            path = CORPUS / f"{part}.{language}"
            packed = path.with_name(f"{path.name}.gz")
            with gzip.open(packed, "rb") if packed.exists() else path.open("rb") as file:
                (folder / f"{part}.{language}").write_bytes(b"".join(islice(file, count)))
    return section


def one_round(config: dict[str, Any], folder: Path) -> None:
    longer: dict[str, Any] = {"training.max_epochs": 2}
    s2s.train(config, folder / "run", if_exists="overwrite", silent=True)
    s2s.train(config, folder / "run", if_exists="resume", silent=True, **longer)
    model = s2s.load(folder / "run")
    lines = (folder / "test.en").read_text(encoding="utf-8").splitlines()
    targets = (folder / "test.zh").read_text(encoding="utf-8").splitlines()
    model.translate(lines, beam_size=4)
    model.translate(lines, beam_size=1)
    model.score(zip(lines, targets, strict=True))


def growth(states: list[State]) -> list[str]:
    """What has grown over the rounds, in words."""
    warm = states[len(states) // 4 :]
    third = len(warm) // 3
    first, last = (State(*map(median, zip(*part, strict=True))) for part in (warm[:third], warm[-third:]))
    found = []
    if last.memory > (1 + MEMORY_LIMIT) * first.memory:
        found.append(f"memory: {first.memory / 1e6:.0f} MB, then {last.memory / 1e6:.0f} MB")
    found += [
        f"{name}: {getattr(first, name):.0f}, then {getattr(last, name):.0f}"
        for name in ("files", "threads")
        if getattr(last, name) > getattr(first, name)
    ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Train and translate with flat memory.")
    parser.add_argument("--minutes", type=float, default=120.0)
    end = time.monotonic() + 60 * parser.parse_args().minutes
    keep_freed_memory()
    states: list[State] = []
    with tempfile.TemporaryDirectory() as name:
        config = CONFIG | {"data": write_corpus(Path(name))}
        while len(states) < MIN_ROUNDS or time.monotonic() < end:
            one_round(config, Path(name))
            states.append(state())
            memory, files, threads = states[-1]
            print(f"{len(states)}\t{memory / 1e6:.1f} MB\t{files} files\t{threads} threads", flush=True)
    found = growth(states)
    print("; ".join(found) or f"nothing has grown over {len(states)} rounds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
