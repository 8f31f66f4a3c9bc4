"""The results folder of an experiment with three arms, two length bands and two seeds."""

import base64
import copy
import json
import zlib

import pytest


def _scores(bleu, chrf):
    """Scores of a group, with intervals."""
    return {
        "bleu": {"value": bleu, "low": bleu - 1, "high": bleu + 1.5},
        "chrf": {"value": chrf, "low": chrf - 0.5, "high": chrf + 0.75},
    }


def _metric(key, label, digits, direction, meaning, **others):
    return {"key": key, "label": label, "digits": digits, "direction": direction, "meaning": meaning, **others}


METRICS = [
    _metric("bleu", "BLEU", 1, "higher", "cased, detokenized", floor=1.0, is_prominent=True),
    _metric("chrf", "chrF", 1, "higher", "F2 of character n-grams", floor=1.0),
    _metric("ter", "TER", 1, "lower", "edits per 100 reference words"),
    _metric("exact_match", "Exact", 1, "higher", "% of translations identical to the reference", floor=0.1),
    _metric("aer", "AER", 3, "lower", "alignment error rate against gold links, 0 to 1", is_prominent=True),
    _metric("attention_entropy", "Entropy", 2, None, "mean entropy in bits of the attention weights"),
    _metric("perplexity", "Perplexity", 2, "lower", "per token of the references"),
]

RESULTS = {
    "experiment": "toy",
    "metrics": METRICS,
    "sentences": 12,
    "arms": [
        {
            "name": "distracted (C at every step)",
            "parameters": 1234567,
            "seeds": [1, 2],
            "train_seconds": 59.2,
            "tokens_per_second": 5100.0,
            "scores": {
                "bleu": {
                    "mean": 20.04,
                    "std": 0.51,
                    "low": 18.9,
                    "high": 21.12,
                    "seeds_low": 15.46,
                    "seeds_high": 24.62,
                    "joint_low": 17.6,
                    "joint_high": 22.48,
                },
                "chrf": {"mean": 31.0, "std": 0.4},
                "ter": {"mean": 71.0, "std": 1.24},
                "perplexity": {"mean": 9.5, "std": 0.3},
                "exact_match": {"mean": 1.25, "std": 0.25},
            },
        },
        {
            "name": "mean of states",
            "parameters": 999,
            "seeds": [1, 2],
            "train_seconds": 150.0,
            "tokens_per_second": 5000.0,
            "scores": {
                "bleu": {"mean": 18.0, "std": 0.3, "low": 17.0, "high": 19.0, "seeds_low": 15.3, "seeds_high": 20.7},
                "chrf": {"mean": 30.0, "std": 0.5},
                "ter": {"mean": 72.0, "std": 0.6},
                "aer": {"mean": 0.8, "std": 0.0},
                "perplexity": {"mean": 8.75, "std": 0.2},
                "attention_entropy": {"mean": 3.25, "std": 0.0},
            },
        },
        {
            "name": "注意力",
            "parameters": 2000000,
            "seeds": [1, 2],
            "train_seconds": 7200.0,
            "tokens_per_second": 3215.4,
            "scores": {
                "bleu": {"mean": 45.26, "std": 0.75, "low": 44.0, "high": 46.5, "seeds_low": 38.52, "seeds_high": 52.0},
                "chrf": {"mean": 55.5, "std": 0.2},
                "ter": {"mean": 40.1, "std": 0.9},
                "aer": {"mean": 0.1234, "std": 0.0126},
                "perplexity": {"mean": 3.125, "std": 0.05},
                "attention_entropy": {"mean": 0.875, "std": 0.1},
                "exact_match": {"mean": 30.5, "std": 2.0},
            },
        },
    ],
    "comparisons": [
        {
            "arm": "mean of states",
            "baseline": "distracted (C at every step)",
            "difference": -2.04,
            "low": -4.16,
            "high": 0.1,
            "p_value": 0.0514,
            "p_holm": 0.0514,
            "randomization": {"p_value": 0.0618, "p_holm": 0.0618},
        },
        {
            "arm": "注意力",
            "baseline": "distracted (C at every step)",
            "difference": 25.22,
            "low": 23.96,
            "high": 26.5,
            "p_value": 0.000999,
            "p_holm": 0.001998,
            "randomization": {"p_value": 0.0001, "p_holm": 0.0002},
            "joint": {
                "p_value": 0.0042,
                "p_holm": 0.0043,
                "low": 22.5,
                "high": 27.9,
                "degrees_of_freedom": 1.76,
                "paired": False,
                "detectable": 4.06,
            },
            "others": {
                "chrf": {
                    "difference": 24.5,
                    "low": 23.5,
                    "high": 25.5,
                    "joint": {
                        "p_value": 0.0104,
                        "p_holm": 0.0208,
                        "low": 23.0,
                        "high": 26.0,
                        "degrees_of_freedom": 1.9,
                        "paired": False,
                        "detectable": 4.5,
                    },
                }
            },
        },
    ],
    "by_length": {
        "name": "source length",
        "meaning": "Words of the source.",
        "groups": ["1-10", "11+"],
        "arms": {
            "distracted (C at every step)": [
                {"sentences": 7, "scores": _scores(40.0, 50.0)},
                {"sentences": 5, "scores": _scores(12.3, 22.3)},
            ],
            "mean of states": [
                {"sentences": 7, "scores": _scores(38.0, 48.0)},
                {"sentences": 5, "scores": _scores(10.0, 20.0)},
            ],
            "注意力": [
                {"sentences": 7, "scores": _scores(47.5, 57.5)},
                {"sentences": 5, "scores": _scores(44.4, 54.4)},
            ],
        },
    },
    "signatures": {"bleu": "nrefs:1|case:mixed|tok:zh", "chrf": "nc:6", "randomization": "ar:10000"},
    "version": "0.1.0",
    "commit": "abc1234",
    "hardware": "two cores",
}

