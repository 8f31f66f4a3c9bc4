"""Training runs that are killed at random moments, as by `kill -9`, resume to the weights of one that was never killed.

One of two kinds runs by default; a hundred of each, in about a quarter of an hour, with
`python -m pytest -m slow -n 0 tests/runs/test_kills.py`.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import seq2seq_attn as s2s
from seq2seq_attn.comparison.evidence import read_curve
from seq2seq_attn.config import Config
from seq2seq_attn.files.checksums import SUMS, read_sums
from seq2seq_attn.files.reading import sha256
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.provenance import PROVENANCE
from seq2seq_attn.strict import override, parse
from seq2seq_attn.training import LAST, loop

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="forks, which CUDA does not allow once it was used")

ALL = {
    "model.dropout.readout": 0.3,
    "text.tokenizer": "bpe",
    "text.vocabulary_size": 13,
    "text.sampling.alpha": 0.3,
    "training.ema_decay": 0.9,
    "training.r_drop": 1.0,
    "training.max_epochs": 4,
}
STOPPED = {"training.patience": 1, "training.optimizer.learning_rate": 1e-9, "training.ema_decay": 0.5}


def configured(grid, changes):
    return parse(Config, override(grid.runs[2].config.model_dump(mode="json"), changes.items()))


def start(config, folder):
    """Training in a process of its own, which has imported everything; it writes a checkpoint after every batch."""

    def work():
        os.fsync = lambda descriptor: None
        loop.INTERVAL, loop.SHARE = 0.0, 1e9
        torch.set_num_threads(1)
        s2s.train(config, folder, if_exists="resume", silent=True)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


def finish(config, folder):
    process = start(config, folder)
    process.join()
    assert process.exitcode == 0


def outcome(folder, arm_run):
    """All that must not depend on a kill: weights, optimizer, random states, scores, translations and curve."""
    with safe_open(folder / LAST, "pt") as file:
        values = json.loads(file.metadata()["values"])
    metrics = read_metrics(folder)
    for key in ("seconds", "tokens_per_second"):
        del metrics["training"][key]
    differ = "metrics.json", PROVENANCE, SUMS  # they have times, and the commit, which may change while this runs
    files = [path for path in folder.iterdir() if path.is_file() and path.name not in differ]
    state = {key: value for key, value in values["state"].items() if "seconds" not in key}
    return {
        **{path.name: path.read_bytes() for path in files},
        "metrics": metrics,
        "curve": read_curve(folder, arm_run.seed),
        "values": values | {"state": state},
        "tensors": {name: tensor.tolist() for name, tensor in load_file(folder / LAST).items()},
    }


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill_and_resume(kind, config, folder, moment, again):
    """Kills a training run at these moments, in seconds, and finishes it; the folder of the finished run."""
    process = start(config, folder)
    time.sleep(moment)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    if kind == "moved" and folder.exists():
        folder = folder.rename(folder.parent / "elsewhere" / "moved")
    if kind == "copied" and folder.exists():
        original, before = folder, content(folder)
        folder = Path(shutil.copytree(folder, folder.parent / "elsewhere" / "copied"))
    process = start(config, folder)
    time.sleep(again)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    finish(config, folder)
    if kind == "stopped":
        finish(config, folder)  # once more: it has ended
    if kind == "copied" and folder.name == "copied":
        assert content(original) == before
    return folder


def compare_kills(kind, grid, tmp_path, kills):
    config = configured(grid, ALL | STOPPED if kind == "stopped" else ALL)
    arm_run = grid.runs[2]
    begin = time.perf_counter()
    finish(config, tmp_path / "whole")
    seconds = time.perf_counter() - begin
    expected = outcome(tmp_path / "whole", arm_run)
    assert len(expected["curve"].epoch) == expected["metrics"]["training"]["epochs"] > 1
    assert expected["metrics"]["training"]["stopped"] == ("patience" if kind == "stopped" else "max_epochs")
    draw = random.Random(kind)
    for number in range(kills):
        place = tmp_path / str(number)
        (place / "elsewhere").mkdir(parents=True)
        moments = draw.uniform(0, seconds), draw.uniform(0, seconds)
        folder = kill_and_resume(kind, config, place / "run", *moments)
        found = outcome(folder, arm_run)
        assert [key for key in expected if found[key] != expected[key]] == [], moments
        assert all(sums == {sha256(folder / name)} for name, sums in read_sums(folder).items())
        shutil.rmtree(place)


KINDS = ["plain", "moved", "copied", "stopped"]


def test_a_killed_training_resumes_to_the_same_bits(grid, tmp_path):
    compare_kills("stopped", grid, tmp_path, kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_killed_runs_resume_to_the_same_bits(kind, grid, tmp_path):
    compare_kills(kind, grid, tmp_path, kills=100)
