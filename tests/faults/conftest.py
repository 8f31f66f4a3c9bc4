"""The program under faults of the file system: see shim.c and forks.py."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from plain_recipe import NO_DROPOUT, constant

HERE = Path(__file__).parent


class Outcome(NamedTuple):
    code: int  # negative: ended by this signal
    said: str  # stdout and stderr


class Forks:
    """Runs commands in forks of one process, with a fault in one of their file operations below a folder."""

    def __init__(self, shim, scratch):
        self.scratch = scratch
        self.process = subprocess.Popen(
            [sys.executable, HERE / "forks.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LD_PRELOAD": str(shim), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])},
            cwd=scratch,
        )

    def run(self, *arguments, below, at=0, fault="count", error=0, for_good=False, log=None):
        """The outcome; operations below the folder `below` are counted from 1, and number `at` fails."""
        output = self.scratch / "output"
        order = {
            "arguments": [str(argument) for argument in arguments], "folder": str(below), "at": at, "fault": fault,
            "error": error, "for_good": for_good, "log": log and str(log), "output": str(output),
        }  # fmt: skip
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return Outcome(code, output.read_text(encoding="utf-8", errors="replace"))

    def operations(self, *arguments, below):
        """The operations of a command without faults, in their order, as lines `write /path`."""
        log = self.scratch / "operations"
        outcome = self.run(*arguments, below=below, log=log)
        assert outcome.code == 0, outcome.said
        return log.read_text().splitlines()


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the shim needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("forks")
    shim = folder / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", HERE / "shim.c", "-o", shim, "-ldl"], check=True)
    started = Forks(shim, folder)
    yield started
    started.process.stdin.close()
    started.process.wait()


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """A configuration whose run takes a second: three epochs on sequences of letters, with a test set."""
    folder = tmp_path_factory.mktemp("toy")
    draw = random.Random(3)
    files = {}
    for part, count in {"train": 40, "validation": 6, "test": 5}.items():
        lines = [" ".join(draw.choice("abcde") for _ in range(draw.randint(1, 4))) for _ in range(count)]
        files[part] = {"source": str(folder / f"{part}.src"), "target": str(folder / f"{part}.tgt")}
        Path(files[part]["source"]).write_text("".join(f"{line}\n" for line in lines))
        Path(files[part]["target"]).write_text("".join(f"{line[::-1]}\n" for line in lines))
    config = {
        "data": files | {"max_length": 8},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 6,
            "encoder": {"hidden_size": 5},
            "decoder": {"hidden_size": 7},
            "dropout": NO_DROPOUT,
        },
        "training": {
            **constant(0.001),
            "batch_size": 12,
            "max_epochs": 3,
            "patience": None,
            "monitor": "loss",
            "accelerator": "cpu",
        },
        "evaluation": {"tokenize": "none", "bands": [2, 3]},
    }
    (folder / "toy.yaml").write_text(yaml.safe_dump(config))
    return folder / "toy.yaml"
