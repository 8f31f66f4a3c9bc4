"""The results folder of an experiment with three arms, two length bands and two seeds: `toy/`.

In examples.json, "chases" is two source tokens and 追逐 is one target token; the beam size is 2.
"""

import base64
import copy
import io
import json
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest

TOY = Path(__file__).parent / "toy"

# "asleep" and 睡着 are two pieces each in the arm with attention; the mean of states uses words.
PIECES = {
    "source": [["Spike", "is", "as", "leep", "</s>"], ["Tom", "chas", "es", "</s>"], ["Tom", "and", "Spike", "</s>"]],
    "target": [["斯派克", "睡", "着", "</s>"], ["汤姆", "追逐", "</s>"], ["汤姆", "</s>"]],
    "source_words": [[0, 1, 2, 2], [0, 1, 1], [0, 1, 2]],
    "target_words": [[0, 1, 1], [0, 1], [0]],
}
PIECE_WEIGHTS = [
    [[0.8, 0.2, 0, 0, 0], [0.2, 0.4, 0.2, 0.2, 0], [0, 0.2, 0.2, 0.4, 0.2], [0, 0, 0, 0, 1]],
    [[1, 0, 0, 0], [0, 0.6, 0.4, 0], [0, 0, 0, 1]],
    [[1, 0, 0, 0], [0, 0, 0.2, 0.8]],
]
PAIRS = [(2, "Spike is asleep", "斯派克 睡着", [[0, 0], [2, 1]]), (4, "Tom chases", "汤姆 追逐", None),
         (7, "Tom and Spike", "汤姆", None)]  # fmt: skip


def packed(matrices):
    """Weights in the format of the file, written without the package's own function."""
    levels = [round(255 * weight) for matrix in matrices for row in matrix for weight in row]
    return base64.b64encode(zlib.compress(bytes(levels))).decode()


@pytest.fixture
def corpus():
    """corpus_attention.json: three of twelve sentences, one of which is an example."""

    def arm(translations, scores, segmentation=None, weights=""):
        return {"seed": 1, "translations": translations, "scores": scores, "segmentation": segmentation,
                "weights": weights}  # fmt: skip

    whole = {"source": [[*source.split(), "</s>"] for _, source, _, _ in PAIRS],
             "target": [[*target.split(), "</s>"] for _, _, target, _ in PAIRS]}  # fmt: skip
    whole |= {f"{side}_words": [list(range(len(each) - 1)) for each in whole[side]] for side in ("source", "target")}
    even = [
        [[1 / len(source)] * len(source)] * len(target)
        for source, target in zip(whole["source"], whole["target"], strict=True)
    ]
    return {
        "sentences": 12,
        "metric": "chrF2",
        "pairs": [dict(zip(("line", "source", "reference", "gold"), pair, strict=True)) for pair in PAIRS],
        "segmentations": [copy.deepcopy(PIECES), whole],
        "arms": {
            "distracted (C at every step)": arm(["斯派克", "看", "汤姆"], [40.0, 0.0, 100.0]),
            "mean of states": arm(["斯派克 看", "汤姆 看", "杰瑞"], [60.0, 50.5, 0.0], 1, packed(even)),
            "注意力": arm(["斯派克 睡着", "汤姆 追逐", "汤姆"], [100.0, 100.0, 100.0], 0, packed(PIECE_WEIGHTS)),
        },
    }


def _read():
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(TOY.iterdir())}


@pytest.fixture
def all_values():
    """The contents of all files that a comparison writes but corpus_attention.json, by name."""
    return _read()


@pytest.fixture
def values():
    """The contents of the three files that every experiment has, without breakdowns."""
    contents = _read()
    del contents["results.json"]["where"]
    return {name: contents[name] for name in ("results.json", "curves.json", "attention.json")}


PIXELS = [[0, 40, 80, 120, 160, 200, 240, 255], [255, 240, 200, 160, 120, 80, 40, 0]]  # of the sound: 8 positions
COLORS = [[[255, 0, 0]] * 4, [[0, 255, 0]] * 4, [[0, 0, 255]] * 4, [[9, 8, 7]] * 4]  # of the image
RATE = 8000


def wav(seconds):
    """A WAV file of silence, written without the package's own function."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
        file.writeframes(bytes(2 * round(seconds * RATE)))
    return content.getvalue()


@pytest.fixture
def seen_values(all_values):
    """The same results, of sources that are not text: a sound with four states, and an image with two rows of two."""

    def reading(arm, source, rows, **more):
        tokens = [*"ab"[: len(rows) - 1], "</s>"]
        steps = [
            {"token": token, "log_probability": -0.5, "weights": row} for token, row in zip(tokens, rows, strict=True)
        ]
        beam = [step | ({"parent": place - 1} if place else {}) for place, step in enumerate(steps)]
        hypotheses = [{"last": len(rows) - 1, "log_probability": -1.0, "score": -0.5}]
        return {"arm": arm, "seed": 1, "beam_size": 2, "source": source, "source_words": None, "norms": None,
                "target_words": list(range(len(rows) - 1)), "beam": beam, "hypotheses": hypotheses,
                "reference": steps} | more  # fmt: skip

    def seen(positions, pixels, shape, **more):
        content = bytes(np.array(pixels, dtype=np.uint8).ravel().tolist())
        return {
            "positions": positions,
            "shape": shape,
            "pixels": base64.b64encode(zlib.compress(content)).decode(),
        } | more

    heard = [[0.125, 0.5, 0.25, 0.125], [0, 0, 0.5, 0.5], [0.25, 0.25, 0.25, 0.25]]
    all_values["examples.json"] = [
        {"line": 2, "source": "a.wav", "reference": "a b", "gold": [[1, 0], [2, 0], [6, 1]],
         "readings": [reading("注意力", ["1", "3", "5", "7"], heard),
                      reading("distracted (C at every step)", ["1", "3", "5", "7"], [None] * 3)],
         "seen": seen(8, PIXELS, [2, 8], seconds=2.0, sound=base64.b64encode(wav(2)).decode())},
        {"line": 4, "source": "b.png", "reference": "a", "gold": None,
         "readings": [reading("注意力", ["1:1", "1:3", "2:1", "2:3"], [[0.5, 0.25, 0.25, 0], [0, 0, 0, 1]], grid=2)],
         "seen": seen(4, COLORS, [4, 4, 3])},
    ]  # fmt: skip
    all_values["attention.json"] = []
    return all_values


@pytest.fixture
def write(tmp_path):
    """A function that writes contents into a results folder and returns it."""

    def write(contents):
        for name, value in contents.items():
            (tmp_path / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def folder(values, write):
    return write(values)