CURVES = {
    "注意力": [
        {
            "seed": 1,
            "epoch": [1, 2, 3],
            "validation_loss": [3.0, 2.0, 1.0],
            "validation_score": [None, 20.0, 30.0],
        },
        {"seed": 2, "epoch": [1, 2], "validation_loss": [5.0, 2.5], "validation_score": [None, 24.0]},
    ],
    "mean of states": [
        {"seed": 1, "epoch": [1, 2], "validation_loss": [4.0, 3.5], "validation_score": [5.0, 6.0]},
    ],
}

ATTENTION = [
    {
        "arm": "注意力",
        "source": ["Tom", "chases", "Jerry"],
        "target": ["汤姆", "追逐"],
        "weights": [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05]],
        "gold": [[0, 0], [2, 1]],
    },
    {
        "arm": "mean of states",
        "source": ["Tom", "chases", "Jerry"],
        "target": ["汤姆", "追逐"],
        "weights": [[0.33, 0.33, 0.34], [0.33, 0.33, 0.34]],
        "gold": None,
    },
    {
        "arm": "注意力",
        "source": ["Spike", "sleeps"],
        "target": ["斯派克"],
        "weights": [[0.6, 0.4]],
        "gold": None,
    },
]


# With subwords: "chases" is two source tokens, 追逐 is one target token. The beam size is 2.
EXAMPLES = [
    {
        "line": 4,
        "source": "Tom chases",
        "reference": "汤姆 追逐",
        "gold": [[0, 0], [1, 1]],
        "readings": [
            {
                "arm": "注意力",
                "seed": 1,
                "beam_size": 2,
                "source": ["▁Tom", "▁chas", "es", "</s>"],
                "source_words": [0, 1, 1],
                "target_words": [0, 1],
                "norms": [1.0, 2.0, 2.0, 4.0],
                "beam": [
                    {
                        "token": "汤姆",
                        "log_probability": -0.1,
                        "weights": [0.7, 0.1, 0.1, 0.1],
                        "scores": [3.5, 1.5, 1.5, 1.5],
                    },
                    {"token": "杰瑞", "log_probability": -2.5},
                    {
                        "token": "追逐",
                        "log_probability": -0.2,
                        "parent": 0,
                        "weights": [0.0, 0.5, 0.4, 0.1],
                        "scores": [-4.0, 2.0, 1.75, 0.5],
                    },
                    {
                        "token": "看",
                        "log_probability": -3.0,
                        "parent": 0,
                        "weights": [0.0, 0.5, 0.4, 0.1],
                        "scores": [-4.0, 2.0, 1.75, 0.5],
                    },
                    {
                        "token": "</s>",
                        "log_probability": -0.3,
                        "parent": 2,
                        "weights": [0.0, 0.0, 0.2, 0.8],
                        "scores": [0.0, 0.25, 1.0, 2.5],
                    },
                    {
                        "token": "</s>",
                        "log_probability": -0.4,
                        "parent": 3,
                        "weights": [0.1, 0.1, 0.1, 0.7],
                        "scores": [0.0, 0.0, 0.0, 2.0],
                    },
                ],
                "hypotheses": [
                    {"last": 4, "log_probability": -0.6, "score": -0.45},
                    {"last": 5, "log_probability": -3.5, "score": -2.625},
                ],
                "reference": [
                    {
                        "token": "汤姆",
                        "log_probability": -0.1,
                        "weights": [0.7, 0.1, 0.1, 0.1],
                        "scores": [3.5, 1.5, 1.5, 1.5],
                    },
                    {
                        "token": "追逐",
                        "log_probability": -0.2,
                        "weights": [0.0, 0.5, 0.4, 0.1],
                        "scores": [-4.0, 2.0, 1.75, 0.5],
                    },
                    {
                        "token": "</s>",
                        "log_probability": -0.3,
                        "weights": [0.0, 0.0, 0.2, 0.8],
                        "scores": [0.0, 0.25, 1.0, 2.5],
                    },
                ],
            },
            {
                "arm": "distracted (C at every step)",
                "seed": 1,
                "beam_size": 2,
                "source": ["▁Tom", "▁chas", "es", "</s>"],
                "source_words": [0, 1, 1],
                "target_words": [0, 1],
                "norms": None,
                "beam": [
                    {"token": "杰瑞", "log_probability": -1.0},
                    {"token": "</s>", "log_probability": -0.5, "parent": 0},
                ],
                "hypotheses": [{"last": 1, "log_probability": -1.5, "score": -1.25}],
                "reference": [
                    {"token": "汤姆", "log_probability": -2.0},
                    {"token": "追逐", "log_probability": -2.25},
                    {"token": "</s>", "log_probability": -0.5},
                ],
            },
        ],
    }
]


