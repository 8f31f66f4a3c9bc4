"""The comparison that is trained on clusters, as a user starts it."""

import subprocess
import sys

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
