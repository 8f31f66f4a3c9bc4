"""Worker processes end with the process that started them."""

import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

from seq2seq_attn.comparison import schedule
from seq2seq_attn.comparison.launchers import Ended
from seq2seq_attn.comparison.launchers.local import Local, in_processes


def test_the_first_exception_stops_running_and_waiting_work(tmp_path):
    long = f"import time; time.sleep(30); open({str(tmp_path / 'done')!r}, 'x')"
    with pytest.raises(ZeroDivisionError):
        list(in_processes(exec, [long, "1 / 0", long, long], jobs=2))
    assert multiprocessing.active_children() == []
    assert not list(tmp_path.iterdir())


def test_a_killed_worker_is_reported_with_its_item_and_the_others_go_on():
    kill, leave, fine = "import os; os.kill(os.getpid(), 9)", "import os; os._exit(3)", "1 + 1"
    found = list(in_processes(exec, [kill, fine, leave, kill, fine], jobs=2))
    assert sorted((item, result.reason if isinstance(result, Ended) else result) for item, result in found) == sorted(
        [
            (fine, None),
            (fine, None),
            (kill, "its process was killed (SIGKILL; the system does so when memory runs out)"),
            (kill, "its process was killed (SIGKILL; the system does so when memory runs out)"),
            (leave, "its process ended with exit code 3"),
        ]
    )


def test_worker_processes_end_when_their_parent_is_killed():
    long = "import os, time; os.write(1, b'at work\\n'); time.sleep(120)"
    place = "seq2seq_attn.comparison.launchers.local"
    script = f"from {place} import in_processes; list(in_processes(exec, [{long!r}] * 3, jobs=2))"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert [process.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    process.kill()
    process.communicate(timeout=300)  # ends when no process holds stdout any more
    assert process.returncode == -signal.SIGKILL


def test_ctrl_c_ends_all_processes_without_a_traceback():
    """Sent to the whole process group, as a terminal does."""
    long = "import os, time; os.write(1, b'at work\\n'); time.sleep(120)"
    script = (
        "from seq2seq_attn.comparison.launchers.local import in_processes\n"
        f"try:\n    list(in_processes(exec, [{long!r}] * 3, jobs=2))\n"
        "except KeyboardInterrupt:\n    print('interrupted')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert [process.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=300) == (b"interrupted\n", b"")  # ends when no process holds stdout any more


def test_failed_runs_and_those_of_other_processes_are_not_done(grid, tmp_path, monkeypatch):
    attempts = [schedule._Attempt(failure="no memory"), schedule._Attempt(busy="in use"), *[schedule._Attempt()] * 3]
    monkeypatch.setattr(schedule, "_attempts", lambda runs, *_, **__: ((run, attempts.pop(0)) for run in runs))
    said = []
    schedule.complete_all(grid.placed(tmp_path).runs, "resume", Local(2), said.append)
    assert [line for line in said if "done" in line] == [f"{done} of 4 runs done" for done in (1, 2, 3)]


def test_the_processes_of_others_import_no_torch():
    script = "import sys, seq2seq_attn.comparison.launchers.local; print({'torch', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_ctrl_c_is_handled_by_the_parent_process_only():
    """The terminal sends it to all; a worker that is still importing would print a traceback."""
    heed = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    assert [result for _, result in in_processes(exec, [heed, heed], jobs=2)] == [None, None]