def _group(sentences, words, bleu, chrf, bounds=""):
    return {"sentences": sentences, "words": words, "scores": _scores(bleu, chrf)} | (
        {"bounds": bounds} if bounds else {}
    )


def _rate(value, of):
    return {"value": value, "low": value - 0.0625, "high": value + 0.0625, "of": of}


WHERE = {
    "breakdowns": [
        {
            "name": "rarest source word",
            "meaning": "How often it occurs.",
            "groups": ["1-5", "51+"],
            "arms": {
                "distracted (C at every step)": [_group(31, 11.75, 10.5, 20.25), _group(1230, 8.0, 30.0, 40.0)],
                "注意力": [_group(31, 11.75, 30.0, 41.5), _group(1230, 8.0, 40.0, 50.0)],
            },
        },
        {
            "name": "entropy of the weights",
            "meaning": "In bits.",
            "groups": ["sharpest", "middle", "most even"],
            "arms": {
                "mean of states": [
                    _group(40, 5.0, 12.0, 22.0, "to 2 bits"),
                    None,
                    _group(44, 9.0, 11.0, 20.0, "over 2 bits"),
                ],
                "注意力": [
                    _group(50, 6.0, 60.0, 62.0, "to 0.5 bits"),
                    None,
                    _group(55, 7.0, 42.0, 43.0, "over 0.5 bits"),
                ],
            },
        },
    ],
    "rates": [
        {
            "name": "repetition and omission",
            "meaning": "What is said twice, and what is not.",
            "groups": ["repeated bigrams", "length"],
            "arms": {
                "distracted (C at every step)": [_rate(0.5, 70), _rate(0.75, 80)],
                "mean of states": [None, _rate(0.9, 80)],
                "注意力": [_rate(0.125, 90), _rate(0.8125, 80)],
            },
        }
    ],
    "agreement": {"arms": ["mean of states", "注意力"], "f1": [[None, 0.25], [0.25, 0.875]]},
}


def _sentence(line, distracted, mean, attention):
    scores = {"distracted (C at every step)": distracted, "mean of states": mean, "注意力": attention}
    translations = {arm: {"text": f"{arm[0]}{line}", "score": score} for arm, score in scores.items()}
    return {"line": line, "source": f"source {line}", "reference": f"reference {line}", "translations": translations}


SENTENCES = {
    "metric": "chrF2",
    "signature": "nc:6",
    "sentences": [
        _sentence(2, 10.0, 20.0, 90.5),
        _sentence(3, 50.0, 40.0, 30.0),
        _sentence(5, 30.0, 30.0, 60.0),
        _sentence(8, 5.0, 0.0, 35.0),
    ],
}

REPRODUCTION = {
    "question": "What is attention for?",
    "command": "seq2seq-attn compare toy.yaml 'seeds=[1,2]'",
    "configurations": {
        "distracted (C at every step)": {"seed": 1, "model": {"context": {"kind": "fixed"}, "size": 5}},
        "mean of states": {"seed": 1, "model": {"context": {"kind": "mean"}, "size": 5}},
        "注意力": {"seed": 1, "model": {"context": {"kind": "attention"}, "size": 5}},
    },
}


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


@pytest.fixture
def values():
    """A copy of the contents of the three files, by name."""
    files = {"results.json": RESULTS, "curves.json": CURVES, "attention.json": ATTENTION}
    return copy.deepcopy(files)


@pytest.fixture
def all_values(values):
    """The contents of all files that a comparison writes, with breakdowns."""
    values["results.json"]["where"] = copy.deepcopy(WHERE)
    more = {"examples.json": EXAMPLES, "sentences.json": SENTENCES, "making.json": REPRODUCTION}
    return values | copy.deepcopy(more)


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
