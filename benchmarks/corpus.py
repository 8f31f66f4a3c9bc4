"""A large corpus: time and memory of its preparation, of training on it, and of the batches of an even larger one.

    python benchmarks/corpus.py --folder /tmp/corpus                          10 million pairs, 3 GB of disk
    python benchmarks/corpus.py --folder /tmp/corpus --pairs 200000 --steps 20

Pairs are synthetic: words by Zipf's law, about 10 a side. Each part runs in a process of its own, whose memory is
sampled together with that of the processes it starts, shared pages counted once (Linux, `smaps_rollup`):

- `prepare`: what `train` does with text, from reading it to memory-mapped token ids.
- `train`: steps of a small model, in turn on the mapped corpus in windows and on a copy of it in memory, in one window.
- `batches`: the batches of an epoch of `--batches-of` pairs, of which only the lengths exist.

Memory is what no other program can have (`anonymous`), and that with the pages of mapped files (`resident`), which the
system takes back when it needs them. Delete the folder afterwards.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.mixture import WINDOW, Mixture
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.cache import Cache, cached_front_ends, cached_pairs
from seq2seq_attn.runs.corpora import EncodedCorpus, FrontEnds
from seq2seq_attn.strict import parse
from seq2seq_attn.training.batches import Batch, EncodedPairs
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loop import Loop

PARTS = "prepare", "train", "batches"
WORDS = 50_000
MEAN = 10  # words a side


def write_text(folder: Path, pairs: int) -> None:
    """Two files of synthetic text, unless they are there."""
    draw, words = np.random.default_rng(1), np.array([_spelled(number) for number in range(WORDS)])
    frequent = np.cumsum(1 / np.arange(1, WORDS + 1))
    frequent /= frequent[-1]
    for side in ("source", "target"):
        if (folder / side).exists():
            continue
        with (folder / "unfinished").open("w") as file:
            for start in range(0, pairs, 100_000):
                lengths = draw.poisson(MEAN - 1, min(100_000, pairs - start)) + 1
                chosen = words[np.searchsorted(frequent, draw.random(lengths.sum()))].tolist()
                ends = np.cumsum(lengths).tolist()
                lines = (chosen[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True))
                file.writelines(f"{' '.join(line)}\n" for line in lines)
        (folder / "unfinished").rename(folder / side)


def _spelled(number: int) -> str:
    """A pronounceable word for a number."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    word = ""
    while number or not word:
        number, index = divmod(number, len(syllables))
        word += syllables[index]
    return word


def configuration(folder: Path) -> Config:
    """A small model on that text."""
    files = {side: str(folder / side) for side in ("source", "target")}
    sizes = {"embedding_size": 128, "encoder": {"hidden_size": 128}, "decoder": {"hidden_size": 128}}
    return parse(
        Config,
        {
            "data": {"train": files, "validation": files},
            "text": {"vocabulary_size": 8000},
            "model": sizes,
            "training": {"accelerator": "cpu", "batch_size": 64, "monitor": "loss"},
        },
    )


def prepared(folder: Path) -> tuple[Config, FrontEnds, EncodedCorpus]:
    """The corpus as a training gets it."""
    config = configuration(folder)
    cache = Cache(folder / "cache", say=lambda text: print(text, file=sys.stderr))
    front_ends = cached_front_ends(config, cache)
    return config, front_ends, cached_pairs(config.data.train, front_ends, cache)


def prepare(folder: Path, _options: argparse.Namespace) -> dict[str, float]:
    start = time.perf_counter()
    config = configuration(folder)
    cached_front_ends(config, Cache(folder / "cache"))
    learned = time.perf_counter()
    corpus = prepared(folder)[2]
    return {
        "seconds to learn vocabularies": learned - start,
        "seconds in all": time.perf_counter() - start,
        "million tokens": (int(corpus.source.offsets[-1]) + int(corpus.target.offsets[-1])) / 1e6,
    }


