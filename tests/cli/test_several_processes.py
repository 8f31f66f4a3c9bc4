"""`train` in several processes: as `torchrun` starts them, and when one of them is killed."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts processes that load torch; .ci/run includes them

EPOCHS = 30


@pytest.fixture
def torchrun(toy, tmp_path):
    """Starts two processes that train into `tmp_path/run`, with options of torchrun and of the training."""

    def start(*options, launcher=()):
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *launcher]
        train = ["-m", "seq2seq_attn", "train", toy / "toy.yaml", "--output", tmp_path / "run", *options]
        return subprocess.Popen([*command, *train], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def own_lines(text):
    """What the program says, without the launcher."""
    return [line for line in text.splitlines() if line.startswith(("run: ", "seq2seq-attn: ", "interrupted", "next: "))]


def worker(launcher, rank):
    """The id of one of the processes that torchrun has started."""
    listed = subprocess.run(["ps", "--ppid", str(launcher.pid), "-o", "pid="], capture_output=True, text=True).stdout
    environments = {int(pid): Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in listed.split()}
    return next(pid for pid, environment in environments.items() if f"RANK={rank}".encode() in environment)


def kill_after_a_checkpoint(training, run, rank):
    while not (run / "checkpoints/last.safetensors").exists():
        assert training.poll() is None, training.communicate()
        time.sleep(0.02)
    os.kill(worker(training, rank), signal.SIGKILL)


def test_two_processes_write_one_run_and_speak_with_one_voice(torchrun, program, toy, tmp_path):
    out, err = torchrun("training.max_epochs=2").communicate()
    assert program("train", toy / "toy.yaml", "--output", tmp_path / "one", "training.max_epochs=2").code == 0
    assert [line.split(":")[0] for line in own_lines(err)] == ["run", "run", "next"]
    assert own_lines(err)[0].startswith("run: 2 processes, each on ")
    assert out.count("best validation") == 1
    one, two = ({path.name for path in (tmp_path / run).rglob("*")} for run in ("one", "run"))
    assert {name for name in one ^ two if "tfevents" not in name} == set()
    metrics, expected = (json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("run", "one"))
    assert metrics["initial_weights"] == expected["initial_weights"]
    assert metrics["training"]["best"] == pytest.approx(expected["training"]["best"], rel=1e-4)
    assert metrics["test"].keys() == expected["test"].keys()
    (session,) = json.loads((tmp_path / "run/provenance.json").read_text())["sessions"]
    assert session["processes"] == 2
    assert program("verify", tmp_path / "run").code == 0

    again = torchrun("training.max_epochs=2", launcher=["--max-restarts", "1"])
    _, err = again.communicate()
    assert again.returncode != 0
    assert len(refusals := own_lines(err)) == 2  # of the first start, and of the second: another job began the run
    assert all("--resume" in line and "--overwrite" in line for line in refusals)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_others_with_one_line_and_the_command_that_continues(torchrun, tmp_path, rank):
    training = torchrun(f"training.max_epochs={EPOCHS}")
    kill_after_a_checkpoint(training, tmp_path / "run", rank)
    out, err = training.communicate(timeout=300)
    assert (training.returncode, out) == (1, "")
    # Of the other process, the launcher may end it before it has noticed.
    assert sum(each.startswith(("seq2seq-attn", "interrupted")) for each in own_lines(err)) == 1, err
    command = shlex.split(err.partition("continue with:")[2].strip().splitlines()[0])
    assert command[:5] == ["torchrun", "--nproc-per-node", "2", "-m", "seq2seq_attn"]
    assert command[-1] == "--resume"
    command = [sys.executable, "-m", "torch.distributed.run", *command[1:]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{EPOCHS} epochs" in done.stdout


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_continues_by_itself_after_a_process_was_killed(torchrun, tmp_path, rank):
    training = torchrun(f"training.max_epochs={EPOCHS}", "--overwrite", launcher=["--max-restarts", "1"])
    kill_after_a_checkpoint(training, tmp_path / "run", rank)
    out, err = training.communicate(timeout=300)
    assert training.returncode == 0, err
    assert f"{EPOCHS} epochs" in out
    sessions = json.loads((tmp_path / "run/provenance.json").read_text())["sessions"]
    assert [each["processes"] for each in sessions] == [2, 2]
    assert sum("started again" in line for line in own_lines(err)) == 1


def test_a_signal_ends_all_processes_with_one_line(torchrun, tmp_path):
    training = torchrun(f"training.max_epochs={EPOCHS}")
    while not (tmp_path / "run/checkpoints/last.safetensors").exists():
        time.sleep(0.02)
    training.send_signal(signal.SIGINT)
    out, err = training.communicate(timeout=300)
    assert out == ""
    told = [line for line in own_lines(err) if line.startswith(("seq2seq-attn", "interrupted"))]
    assert len(told) == 1
    assert "keeps what was trained" in told[0]
