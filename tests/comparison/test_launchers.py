"""What launchers ask of Ray and Slurm, by engines that only answer; `tests/cluster` has real ones."""

import os
import signal
import sys
from types import SimpleNamespace

import pytest

from seq2seq_attn.comparison.experiment import experiment_grid
from seq2seq_attn.comparison.launchers import Ended, find_launcher, ray, slurm
from seq2seq_attn.errors import UserError


@pytest.fixture
def runs(values):
    """Two arms with two seeds, of which the second needs a GPU."""
    values["resources"] = {"cpus": 2, "memory": 1.5, "hours": 0.5, "partition": "all"}
    values["arms"]["attention"] = {"model": {"context": {"kind": "attention"}}, "resources": {"gpus": 1}}
    return experiment_grid(values).runs


def seed(run, threads):
    return run.seed, threads


class LostError(Exception):
    pass


class FakeRay(SimpleNamespace):
    """Calls a function when its result is waited for; the second task is lost with its node."""

    def __init__(self):
        super().__init__(asked=[], connected=[], cancelled=[], most=0, environment={})
        self.exceptions = SimpleNamespace(RayError=LostError, RayTaskError=type("RayTaskError", (LostError,), {}))

    def is_initialized(self):
        return False

    def init(self, address, **options):
        signal.signal(signal.SIGTERM, lambda *_: None)
        self.environment = dict(os.environ)
        self.connected.append((address, options))

    def nodes(self):
        return [{"Resources": {"CPU": 8.0}}, {"Resources": {"CPU": 2.0, "memory": 2e9}}]

    def shutdown(self):
        self.connected.append("closed")

    def remote(self, **options):
        def task(function):
            def call(*arguments):
                self.asked[-1]["call"] = lambda: function(*arguments)
                return len(self.asked) - 1

            def with_options(**own):
                self.asked.append(options | own)
                return SimpleNamespace(remote=call)

            return SimpleNamespace(options=with_options)

        return task

    def wait(self, tasks, timeout):
        self.most = max(self.most, len(tasks))
        return tasks[:1], tasks[1:]

    def get(self, task):
        if task == 1:
            raise LostError("\nIts node died.\nMore.")
        return self.asked[task]["call"]()

    def cancel(self, task, force):
        self.cancelled.append((task, force))


@pytest.fixture
def fake_ray(monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_TMPDIR", *ray.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", engine := FakeRay())
    return engine


def test_ray_gets_a_task_for_each_run_with_its_resources_and_a_lost_one_has_a_reason(fake_ray, runs, tmp_path):
    before = signal.getsignal(signal.SIGTERM), dict(os.environ)
    said = []
    found = list(find_launcher("ray", 3, tmp_path).launch(seed, runs, said.append))
    assert said == ["no node of the cluster has 2 cpus, 1 gpu, 1.5 GB; runs that need it wait for one"]
    assert found == [(runs[0], (1, 2)), (runs[1], Ended("Its node died.")), (runs[2], (1, 2)), (runs[3], (2, 2))]
    assert fake_ray.most == 3
    assert [(each["num_cpus"], each["num_gpus"], each["memory"]) for each in fake_ray.asked] == [
        (2, 0, 1_500_000_000), (2, 0, 1_500_000_000), (2, 1, 1_500_000_000), (2, 1, 1_500_000_000),
    ]  # fmt: skip
    assert all(each["max_calls"] == 1 and each["max_retries"] > 0 for each in fake_ray.asked)
    (address, options), closed = fake_ray.connected
    assert (address, options["include_dashboard"], closed) == ("local", False, "closed")
    assert fake_ray.environment["RAY_AUTH_MODE"] == "token"
    assert fake_ray.environment["RAY_USAGE_STATS_ENABLED"] == "0"
    assert (signal.getsignal(signal.SIGTERM), dict(os.environ)) == before