def train(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The ratio is the median over pairs of turns: first one of the two, then the other."""
    config, front_ends, corpus = prepared(folder)
    torch.manual_seed(1)
    model = build_translator(config, *front_ends)
    start = time.perf_counter()
    mapped = EncodedPairs(corpus.source, corpus.target, 64, seed=1)
    ready = time.perf_counter() - start
    sides = [mapped]
    if not options.mapped_only:
        source, target = (
            EncodedLines(side.values.copy(), side.offsets.copy()) for side in (corpus.source, corpus.target)
        )
        whole = Mixture([len(corpus.source)], seed=1, window=len(corpus.source))
        sides.append(EncodedPairs(source, target, 64, seed=1, mixture=whole))
    loop = Loop(model, TrainingConfig(accelerator="cpu", monitor="loss"), mapped, [], None, folder)
    loop.log_every = 1 << 60  # there are no curves to write
    iterators = [iter(side) for side in sides]
    for batches in iterators:  # the first of a window waits for all of them
        loop.step([next(batches)])
    seconds: list[list[float]] = []
    for turn in range(options.turns):
        order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
        taken = {number: _seconds_of(loop, iterators[number], options.steps) for number in order}
        seconds.append([taken[number] for number in range(len(sides))])
    start = time.perf_counter()
    next(iter(mapped))
    window = time.perf_counter() - start
    steps = min(WINDOW, len(corpus.source)) / 64
    step = median(each[0] for each in seconds)
    found = {
        "seconds to count the batches of an epoch": ready,
        "seconds to make a window": window,
        "milliseconds of a step": 1000 * step,
        "share of windows in the time, %": 100 * window / (window + steps * step),
    }
    if len(sides) > 1:
        found["speed, mapped over in memory"] = median(memory / own for own, memory in seconds)
    return found


def _seconds_of(loop: Loop, batches: Iterator[Batch], steps: int) -> float:
    start = time.perf_counter()
    for batch in islice(batches, steps):
        loop.step([batch])
    return (time.perf_counter() - start) / steps


def draw_batches(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Where all lines are, in memory-mapped files; their tokens are the holes of an empty file."""
    sides: list[EncodedLines] = []
    for side in range(2):
        path = folder / f"{options.batches_of}.{side}.npy"
        offsets = np.lib.format.open_memmap(path, "w+", np.int64, (options.batches_of + 1,))  # type: ignore[no-untyped-call]
        draw, end = np.random.default_rng(side), 0
        for start in range(0, options.batches_of, WINDOW):
            part = offsets[1 + start : 1 + start + WINDOW]
            part[:] = end + np.cumsum(draw.poisson(MEAN - 1, len(part)) + 2)
            end = int(part[-1])
        del offsets
        values = np.memmap(path.with_suffix(".values"), np.int32, "w+", shape=(end,))
        sides.append(EncodedLines(np.asarray(values), np.asarray(np.load(path, mmap_mode="r"))))
    source, target = sides
    begun = time.perf_counter()
    pairs = EncodedPairs(source, target, 4096, "tokens", seed=1)
    counted = time.perf_counter()
    drawn = sum(1 for _ in islice(pairs, options.batches))
    return {
        "windows": len(pairs.mixture),
        "batches of an epoch": len(pairs),
        "seconds to count them": counted - begun,
        "batches drawn": drawn,
        "milliseconds for a batch": 1000 * (time.perf_counter() - counted) / drawn,
    }


def memory_of(process: int) -> dict[str, int]:
    """Bytes of a process and of those that it has started; 0 where they have ended."""
    total = {"anonymous": 0, "resident": 0}
    for each in (process, *_children(process)):
        try:
            lines = [line.split() for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()[1:]]
        except OSError:
            continue
        sizes = {line[0]: int(line[1]) * 1024 for line in lines}
        total["anonymous"] += sizes["Pss_Anon:"]
        total["resident"] += sizes["Pss:"]
    return total


def _children(process: int) -> list[int]:
    try:
        found = [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
    return found + [further for each in found for further in _children(each)]


def measure(part: str, arguments: list[str]) -> None:
    """Runs a part in a process of its own, and prints what it found and its memory."""
    command = [sys.executable, __file__, *arguments, "--in-process", part]
    most = {"anonymous": 0, "resident": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            now = memory_of(process.pid)
            most = {key: max(most[key], now[key]) for key in most}
            time.sleep(0.2)
        assert process.stdout is not None
        found = json.loads(process.stdout.read() or "{}")
    if process.returncode:
        sys.exit(process.returncode)
    figures = found | {f"GB of memory, {key}": most[key] / 1e9 for key in most}
    print(f"{part}:", *(f"  {name}: {value:,.3f}" for name, value in figures.items()), sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for text, token ids and lengths")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--batches-of", type=int, default=100_000_000, help="pairs")
    parser.add_argument("--batches", type=int, default=20_000, help="that are drawn")
    parser.add_argument("--steps", type=int, default=50, help="of a turn")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--mapped-only", action="store_true", help="train without the copy in memory")
    parser.add_argument("--what", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--in-process", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        part = {"prepare": prepare, "train": train, "batches": draw_batches}[options.in_process]
        print(json.dumps(part(options.folder, options)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    if set(options.what) - {"batches"}:
        write_text(options.folder, options.pairs)
    for part in options.what:
        measure(part, sys.argv[1:])


if __name__ == "__main__":
    main()
