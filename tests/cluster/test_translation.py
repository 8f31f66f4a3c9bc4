"""A file translated by two processes, one of which is killed, here and on a Ray cluster: what one process prints."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slow_grid import descendants

from seq2seq_attn.api.shards import SHARD

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "data/tom-and-jerry-short"
SHARDS = 4
PROGRAM = [sys.executable, "-m", "seq2seq_attn", "translate", "demo", "all.en", "--beam-size", "1"]


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Three shards and a line."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    short = gzip.decompress((DATA / "train.en.gz").read_bytes()).splitlines(keepends=True)
    count = (SHARDS - 1) * SHARD + 1
    Path("all.en").write_bytes(b"".join((short * (count // len(short) + 1))[:count]))


@pytest.fixture
def translating(lines):
    """Starts a translation into shards in two parts, and returns it when one of them is there."""
    started = []

    def start(*options):
        process = subprocess.Popen(
            [*PROGRAM, "--output", "out", "--jobs", "2", *options], stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        while not (found := [*Path("out").glob("*.txt")]):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        assert len(found) < SHARDS
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    """What it said. The shards, one after the other, are the outputs of one process."""
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    found = sorted(Path("out").glob("*.txt"))
    assert [path.name[:8] for path in found] == [f"{number * SHARD:08d}" for number in range(SHARDS)]
    alone = subprocess.run(PROGRAM, stdout=subprocess.PIPE, check=True).stdout
    assert b"".join(path.read_bytes() for path in found) == alone
    return said


def test_a_process_that_is_killed_is_replaced(translating):
    process = translating()
    workers = [pid for pid in descendants(process.pid) if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(min(workers), signal.SIGKILL)  # which has two whole shards to write
    assert "SIGKILL" in ended(process)


def test_a_node_of_ray_that_dies_is_replaced(cluster, translating):
    process = translating("--on", "ray", "--cpus", "2")
    cluster.end_node()
    ended(process)
    before = {path.name: path.stat().st_mtime_ns for path in Path("out").iterdir()}
    subprocess.run([*PROGRAM, "--output", "out", "--on", "ray"], check=True)  # nothing is left to do
    assert {path.name: path.stat().st_mtime_ns for path in Path("out").iterdir()} == before
