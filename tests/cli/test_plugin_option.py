"""`--plugin`: a user's own scorer, from a file."""

import json
import subprocess
import sys

import pytest

SCORER = '''
import torch
from seq2seq_attn.attention import Scorer


class Distance(Scorer):
    """-scale |q - k|: near is good."""

    equation = "-s |q - k|"
    source = "this test"
    needs_equal_sizes = True

    def __init__(self, query_size: int, key_size: int, scale: float = 2.0) -> None:
        super().__init__(query_size, key_size)
        self.scale = scale

    def prepare(self, keys):
        return keys

    def forward(self, query, prepared):
        return -self.scale * torch.cdist(query, prepared)
'''


@pytest.fixture
def plugin(tmp_path):
    def write(text, name="mine.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def seq2seq_attn(*arguments):
    """A process of its own: what a plugin registers would stay for the other tests."""
    done = subprocess.run([sys.executable, "-m", "seq2seq_attn", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_scorer_of_a_file_can_be_listed_trained_and_loaded(plugin, toy, tmp_path):
    file = plugin(SCORER)
    script = f"""
import json, sys
from seq2seq_attn.cli import main

def program(*arguments):
    try:
        main(arguments)
    except SystemExit as exit:
        print(json.dumps(exit.code))

program("scorers", "--json", "--plugin", "{file}")
program("train", "{toy / "toy.yaml"}", "--plugin", "{file}", "--output", "{tmp_path / "run"}", "training.max_epochs=1",
        "model.context.scorer={{name: distance, scale: 3.0, hidden_size: null}}", "model.decoder.hidden_size=10")
program("train", "{toy / "toy.yaml"}", "--output", "{tmp_path / "run"}", "training.max_epochs=1",
        "model.context.scorer=distance", "model.decoder.hidden_size=10")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    scorers, code, *trained = done.stdout.splitlines()
    (found,) = (each for each in json.loads(scorers) if each["name"] == "distance")
    assert (found["equation"], found["options"]) == ("-s |q - k|", {"scale": 2.0})
    assert code == "0"
