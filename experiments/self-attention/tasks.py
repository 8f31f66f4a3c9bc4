"""What models learn, and up to which length it holds: copy, reverse, and agreement over a distance.

Models are trained by the package, `seq2seq_attn.train`, on sources of up to 10 words, and translate longer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch
from paths import DISTANCES, SENTENCES, gradients, summary

import seq2seq_attn as s2s
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.strict import parse

LONGEST = 10  # words of a source that is trained on
TRAINING, VALIDATION = 16_000, 200  # pairs
WARM_UP = 100  # steps
NOUNS = ("bird", "cat", "dog", "fox")
VERBS = ("jump", "run", "sing", "sleep")

GRU = {
    "kind": "recurrent",
    "embedding_size": 64,
    "encoder": {"hidden_size": 96, "bidirectional": False},  # the other direction would begin at the first word
    "decoder": {"kind": "bahdanau", "hidden_size": 96},
}


def transformer(position: str) -> dict[str, object]:
    layers = {"layers": 2, "feed_forward_size": 128, "position": position}
    return {"kind": "transformer", "embedding_size": 64, "encoder": layers, "decoder": layers}


ARMS: dict[str, dict[str, object]] = {
    "GRU, fixed C": GRU | {"context": {"kind": "fixed"}},
    "GRU, additive attention": GRU | {"context": {"scorer": "additive"}},
    "Transformer, sinusoidal": transformer("sinusoidal"),
    "Transformer, rotary": transformer("rotary"),
}


class Pair(NamedTuple):
    """A source and its target, in words."""

    source: tuple[str, ...]
    target: tuple[str, ...]


def below(random: Random, bound: int) -> int:
    """A number from 0 to `bound - 1`, with the same draws in every release of Python."""
    return int(random.random() * bound)


def agreement(random: Random, distance: int) -> Pair:
    """The verb agrees with the first word, `distance` words before it; the nouns between do not matter.

    dogs cat foxes sing -> sing          dog cats foxes sing -> sings
    """
    subject, verb = NOUNS[below(random, len(NOUNS))], VERBS[below(random, len(VERBS))]
    is_plural = below(random, 2)
    between = [_number(NOUNS[below(random, len(NOUNS))], below(random, 2)) for _ in range(distance - 1)]
    source = (_number(subject, is_plural), *between, verb)
    return Pair(source, (verb if is_plural else f"{verb}s",))


def _number(noun: str, is_plural: int) -> str:
    return f"{noun}{'es' if noun == 'fox' else 's'}" if is_plural else noun


def letters(step: int) -> Callable[[Random, int], Pair]:
    """Random letters, and the same read forwards (a step of 1) or backwards (-1)."""

    def draw(random: Random, length: int) -> Pair:
        source = tuple(chr(97 + below(random, 26)) for _ in range(length))
        return Pair(source, source[::step])

    return draw


# A random pair with this many words, or over this distance.
TASKS: dict[str, Callable[[Random, int], Pair]] = {
    "copy": letters(1),
    "reverse": letters(-1),
    "agreement": agreement,
}


def write_task(task: str, folder: Path, training: int = TRAINING) -> None:
    """The corpus of a task, in a folder."""
    random = Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for part, size in {"train": training, "validation": VALIDATION}.items():
        pairs = [TASKS[task](random, 1 + below(random, LONGEST)) for _ in range(size)]
        for side, lines in zip(Pair._fields, zip(*pairs, strict=True), strict=True):
            (folder / f"{part}.{side}").write_text("".join(f"{' '.join(line)}\n" for line in lines), encoding="utf-8")


def configuration(arm: str, seed: int, folder: Path, epochs: int) -> Config:
    values = {
        "seed": seed,
        "data": {
            "train": {"source": f"{folder}/train.source", "target": f"{folder}/train.target"},
            "validation": {"source": f"{folder}/validation.source", "target": f"{folder}/validation.target"},
            "max_length": 200,
        },
        "text": {"tokenizer": "word"},
        "model": {"tie_embeddings": "none", "dropout": {"embedding": 0.0, "state": 0.0, "readout": 0.0}} | ARMS[arm],
        "training": {
            "max_epochs": epochs,
            "batch_size": 64,
            "label_smoothing": 0.0,
            "ema_decay": None,
            "validate_every": epochs,
            "monitor": "loss",
            "patience": None,
            "accelerator": "cpu",
            "optimizer": {"learning_rate": 3e-3, "schedule": "cosine", "warmup_steps": WARM_UP},
        },
        "search": {"beam_size": 1},
    }
    return parse(Config, values)


def tasks(
    seeds: Sequence[int],
    lengths: Sequence[int],
    sentences: int,
    runs: Path,
    epochs: int,
    training: int = TRAINING,
    farthest: int = 100,
) -> dict[str, object]:
    """Accuracy of every arm on every task at each length, over seeds, and the gradients of the trained encoders."""
    found: dict[str, object] = {"seeds": list(seeds), "lengths": list(lengths), "sentences": sentences}
    found |= {"trained on": LONGEST, "pairs": training, "epochs": epochs}
    shown = [distance for distance in DISTANCES if distance <= farthest]
    found |= {"accuracy": {}, "parameters": {}, "seconds": {}, "distances": shown, "log10": {}}
    for task in TASKS:
        folder = runs / task / "data"
        write_task(task, folder, training)
        for arm in ARMS:
            models = [train(configuration(arm, seed, folder, epochs), runs / task / f"{arm} {seed}") for seed in seeds]
            accuracies = [[accuracy(model, task, length, sentences) for model in models] for length in lengths]
            found["accuracy"].setdefault(task, {})[arm] = accuracies
            found["parameters"].setdefault(task, {})[arm] = models[0].parameters
            seconds = [model.metrics["training"]["seconds"] for model in models]
            found["seconds"].setdefault(task, {})[arm] = [round(each, 1) for each in seconds]
            curves = [trained_gradients(model, task, farthest) for model in models]
            found["log10"].setdefault(task, {})[arm] = [
                summary([curve[distance] for curve in curves]) for distance in shown
            ]
    return found


def train(config: Config, folder: Path) -> s2s.Model:
    """The trained model; a run that has ended is not trained again, and one that was interrupted continues."""
    model = s2s.train(config, folder, if_exists="resume", silent=True)
    fitted = model.metrics["training"]
    print(f"{folder}: {fitted['seconds']:.0f} s, validation loss {fitted['best']:.4f}", flush=True)
    return model


def accuracy(model: s2s.Model, task: str, length: int, sentences: int) -> float:
    """The share of target words that are at their position in greedy translations of new sources of this length."""
    random = Random(length)  # the same sentences for every model
    pairs = [TASKS[task](random, length) for _ in range(sentences)]
    found = model.translate([" ".join(pair.source) for pair in pairs]).sentences
    return right_words([each.split() for each in found], [pair.target for pair in pairs])


def right_words(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """The share of the wanted words that stand at the same position of what was found."""
    right = sum(a == b for ours, theirs in zip(found, wanted, strict=True) for a, b in zip(ours, theirs, strict=False))
    return right / sum(map(len, wanted))


def trained_gradients(model: s2s.Model, task: str, farthest: int) -> list[float]:
    """`paths.gradients` of a trained encoder, on sentences of its task."""
    random, codec = Random(1), model.trained.source
    sources = [TASKS[task](random, farthest).source for _ in range(SENTENCES)]
    ids = [codec.encode(" ".join(source))[: farthest + 1] for source in sources]
    translator = model.trained.translator.double()
    with torch.no_grad():
        x = translator.embed_source(pad(ids))
    found: list[float] = gradients(translator.encoder.network, x, 1).tolist()
    return found
