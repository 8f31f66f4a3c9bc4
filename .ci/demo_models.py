"""Train the models that the package ships, and put them into seq2seq_attn/demo_models/ as run folders.

    python .ci/demo_models.py [NAME ...]

`attention` and `distracted` are arms of the demo, as `make demo` trains them; `transformer` learns from the same text.
A run folder keeps what is needed to load and to verify it: no checkpoints, no logs. Each model is trained with one
thread, so that one kind of processor gives the same weights again. Commit all changes before: provenance.json records
the commit. Ten minutes.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch

import seq2seq_attn as s2s
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.runs import SHIPPED
from seq2seq_attn.strict import merge
from seq2seq_attn.text.checksums import record

ROOT = Path(__file__).parents[1]
ARMS = {"attention": "additive attention", "distracted": "distracted (C at every step)"}
TRANSFORMER = {
    "model": {
        "kind": "transformer",
        "embedding_size": 96,
        "encoder": {"layers": 2, "heads": 4, "feed_forward_size": 192, "position": "rotary"},
        "decoder": {"layers": 2, "heads": 4, "feed_forward_size": 192, "position": "rotary"},
        "context": {"scorer": "scaled_dot", "heads": 4},
        "dropout": {"embedding": 0.0, "state": 0.0},
    },
    "training": {
        "optimiser": {"learning_rate": 0.002, "betas": [0.9, 0.98], "warmup_steps": 300},
        "max_epochs": 10,
    },
}
LEFT_OUT = ("checkpoints", "log", "test.links.txt", "test.entropies.txt", "SHA256SUMS")


def configurations() -> dict[str, s2s.Config]:
    """By name, with paths relative to the checkout, so that they are the same in every one."""
    grid = read_experiment(Path("seq2seq_attn/comparison/demo.yaml"))
    arms = {run.arm: run.config for run in grid.runs}
    shared = arms[ARMS["attention"]].model_dump(mode="json", exclude={"model"})
    transformer = s2s.Config.model_validate(merge(shared, TRANSFORMER))
    return {name: arms[arm] for name, arm in ARMS.items()} | {"transformer": transformer}


def main() -> None:
    os.chdir(ROOT)
    torch.set_num_threads(1)
    known = configurations()
    for name in sys.argv[1:] or known:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / name
            model = s2s.train(known[name], run)
            shutil.rmtree(SHIPPED / name, ignore_errors=True)
            shutil.copytree(run, SHIPPED / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
            print(f"{name}: BLEU {model.metrics['test']['bleu']['value']:.2f}")
        files = [path.relative_to(SHIPPED / name).as_posix() for path in (SHIPPED / name).rglob("*")]
        record(SHIPPED / name, sorted(files))


if __name__ == "__main__":
    main()
