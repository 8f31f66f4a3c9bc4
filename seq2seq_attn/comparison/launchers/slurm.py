"""Runs as jobs of Slurm, by submitit: an array for all runs that need the same resources.

The folder of the comparison is on a file system that all nodes share. Slurm queues a job again whose node fails. It
sends SIGUSR2 to a job that is preempted or whose time is nearly over, and submitit queues that job again. Either way
the run continues from its last checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_attn.comparison.launchers import Ended, Work
from seq2seq_attn.errors import UserError, needing

if TYPE_CHECKING:
    from seq2seq_attn.comparison.experiment import ArmRun
    from seq2seq_attn.options import Resources

LOOK, ASK = 1.0, 10.0  # seconds between two looks at the files of results, and between two questions to Slurm
RESTARTS = 10_000  # of a job whose time was over: each continues what the one before has trained
OVER = "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"


class Slurm:
    """Jobs of the cluster to which this host submits, with `jobs` of an array at once at most."""

    def __init__(self, jobs: int | None, folder: Path) -> None:
        """`folder` gets what submitit and Slurm write: scripts, results and output of the jobs."""
        self.jobs, self.folder = jobs, folder

    def launch(
        self, work: Work, runs: Sequence[ArmRun], say: Callable[[str], object]
    ) -> Iterator[tuple[ArmRun, Any | Ended]]:
        running: dict[str, tuple[ArmRun, Any]] = {}  # by the name of the job
        over: dict[str, str] = {}
        try:
            for resources in dict.fromkeys(run.resources for run in runs):
                alike = [run for run in runs if run.resources == resources]
                jobs = self._submit(work, alike, resources)
                running |= {job.job_id: (run, job) for run, job in zip(alike, jobs, strict=True)}
                say(f"Slurm has job {jobs[0].job_id.partition('_')[0]} for {len(alike)} runs")
            asked = time.monotonic()
            while running:
                time.sleep(LOOK)
                before = over
                if time.monotonic() > asked + ASK:
                    over, asked = _over(running), time.monotonic()
                for name, (run, job) in list(running.items()):
                    if job.paths.result_pickle.exists():
                        del running[name]
                        yield run, _result(job)
                    elif over is not before and name in over and name in before:  # the file may have been on its way
                        del running[name]
                        yield run, Ended(f"Slurm's job {name} ended without a result: {over[name]}; {job.paths.stderr}")
        finally:
            if running:
                subprocess.run(["scancel", *running], check=False, capture_output=True)

    def _submit(self, work: Work, runs: Sequence[ArmRun], resources: Resources) -> list[Any]:
        with needing("--on slurm"):
            import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            executor = submitit.AutoExecutor(self.folder, cluster="slurm", slurm_max_num_timeout=RESTARTS)
        except RuntimeError:
            raise UserError("--on slurm: this host has no srun; call it on one that submits jobs to Slurm") from None
        executor.update_parameters(
            name="seq2seq-attn",
            timeout_min=ceil(60 * resources.hours),
            mem_gb=resources.memory,
            cpus_per_task=resources.cpus,
            gpus_per_node=resources.gpus or None,
            slurm_partition=resources.partition,
            slurm_account=resources.account,
            slurm_array_parallelism=self.jobs or len(runs),
            slurm_additional_parameters={"requeue": True},
            slurm_srun_args=[f"--cpus-per-task={resources.cpus}"],  # which srun no longer takes from the job
        )
        try:
            with _outside_of_a_job():
                return list(executor.map_array(Job(work), runs))
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            raise UserError(f"--on slurm: {error}") from None


class Job:
    """What a job calls. It is called again, from the beginning, if the job is queued again."""

    def __init__(self, work: Work) -> None:
        self.work, self.is_queued_again = work, False

    def __call__(self, run: ArmRun) -> Any:
        try:
            return self.work(run, threads=run.resources.cpus)
        finally:
            # submitit leaves by SystemExit. Whatever has caught it, this job has no result: the next one has.
            if self.is_queued_again:
                sys.exit(-1)

    def checkpoint(self, run: ArmRun) -> Any:
        """Called by submitit at SIGUSR2, just before it queues the job again; the run itself has its checkpoints."""
        from submitit.core.utils import DelayedSubmission

        self.is_queued_again = True
        return DelayedSubmission(Job(self.work), run)


@contextmanager
def _outside_of_a_job() -> Iterator[None]:
    """Within the block, a job in which this process runs hands none of its own resources on to those it submits."""
    own = {name: value for name, value in os.environ.items() if name.startswith("SLURM_") and name != "SLURM_CONF"}
    for name in own:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(own)


def _over(jobs: Iterable[str]) -> dict[str, str]:
    """The states of jobs that have ended; none if Slurm does not answer now."""
    command = ["squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i %T"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    if answer.returncode:
        return {}
    states = dict(line.split() for line in answer.stdout.splitlines())
    return {name: states.get(name, "unknown to Slurm") for name in jobs if states.get(name, OVER[0]) in OVER}


def _result(job: Any) -> Any | Ended:
    """What the job has returned; the last line of its traceback if it has raised an error."""
    from submitit.core.utils import UncompletedJobError

    try:
        return job.result()
    except UncompletedJobError:
        _, trace = job._get_outcome_and_result()
        return Ended(str(trace).strip().splitlines()[-1])
