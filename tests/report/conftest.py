"""The results folder of an experiment with three arms, two length bands and two seeds: `toy/`.

In examples.json, "chases" is two source tokens and 追逐 is one target token; the beam size is 2.
"""

import base64
import copy
import json
import zlib
from pathlib import Path

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
