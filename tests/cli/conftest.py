"""The program in this process, and one small trained run that all tests share."""

import io
import os
import random
import signal
import sys
import threading
from typing import NamedTuple

import pytest
import yaml
from plain_recipe import NO_DROPOUT, constant

from seq2seq_attn.cli import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def program(capsys, monkeypatch):
    """Runs the program on its arguments, with stdin as bytes or none."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        return Answer(exit.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(program):
    """As `program`, for what must be refused: exit code 2 and one line on stderr, which is returned."""

    def run(*arguments, stdin=b""):
        answer = program(*arguments, stdin=stdin)
        assert answer.code == 2
        assert answer.out == ""
        assert answer.err.startswith("seq2seq-attn: ")
        assert answer.err.count("\n") == 1, answer.err
        return answer.err

    return run


class Forked(NamedTuple):
    """The program in a fork of this process, which has imported everything; its streams are pipes or a terminal."""

    pid: int
    stdin: io.RawIOBase
    stdout: io.BufferedReader
    stderr: io.BufferedReader

    def wait(self):
        """The exit code, and what was left to read of both outputs."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return code, *(b"" if stream.closed else stream.read() for stream in (self.stdout, self.stderr))


@pytest.fixture
def forked(request):
    """Starts the program on its arguments in a process of its own; `before` is called in it first."""

    def start(*arguments, stdin=None, before=lambda: None):
        given, typed = stdin or os.pipe()
        (out, write_out), (err, write_err) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            for number, stream in enumerate((given, write_out, write_err)):
                os.dup2(stream, number)
            os.closerange(3, 256)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
            before()
            try:
                main([str(argument) for argument in arguments])
            except SystemExit as end:
                sys.stdout.flush()
                os._exit(end.code)
            os._exit(99)
        for stream in (given, write_out, write_err):
            os.close(stream)
        streams = os.fdopen(typed, "wb", buffering=0), os.fdopen(out, "rb"), os.fdopen(err, "rb")
        for stream in streams:
            request.addfinalizer(stream.close)
        too_late = threading.Timer(60, os.kill, (child, signal.SIGKILL))
        too_late.start()
        request.addfinalizer(too_late.cancel)
        return Forked(child, *streams)

    return start


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Sequences of letters and the same backwards, with gold links, and `toy.yaml` for a run on them."""
    folder = tmp_path_factory.mktemp("toy")
    draw = random.Random(3)
    for part, count in {"train": 60, "validation": 9, "test": 7}.items():
        sources = [[draw.choice("abcde") for _ in range(draw.randint(1, 4))] for _ in range(count)]
        sides = {
            "src": [" ".join(letters) for letters in sources],
            "tgt": [" ".join(reversed(letters)) for letters in sources],
            "align": [" ".join(f"{len(s) - 1 - j}-{j}" for j in range(len(s))) for s in sources],
        }
        for side, lines in sides.items():
            (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {p: {"source": f"{folder}/{p}.src", "target": f"{folder}/{p}.tgt"} for p in ("train", "validation", "test")}
    config = {
        "data": files | {"test": files["test"] | {"alignments": f"{folder}/test.align"}, "max_length": 8},
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 6,
            "encoder": {"hidden_size": 5},
            "decoder": {"hidden_size": 11},
            "context": {"scorer": {"name": "additive", "hidden_size": 7}},
            "dropout": NO_DROPOUT,
        },
        "training": {
            **constant(0.03),
            "batch_size": 12,
            "max_epochs": 6,
            "patience": None,
            "monitor": "loss",
            "accelerator": "cpu",
        },
        "search": {"max_length": 20},
        "evaluation": {"tokenize": "none", "bands": [2, 3]},
    }
    (folder / "toy.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="session")
def train_run():
    """Trains a run, and returns its folder."""

    def train(config, folder, *overrides):
        with pytest.raises(SystemExit) as exit:
            main(["train", str(config), "--output", str(folder), *overrides])
        assert exit.value.code == 0
        return folder

    return train


@pytest.fixture(scope="session")
def trained(toy, train_run):
    """The run folder of `toy.yaml`; tests only read it."""
    return train_run(toy / "toy.yaml", toy / "run")


@pytest.fixture(scope="session")
def distracted(toy, train_run):
    """The same without attention, trained for an epoch; tests only read it."""
    changes = "model.context.kind=fixed", "training.max_epochs=1", "data.test=null"
    return train_run(toy / "toy.yaml", toy / "distracted", *changes)
