"""Runs that are trained for a few steps, so that scores differ clearly; and the exports of untrained models' graphs."""

import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import small_models
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Trains a run with these values of `model`, and any others, in a folder of its own."""
    folder, draw = tmp_path_factory.mktemp("export"), random.Random(5)
    sentences = [[draw.choice(small_models.LETTERS) for _ in range(draw.randint(1, 9))] for _ in range(96)]
    (folder / "source").write_text("".join(f"{' '.join(each)}\n" for each in sentences))
    (folder / "target").write_text("".join(f"{' '.join(each[::-1])} .\n" for each in sentences))
    pairs = {"source": str(folder / "source"), "target": str(folder / "target")}
    made = iter(range(100))

    def train(model, **rest):
        values = {
            "data": {"train": pairs, "validation": pairs},
            "text": {"tokenizer": "word"},
            "model": {"dropout": NO_DROPOUT} | model,
            "training": {
                **constant(0.01),
                "batch_size": 16,
                "max_epochs": 12,
                "validate_every": 12,
                "patience": None,
                "monitor": "loss",
                "accelerator": "cpu",
            },
            "search": small_models.SEARCH,
        }
        return s2s.train({**values, **rest}, folder / f"run-{next(made)}", silent=True)

    return train


@pytest.fixture
def untrained():
    return small_models.untrained


@pytest.fixture(scope="session")
def graphs(tmp_path_factory):
    """Exports those of `small_models.GRAPHS`, once: their folder, and by name why one was refused, or None."""
    pytest.importorskip("onnxscript", reason="the extra [export] is not installed")

    @cache
    def export(*names):
        folder, program = tmp_path_factory.mktemp("graphs"), Path(small_models.__file__)
        done = subprocess.run([sys.executable, program, folder, *names], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return folder, json.loads(done.stdout.splitlines()[-1])

    return export
