"""A model that has learned to write the letters of short words backwards, trained once for all tests here."""

from itertools import product

import pytest
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s


@pytest.fixture(scope="session")
def backwards(tmp_path_factory):
    """All words of up to three letters, the same backwards, and their gold links; the values of a configuration."""
    folder = tmp_path_factory.mktemp("backwards")
    words = [letters for length in (1, 2, 3) for letters in product("abc", repeat=length)]
    files = {
        "source": [" ".join(letters) for letters in words],
        "target": [" ".join(letters[::-1]) for letters in words],
        "align": [" ".join(f"{len(letters) - 1 - j}-{j}" for j in range(len(letters))) for letters in words],
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    pairs = {"source": str(folder / "source"), "target": str(folder / "target")}
    values = {
        "data": {"train": pairs, "validation": pairs, "test": pairs | {"alignments": str(folder / "align")}},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 12,
            "encoder": {"hidden_size": 16},
            "decoder": {"kind": "luong", "hidden_size": 24, "input_feeding": False},
            "dropout": NO_DROPOUT,
        },
        "training": {
            **constant(0.03),
            "batch_size": 13,
            "max_epochs": 30,
            "validate_every": 30,
            "patience": None,
            "monitor": "loss",
            "accelerator": "cpu",
        },
        "evaluation": {"tokenize": "none", "bands": [1, 2]},
    }
    return folder, values


@pytest.fixture(scope="session")
def model(backwards):
    """Tests only read its folder."""
    folder, values = backwards
    return s2s.train(values, folder / "run", scorer="general", silent=True)


@pytest.fixture(scope="session")
def compared(backwards):
    """Two arms with a seed each, trained for an epoch."""
    folder, values = backwards
    experiment = {
        "name": "backwards",
        "baseline": "distracted",
        "arms": {"distracted": {"model": {"context": {"kind": "fixed"}}}, "attention": ["model.context.scorer=dot"]},
        "base": values,
        "seeds": [1, 2],
    }
    changes = {"model.encoder.hidden_size": 12, "training": {"max_epochs": 1, "validate_every": 1}}
    return s2s.compare(experiment, folder / "x", silent=True, seeds=[3], **changes)
