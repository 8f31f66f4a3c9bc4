"""A Ray cluster, and the comparison that is trained on clusters, as a user starts it."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
import yaml
from slow_grid import EPOCHS, SCORER, Comparison


@pytest.fixture
def comparison(toy_corpus, experiment_text, tmp_path, monkeypatch):
    """Starts `compare` of two arms with some seeds each, whose runs take twenty seconds."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "slow.py").write_text(SCORER)
    experiment = yaml.safe_load(experiment_text.format(folder=toy_corpus))
    experiment["arms"] = {f"arm {size}": {"model": {"embedding_size": size}} for size in (7, 8)}
    experiment["base"]["model"]["context"] = {"scorer": f"{tmp_path}/slow.py:Slow"}
    experiment["base"]["training"] |= {"max_epochs": EPOCHS, "patience": None}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(experiment | {"baseline": "arm 7"}))
    started = []

    def start(*options, seeds=4):
        overrides = f"seeds={[*range(1, seeds + 1)]}", *options
        process = subprocess.Popen(
            [sys.executable, "-m", "seq2seq_attn", "compare", "experiment.yaml", *overrides],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return Comparison(process, tmp_path / "comparisons/toy/runs")

    yield start
    for process in started:
        process.kill()
        process.communicate()


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
