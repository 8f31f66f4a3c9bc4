"""A scorer of your own, from its equation to a row in the comparison table.

    python examples/own_scorer.py

The scorer is the class below. The rest of this file prints the commands that you would type, and runs them: check the
scorer, make a corpus, and train the scorer and a baseline to reverse sequences of letters. Further arguments are passed
on to `compare`, for example `training.max_epochs=10`.
"""

import os
import shlex
import sys
from pathlib import Path

from torch import nn

from seq2seq_attn.attention import Scorer
from seq2seq_attn.cli import main as program


class LowRank(Scorer):
    """(A q) · (B k) / √r: the bilinear score q · W k with a matrix W of rank r, which has fewer parameters."""

    equation = "(A q) · (B k) / √r"
    source = "examples/own_scorer.py"

    def __init__(self, query_size: int, key_size: int, rank: int = 8) -> None:
        super().__init__(query_size, key_size)
        self.query_layer = nn.Linear(query_size, rank, bias=False)
        self.key_layer = nn.Linear(key_size, rank, bias=False)
        self.rank = rank

    def prepare(self, keys):  # (B, S, key_size) -> (B, S, rank): once per sentence, since it does not depend on a query
        return self.key_layer(keys) / self.rank**0.5

    def forward(self, query, prepared):  # (B, T, query_size), (B, S, rank) -> (B, T, S)
        return self.query_layer(query) @ prepared.transpose(1, 2)


# A configuration names a scorer by file and class; its options are the constructor arguments other than the sizes.
EXPERIMENT = """
name: own-scorer
question: What does a bilinear score lose if its matrix has rank 8?
baseline: general
arms:
  general: {{model: {{context: {{scorer: general}}}}}}
  low rank: {{model: {{context: {{scorer: {{name: {scorer}, rank: 8}}}}}}}}

base:
  data:
    train: {{source: {corpus}/train.source.gz, target: {corpus}/train.target.gz}}
    validation: {{source: {corpus}/validation.source, target: {corpus}/validation.target}}
    test: {{source: {corpus}/test.source, target: {corpus}/test.target, alignments: {corpus}/test.align}}
  text: {{tokenizer: word}}
  model:
    embedding_size: 32
    tie_embeddings: none
    encoder: {{hidden_size: 48}}
    decoder: {{kind: luong, hidden_size: 64, input_feeding: false}}
    dropout: {{embedding: 0, state: 0, readout: 0}}
  training:
    optimizer: {{learning_rate: 0.01, schedule: inverse_sqrt, warmup_steps: 50}}
    batch_size: 50
    label_smoothing: 0
    ema_decay: null
    max_epochs: 6
    patience: null
    monitor: loss
    accelerator: cpu
  search: {{beam_size: 1, max_length: 30}}
  evaluation: {{metrics: [bleu, chrf, exact_match], tokenize: none, bands: [5, 10, 15, 20]}}
"""


def run(*command):
    """Print a command and run it in this process; exit if it fails."""
    words = [str(word) for word in command]
    print(f"\n$ seq2seq-attn {shlex.join(words)}", flush=True)
    try:
        program(words)
    except SystemExit as end:  # as the program always ends
        if end.code:
            raise


def main():
    scorer, folder = f"{os.path.relpath(__file__)}:LowRank", Path("runs/own-scorer")
    experiment, corpus = folder / "experiment.yaml", folder / "reverse"
    folder.mkdir(parents=True, exist_ok=True)
    experiment.write_text(EXPERIMENT.format(scorer=scorer, corpus=corpus), encoding="utf-8")

    run("check", scorer)
    run("data", "get", "reverse", "--output", corpus)
    run("compare", experiment, *sys.argv[1:])


if __name__ == "__main__":
    main()