def test_tasks_end_with_the_comparison(fake_ray, runs, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    launched = find_launcher("ray", None, tmp_path).launch(seed, runs, print)
    next(launched)
    launched.close()
    assert fake_ray.cancelled == [(task, True) for task in (1, 2, 3)]
    assert fake_ray.connected == [("head:6379", {"log_to_driver": False, "logging_level": 40}), "closed"]


class FakeJob(SimpleNamespace):
    """A job whose result is in the folder, unless it was not written."""

    def __init__(self, call, array, number, folder):
        super().__init__(job_id=f"{array}_{number}", paths=SimpleNamespace(stderr=folder / f"{array}_{number}.err"))
        self.paths.result_pickle = folder / self.job_id
        if self.job_id != "1_1":
            self.paths.result_pickle.touch()
        self.result = call


@pytest.fixture
def fake_slurm(monkeypatch, tmp_path):
    """The parameters of each array, and the commands that were called."""
    engine = SimpleNamespace(arrays=[], commands=[])

    class Executor:
        def __init__(self, folder, cluster, slurm_max_num_timeout):
            assert cluster == "slurm"

        def update_parameters(self, **parameters):
            engine.arrays.append(parameters)

        def map_array(self, job, runs):
            number = len(engine.arrays)
            return [FakeJob(lambda run=run: job(run), number, place, tmp_path) for place, run in enumerate(runs)]

    def run(command, **_):
        engine.commands.append(command)
        return SimpleNamespace(returncode=0, stdout="1_1 NODE_FAIL\n7 RUNNING\n")

    errors = {name: type(name, (Exception,), {}) for name in ("FailedJobError", "FailedSubmissionError")}
    utils = SimpleNamespace(**errors, DelayedSubmission=lambda *arguments: arguments)
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(AutoExecutor=Executor))
    monkeypatch.setitem(sys.modules, "submitit.core", SimpleNamespace(utils=utils))
    monkeypatch.setitem(sys.modules, "submitit.core.utils", SimpleNamespace(**vars(utils), UncompletedJobError=OSError))
    monkeypatch.setattr(slurm.subprocess, "run", run)
    monkeypatch.setattr(slurm, "LOOK", 0.0)
    monkeypatch.setattr(slurm, "ASK", 0.0)
    return engine


def test_slurm_gets_an_array_for_runs_that_need_the_same_and_a_job_without_a_result_has_a_reason(
    fake_slurm, runs, tmp_path
):
    said = []
    *found, (run, ended) = find_launcher("slurm", 3, tmp_path).launch(seed, runs, said.append)
    assert found == [(runs[0], (1, 2)), (runs[2], (1, 2)), (runs[3], (2, 2))]
    assert run == runs[1]
    assert "1_1 ended without a result: NODE_FAIL" in ended.reason
    assert len(said) == len(fake_slurm.arrays) == 2
    first, second = fake_slurm.arrays
    assert first.items() >= {"cpus_per_task": 2, "mem_gb": 1.5, "timeout_min": 30, "slurm_partition": "all"}.items()
    assert (first["gpus_per_node"], second["gpus_per_node"]) == (None, 1)
    assert first["slurm_array_parallelism"] == 3
    assert {command[0] for command in fake_slurm.commands} == {"squeue"}


def test_jobs_end_with_the_comparison(fake_slurm, runs, tmp_path):
    launched = find_launcher("slurm", None, tmp_path).launch(seed, runs, print)
    next(launched)
    launched.close()
    assert fake_slurm.commands[-1] == ["scancel", "1_1", "2_0", "2_1"]


def test_a_job_that_is_queued_again_has_no_result_whatever_caught_its_end(fake_slurm, runs):
    def work(run, threads):
        job.checkpoint(run)  # as submitit does before it raises SystemExit, which this does not let through
        return "an interruption"

    job = slurm.Job(work)
    with pytest.raises(SystemExit):
        job(runs[0])


@pytest.mark.parametrize("on", ["ray", "slurm"])
def test_an_engine_that_is_not_installed_is_named_with_its_extra(on, runs, tmp_path, monkeypatch):
    for name in ("ray", "submitit"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"--on {on} needs (ray|submitit).*\[{on}\]"):
        list(find_launcher(on, None, tmp_path).launch(seed, runs, print))


@pytest.mark.parametrize("on", ["local", "ray", "slurm"])
@pytest.mark.parametrize("jobs", [0, -1])
def test_no_run_at_once_is_refused_before_any_waits(tmp_path, on, jobs):
    with pytest.raises(UserError, match=f"jobs={jobs}: give 1 or more"):
        find_launcher(on, jobs, tmp_path)
