"""A grid on a Slurm of two nodes (`slurm.sh`). Minutes; run as root with: python -m pytest -m slow tests/cluster"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from slow_grid import STEPS

from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.provenance import read_sessions
from seq2seq_attn.training import LAST

pytestmark = pytest.mark.slow

SLURM = Path(__file__).with_name("slurm.sh")


@pytest.fixture(scope="module")
def slurm():
    """Calls `slurm.sh` for a cluster that ends with these tests."""
    pytest.importorskip("submitit", reason="submitit is not installed: pip install 'seq2seq_attn[slurm]'")
    if os.geteuid() or any(shutil.which(name) is None for name in ("munged", "slurmctld", "slurmd", "srun")):
        pytest.skip("needs root and Slurm: apt-get install -y --no-install-recommends slurm-wlm munge")
    with TemporaryDirectory(prefix="slurm-") as folder, pytest.MonkeyPatch.context() as patch:

        def call(command, *arguments):
            subprocess.run([SLURM, command, folder, *arguments], check=True, timeout=300)

        call("start")
        patch.setenv("SLURM_CONF", f"{folder}/slurm.conf")
        try:
            yield call
        finally:
            call("stop")


def environment(pid):
    """The variables of a process, as NAME=VALUE."""
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def queued(*columns):
    """The jobs that have not ended."""
    command = ["squeue", "--noheader", "--array", f"--format={' '.join(columns)}"]
    return [line.split() for line in subprocess.check_output(command, text=True).splitlines()]


def test_a_run_that_is_preempted_is_queued_again_and_continues(slurm, comparison):
    """As the scheduler does it: SIGUSR2. submitit leaves by SystemExit, which must not become the result of the job."""
    compare = comparison("--on", "slurm", seeds=1)
    while len(compare.training()) < 2:
        time.sleep(0.1)
    (job, _), *_ = sorted(queued("%i", "%N"))
    subprocess.run(["scancel", "--signal=USR2", job], check=True)
    err = compare.end()
    lost = compare.lost()
    assert [*lost] == ["arm-7/seed-1"]
    assert lost["arm-7/seed-1"] <= STEPS
    assert "2 of 2 runs done" in err
    assert queued("%i") == []


def test_runs_of_a_node_that_dies_continue_on_the_other_and_no_other_run_is_trained_twice(slurm, comparison):
    compare = comparison("--on", "slurm")
    while len(compare.training()) < 4:
        time.sleep(0.1)
    on_it = [run for run in compare.training() if b"SLURMD_NODENAME=n1" in environment(run.owner)]
    slurm("kill", "n1")
    compare.end()
    slurm("node", "n1")
    lost = compare.lost()
    assert lost.keys() == {f"{run.folder.parent.name}/{run.folder.name}" for run in on_it}
    assert len(lost) == 2
    assert all(steps <= STEPS for steps in lost.values()), lost
    steps = [read_metrics(path.parent)["training"]["steps"] for path in compare.runs.glob("*/*/metrics.json")]
    assert steps == [steps[0]] * 8


def test_an_array_has_the_resources_of_its_arms_and_no_job_is_left_after_ctrl_c(slurm, comparison):
    more = "resources.hours=2", "arms.arm 8.resources.cpus=2"
    compare = comparison("--on", "slurm", "--jobs", "1", *more, seeds=2)
    while not compare.training():
        time.sleep(0.1)
    jobs = sorted(queued("%i", "%C", "%l", "%T"))
    assert [job.partition("_")[2] for job, *_ in jobs] == ["0", "1"] * 2
    assert [(int(cpus), limit) for _, cpus, limit, _ in jobs] == [(1, "2:00:00")] * 2 + [(2, "2:00:00")] * 2
    assert sum(state == "RUNNING" for *_, state in jobs) <= 2  # one of each array
    os.kill(compare.process.pid, signal.SIGINT)
    _, err = compare.process.communicate(timeout=300)
    assert compare.process.returncode == 130
    assert "Traceback" not in err
    deadline = time.monotonic() + 30
    while queued("%i"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_slurm_refuses_is_refused_in_one_line(slurm, comparison):
    compare = comparison("--on", "slurm", "resources.partition=nowhere")
    _, err = compare.process.communicate(timeout=300)
    assert compare.process.returncode == 2
    assert "invalid partition specified: nowhere" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_one_model_is_trained_on_two_nodes_and_continues_when_its_job_is_queued_again(
    slurm, toy_corpus, experiment_text, tmp_path
):
    """By `srun` alone. The names of the nodes are known to nobody but Slurm."""
    values = yaml.safe_load(experiment_text.format(folder=toy_corpus))["base"]
    values["training"] |= {"max_epochs": 40, "patience": None}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    train = f"{sys.executable} -m seq2seq_attn train {tmp_path}/run.yaml --output {tmp_path}/run"
    (tmp_path / "job").write_text(f"#!/bin/bash\nexport MASTER_ADDR=localhost OMP_NUM_THREADS=1\nsrun {train}\n")
    options = "--parsable", "--nodes=2", "--requeue", "--open-mode=append", f"--output={tmp_path}/log"
    job = subprocess.check_output(["sbatch", *options, tmp_path / "job"], text=True).strip()
    while not (tmp_path / "run" / LAST).exists():
        assert queued("%i"), (tmp_path / "log").read_text()
        time.sleep(0.1)
    subprocess.run(["scontrol", "requeue", job], check=True)
    while queued("%i"):
        time.sleep(0.2)
    metrics = read_metrics(tmp_path / "run")
    assert metrics["training"]["epochs"] == 40, (tmp_path / "log").read_text()
    assert "test" in metrics
    assert [each["processes"] for each in read_sessions(tmp_path / "run")] == [2, 2]
