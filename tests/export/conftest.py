"""Small models with letters as vocabularies: untrained, or trained for a few steps, so that scores differ clearly."""

import random

import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn.config import Config
from seq2seq_attn.runs.model import TrainedModel, build_translator
from seq2seq_attn.strict import parse
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.tokenisers import Word
from seq2seq_attn.text.vocabulary import Vocabulary

LETTERS = "abcdefghijk"


def values(model, pairs, **rest):
    return {
        "data": {"train": pairs, "validation": pairs},
        "text": {"tokeniser": "word"},
        "model": model,
        "training": {
            "optimiser": {"learning_rate": 0.01},
            "batch_size": 16,
            "max_epochs": 12,
            "validate_every": 12,
            "patience": None,
            "monitor": "loss",
            "accelerator": "cpu",
        },
        "search": {"max_length": 20, "max_length_ratio": None},
        **rest,
    }


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Trains a run with these values of `model`, and any others, in a folder of its own."""
    folder, draw = tmp_path_factory.mktemp("export"), random.Random(5)
    sentences = [[draw.choice(LETTERS) for _ in range(draw.randint(1, 9))] for _ in range(96)]
    (folder / "source").write_text("".join(f"{' '.join(each)}\n" for each in sentences))
    (folder / "target").write_text("".join(f"{' '.join(each[::-1])} .\n" for each in sentences))
    pairs = {"source": str(folder / "source"), "target": str(folder / "target")}
    made = iter(range(100))

    def train(model, **rest):
        return s2s.train(values(model, pairs, **rest), folder / f"run-{next(made)}", silent=True)

    return train


@pytest.fixture
def untrained():
    """Makes a model with these values of `model` and random parameters."""

    def make(model):
        config = parse(Config, values(model, {"source": "a", "target": "b"}))
        source, target = Codec(Word(), Vocabulary(LETTERS)), Codec(Word(), Vocabulary(LETTERS[::-1] + "."))
        torch.manual_seed(5)
        return TrainedModel(config, source, target, build_translator(config, source, target).eval())

    return make
