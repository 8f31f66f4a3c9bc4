"""Small models with letters as vocabularies, and the exports of their graphs.

A program of its own exports the graphs: torch cannot record the checks of shapes that are installed while tests run.

    python small_models.py FOLDER NAME ...
"""

import json
import sys
from pathlib import Path

import torch

from seq2seq_attn.attention import Additive
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.tokenizers import Word
from seq2seq_attn.corpora.vocabulary import Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.export import export_model
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import parse

LETTERS = "abcdefghijk"
SEARCH = {"max_length": 20, "max_length_ratio": None}
RECURRENT = {
    "embedding_size": 4,
    "encoder": {"hidden_size": 3, "cell": "lstm"},
    "decoder": {"hidden_size": 6, "cell": "lstm", "kind": "luong"},
    "layer_norm": True,
}
TRANSFORMER = {
    "kind": "transformer",
    "embedding_size": 8,
    "encoder": {"layers": 1, "heads": 2},
    "decoder": {"layers": 1, "heads": 4, "position": "learned"},
}
GRAPHS = {
    "recurrent": ("onnx", RECURRENT | {"context": {"scorer": "additive"}}),
    "transformer": ("onnx", TRANSFORMER),
    "history": ("torch", RECURRENT | {"encoder": {"hidden_size": 3, "cell": "sru"}, "context": {"window": "local_p"}}),
    "copying": ("onnx", RECURRENT | {"tie_embeddings": "all", "head": {"kind": "pointer_generator"}}),
    "location": (
        "torch",
        RECURRENT
        | {
            "encoder": {"hidden_size": 3},
            "context": {"scorer": {"name": "location", "max_length": 4}},
            "tie_embeddings": "all",
        },
    ),
    "shuffled": ("onnx", RECURRENT | {"context": {"normalizer": "shuffled"}}),
    "one_direction": (
        "onnx",
        RECURRENT | {"encoder": {"hidden_size": 4, "bidirectional": False}, "context": {"separate_values": True}},
    ),
    "hard": (
        "onnx",
        RECURRENT | {"decoder": {"kind": "hard", "hidden_size": 6}, "context": {"normalizer": "monotonic_softmax"}},
    ),
    "mean": ("torch", TRANSFORMER | {"context": {"kind": "mean"}, "tie_embeddings": "all"}),
    "peeking": ("torch", RECURRENT | {"context": {"scorer": "peeking"}}),
    "page": ("html", RECURRENT | {"context": {"scorer": "additive"}}),
    "page_layers": ("html", TRANSFORMER | {"decoder": {"layers": 2, "heads": 4}}),
    "page_sigmoid": ("html", RECURRENT | {"context": {"normalizer": "sigmoid", "window": "local_p"}}),
    "page_fixed": ("html", RECURRENT | {"context": {"kind": "fixed"}}),
}


def untrained(model):
    """A model with these values of `model` and random parameters."""
    pairs = {"source": "a", "target": "b"}
    joint = model.get("tie_embeddings") == "all"
    data = {"train": pairs, "validation": pairs}
    config = parse(Config, {"data": data, "text": {"joint": joint}, "model": model, "search": SEARCH})
    source, target = Codec(Word(), Vocabulary(LETTERS)), Codec(Word(), Vocabulary(LETTERS[::-1] + "."))
    target = source if joint else target
    torch.manual_seed(5)
    return TrainedModel(config, source, target, build_translator(config, source, target).eval())


def main(folder, *names):
    """Exports these models; prints by name why one was refused, or null."""
    print(json.dumps({name: refusal(*GRAPHS[name], Path(folder) / name) for name in names}))


def refusal(to, model, folder):
    """The message if the export of a model is refused, otherwise None."""
    try:
        export_model(untrained(model), to, folder)
    except UserError as error:
        return str(error)
    return None


if __name__ == "__main__":

    class Peeking(Additive):
        """Looks at numbers, which a graph does not know."""

        def forward(self, query, prepared):
            return super().forward(query, prepared) * (2.0 if query.sum() > 0 else 1.0)

    main(*sys.argv[1:])
