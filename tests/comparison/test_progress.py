"""What is shown of a grid while its runs are trained elsewhere."""

import os
import platform
import sys
import time

import pytest

from seq2seq_attn.api.tables import as_text
from seq2seq_attn.comparison import progress
from seq2seq_attn.comparison.progress import GridProgress, messages_of, messages_to_file, run_progress
from seq2seq_attn.files.lock import LOCK
from seq2seq_attn.training.checkpoints import TrainingState
from seq2seq_attn.training.progress import ProgressLines

CURVES = """epoch,step,train_loss,validation_loss,validation_score
1,10,2.5,,
1,12,,2.25,7.5
1.5,20,2.0,,
"""


@pytest.fixture
def run(grid, tmp_path):
    """A run with a checkpoint within its second epoch."""
    (tmp_path / grid.runs[0].folder / "log").mkdir(parents=True)
    (tmp_path / grid.runs[0].folder / "checkpoints").mkdir()
    (tmp_path / grid.runs[0].folder / "checkpoints/last.safetensors").touch()
    (tmp_path / grid.runs[0].folder / "log/metrics.csv").write_text(CURVES)
    return grid.runs[0]


def test_a_run_is_at_its_last_step_with_the_scores_of_its_last_validation(run, tmp_path):
    assert run_progress(tmp_path / run.folder) == ("continues", 1.5, 20, 2.25, 7.5)
    (tmp_path / run.folder / "log/metrics.csv").write_text("epoch,step\nx")
    assert run_progress(tmp_path / run.folder) == ("continues", None, None, None, None)
    assert run_progress(tmp_path / "none").state == "new"


@pytest.mark.parametrize(
    ("owner", "state"),
    [
        (f"{os.getpid()}\n{platform.node()}\n", "running"),
        ("1\nanother-host\n", "running"),
        (f"{2**22 + 1}\n{platform.node()}\n", "continues"),  # more than a system has
        ("", "continues"),
    ],
    ids=["alive", "on another host", "dead", "none"],  # each process that runs tests has a number of its own
)
def test_a_run_is_running_as_long_as_the_owner_of_its_lock_may_live(run, tmp_path, owner, state):
    (tmp_path / run.folder / LOCK).write_text(owner)
    assert run_progress(tmp_path / run.folder).state == state


def test_messages_are_passed_on_once_and_the_table_has_all_runs(grid, run, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    runs = grid.placed(tmp_path).runs
    _, second, third, _ = runs
    with messages_to_file(second):
        print("of an earlier comparison", file=sys.stderr)
    said = []
    with GridProgress(runs, runs[:3], said.append) as shown:
        (tmp_path / run.folder / LOCK).write_text(f"{os.getpid()}\n{platform.node()}\n")
        with messages_of(second).open("a") as file:
            file.write("ü: one\nnot yet")
            file.flush()
            while not said:
                time.sleep(0.01)
            file.write(" two\n")
        shown.end(second, "failed")
        shown.end(third, None)
        lines = as_text(shown._table()).splitlines()
    assert said == ["ü: one", "not yet two"]
    states = {line.split()[0] + line.split()[2]: line.split()[3] for line in lines if ", seed" in line}
    assert states == {
        "distracted,1": "running",
        "distracted,2": "failed",
        "attention,1": "waiting",
        "attention,2": "done",
    }
    assert "1.5     20   BLEU 7.5" in lines[2]
    assert lines[-1].strip() == "1 running, 1 failed, 1 waiting, 1 done"


def test_of_the_lines_on_how_far_a_run_is_few_are_passed_on_and_all_others(grid, tmp_path, monkeypatch):
    """A validation every 30 seconds for an hour: ten lines, the first of which come soon."""
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    said = []
    runs = grid.placed(tmp_path).runs
    shown = GridProgress(runs, runs[:1], said.append)
    for epoch in range(1, 121):
        now += 30.0
        state = TrainingState(epoch=epoch, step=epoch, epoch_tokens=7, epoch_seconds=30.0)
        with messages_to_file(runs[0]):
            lines = ProgressLines("attention, seed 1", False, 0, 120, "BLEU")
            lines.show_validation(state, 2.5, {"loss": 2.25, "score": 7.5}, 120, is_last=True)
            lines.write(f"warning {epoch}")
        shown._pass_on()
    assert [line for line in said if "warning" in line] == [f"attention, seed 1: warning {n}" for n in range(1, 121)]
    epochs = [int(line.partition(": epoch ")[2].partition("/")[0]) for line in said if "warning" not in line]
    assert epochs[:4] == [1, 2, 4, 8]
    assert len(epochs) < 12
    assert epochs[-1] > 100
