"""A grid on a Ray cluster of two nodes, one of which dies. Minutes; run with: python -m pytest -m slow tests/cluster"""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from slow_grid import STEPS, descendants

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(monkeypatch, tmp_path_factory):
    """`ray_cluster.py`, with the processes of its raylets; the one that it ends first is the last."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'seq2seq_attn[ray]'")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a token for tests that has to be long enough")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")  # other programs fill the memory
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        command = [sys.executable, Path(__file__).with_name("ray_cluster.py")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            address, *raylets = json.loads(process.stdout.readline())
            monkeypatch.setenv("RAY_ADDRESS", address)
            yield RayCluster(process, raylets)
            process.stdin.close()


class RayCluster(NamedTuple):
    process: subprocess.Popen
    raylets: list[int]

    def end_node(self):
        self.process.stdin.write("end\n")
        self.process.stdin.flush()


@pytest.mark.parametrize("seeds", [pytest.param(2, id="4-runs"), pytest.param(4, id="8-runs")])
def test_runs_of_a_node_that_dies_continue_on_the_other_and_no_other_run_is_trained_twice(cluster, comparison, seeds):
    compare = comparison("--on", "ray", seeds=seeds)
    while len(compare.training()) < 4:
        time.sleep(0.1)
    on_it = [run for run in compare.training() if run.owner in descendants(cluster.raylets[-1])]
    cluster.end_node()
    compare.end()
    lost = compare.lost()
    assert lost.keys() == {f"{run.folder.parent.name}/{run.folder.name}" for run in on_it}
    assert len(lost) == 2
    assert all(steps <= STEPS for steps in lost.values()), lost


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_of_a_comparison_that_ends(cluster, comparison, number):
    compare = comparison("--on", "ray")
    while len(compare.training()) < 4:
        time.sleep(0.1)
    owners = [run.owner for run in compare.training()]
    os.kill(compare.process.pid, number)
    _, err = compare.process.communicate(timeout=60)
    assert "Traceback" not in err
    assert compare.process.returncode == {signal.SIGTERM: 143}.get(number, -number)
    deadline = time.monotonic() + 30
    while any(_is_alive(pid) for pid in owners):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _is_alive(pid):
    """Whether the process exists, and has not ended without being waited for."""
    try:
        return b") Z " not in open(f"/proc/{pid}/stat", "rb").read()
    except OSError:
        return False
