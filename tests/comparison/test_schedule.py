"""Processes beside this one: none outlives what it works for."""

import os
import signal
import subprocess
import sys

import pytest

from seq2seq_attn.comparison import schedule
from seq2seq_attn.comparison.schedule import in_processes
from seq2seq_attn.training.fit import Interrupted


def test_the_first_exception_stops_what_is_at_work_and_what_waits(tmp_path):
    long = f"import time; time.sleep(30); open({str(tmp_path / 'done')!r}, 'x')"
    with pytest.raises(ZeroDivisionError):
        list(in_processes(exec, [long, "1 / 0", long, long], jobs=2))
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_killed_takes_those_beside_it_with_it():
    long = "import time; print('at work', flush=True); time.sleep(120)"
    script = (
        f"from seq2seq_attn.comparison.schedule import in_processes; list(in_processes(exec, [{long!r}] * 3, jobs=2))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert [process.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    process.kill()
    process.communicate(timeout=60)  # ends when no process holds stdout any more
    assert process.returncode == -signal.SIGKILL


def test_ctrl_c_ends_the_processes_at_work_and_those_beside_them_without_a_word():
    """As a terminal sends it, to the whole group."""
    long = "import time; print('at work', flush=True); time.sleep(120)"
    script = (
        "from seq2seq_attn.comparison.schedule import in_processes\n"
        f"try:\n    list(in_processes(exec, [{long!r}] * 3, jobs=2))\n"
        "except KeyboardInterrupt:\n    print('interrupted')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert [process.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60) == (b"interrupted\n", b"")  # ends when no process holds stdout any more


def test_a_comparison_that_is_interrupted_in_its_processes_says_so(grid, tmp_path, monkeypatch):
    def interrupted(work, items, jobs, prepare):
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "in_processes", interrupted)
    with pytest.raises(Interrupted):
        schedule.complete_all(grid.runs, tmp_path / "runs", "resume", jobs=2, say=print)


def test_a_process_that_only_works_does_not_import_what_trains():
    script = "import sys, seq2seq_attn.comparison.schedule; print({'torch', 'lightning', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_ctrl_c_is_heard_by_the_first_process_alone():
    """The terminal sends it to all; one that is still importing would answer with a traceback."""
    heed = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    assert list(in_processes(exec, [heed, heed], jobs=2)) == [None, None]
