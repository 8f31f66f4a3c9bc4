"""The processes that measure: their outcome, and that they end with the program that started them."""

import multiprocessing
import os
import signal
import sys
import time

import pytest

from benchmarks.sitting import MeasurementFailedError, run_process

ANSWER = """echo noise; echo '{"value": 3.5, "peak_bytes": 7, "parts": {}}'"""

# A peer's driver: it reads its order, starts the peer's program and waits for it.
PEER = "cat > order; sleep 600 & echo $$ $! > started.part; mv started.part started; wait"


def started(folder):
    """The ids of the driver and of the peer's own program, once both run."""
    deadline = time.monotonic() + 300
    while not (folder / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [int(word) for word in (folder / "started").read_text().split()]


def has_ended(process):
    """Whether the process is gone, or a zombie."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def assert_ended(processes):
    deadline = time.monotonic() + 120
    while not all(map(has_ended, processes)):
        assert time.monotonic() < deadline, processes
        time.sleep(0.02)


def test_the_last_line_of_the_output_is_the_outcome(tmp_path):
    assert run_process(["sh", "-c", ANSWER], {}, 1, tmp_path) == (3.5, 7, {})


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo a; echo b >&2; exit 3", "code 3: b"),
        ("true", "code 0: $"),
        ("echo 7", "code 0: 7"),
        ("echo c d", "code 0: c d"),
    ],
)
def test_a_process_without_an_outcome_is_a_failure_that_quotes_its_last_line(script, message):
    with pytest.raises(MeasurementFailedError, match=message):
        run_process(["sh", "-c", script], {}, 1)


def test_a_process_has_the_threads_of_the_job():
    script = 'test "$OMP_NUM_THREADS $MKL_NUM_THREADS" = "5 5" && ' + ANSWER
    assert run_process(["sh", "-c", script], {}, 5).value == 3.5


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_bench_that_is_stopped_leaves_no_process_of_a_peer_running(number, tmp_path):
    fork = multiprocessing.get_context("fork")  # a new process would import torch again
    bench = fork.Process(target=run_process, args=(["sh", "-c", PEER], {}, 1, tmp_path))
    bench.start()
    processes = started(tmp_path)
    assert not any(map(has_ended, processes))
    os.kill(bench.pid, number)
    bench.join(timeout=60)
    assert bench.exitcode not in (None, 0)
    assert_ended(processes)


@linux
def test_processes_that_a_driver_leaves_running_end_with_it(tmp_path):
    script = f"sleep 600 >&- 2>&- & echo $! > {tmp_path}/started; {ANSWER}"
    assert run_process(["sh", "-c", script], {}, 1).value == 3.5
    assert_ended(started(tmp_path))
