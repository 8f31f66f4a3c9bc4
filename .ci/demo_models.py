"""Train the models that the package ships, and put them into seq2seq_attn/demo_models/ as run folders.

    python .ci/demo_models.py [NAME ...]

`attention` and `distracted` are arms of the demo, but trained on sentences of all lengths and for fewer epochs, as is
`transformer`.
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
from seq2seq_attn.files.checksums import record
from seq2seq_attn.runs import SHIPPED
from seq2seq_attn.strict import merge

ROOT = Path(__file__).parents[1]
ARMS = {"attention": "additive attention", "distracted": "distracted (C at every step)"}
ALL_LENGTHS = {
    "data": {"max_training_length": None},
    "text": {"match_known_forms": True},  # for what users type; all words of the corpus are known
    "training": {"max_epochs": 8, "monitor": "loss"},
}
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
        "optimizer": {"learning_rate": 0.002, "betas": [0.9, 0.98], "warmup_steps": 300},
        "max_epochs": 10,
    },
}
LEFT_OUT = ("checkpoints", "log", "test.links.txt", "test.entropies.txt", "SHA256SUMS")


def configurations() -> dict[str, s2s.Config]:
    """By name, with paths relative to the checkout, so that they are the same in every one."""
    grid = read_experiment(Path("seq2seq_attn/comparison/demo.yaml"))
    arms = {run.arm: merge(run.config.model_dump(mode="json"), ALL_LENGTHS) for run in grid.runs}
    values = {name: arms[arm] for name, arm in ARMS.items()}
    shared = {key: section for key, section in values["attention"].items() if key != "model"}
    values["transformer"] = merge(shared, TRANSFORMER)
    return {name: s2s.Config.model_validate(each) for name, each in values.items()}


def main() -> None:
    os.chdir(ROOT)
    torch.set_num_threads(1)
    known = configurations()
    with tempfile.TemporaryDirectory() as folder:
        names = sys.argv[1:] or known
        for name in names:
            model = s2s.train(known[name], Path(folder, name))
            print(f"{name}: BLEU {model.metrics['test']['bleu']['value']:.2f}")
        for name in names:  # at the end: provenance.json lists the files of the package that are not committed
            shutil.rmtree(SHIPPED / name, ignore_errors=True)
            shutil.copytree(Path(folder, name), SHIPPED / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
            record(SHIPPED / name, sorted(path.name for path in (SHIPPED / name).iterdir()))


if __name__ == "__main__":
    main()
