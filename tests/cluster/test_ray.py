"""A grid on a Ray cluster of two nodes, one of which dies. Minutes; run with: python -m pytest -m slow tests/cluster"""

import os
import signal
import time

import pytest
from slow_grid import STEPS, descendants

pytestmark = pytest.mark.slow


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
    _, err = compare.process.communicate(timeout=300)
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
