"""One process at a time writes to a folder, and a lock left by a kill is taken over."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import lock
from seq2seq_attn.runs.lock import BusyError, locked, require_lock


@pytest.fixture
def process():
    """Starts a process that holds the lock of a folder, and runs a statement while it does."""
    started = []

    def start(folder, then="time.sleep(60)"):
        code = "import sys, time; from pathlib import Path; from seq2seq_attn.runs.lock import locked\n" + (
            f"with locked(Path(sys.argv[1]), wait=True):\n    print('locked', flush=True); {then}"
        )
        started.append(subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "locked\n"
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def owned(folder, **changes):
    """A lock file as a process leaves it that had no time to remove it."""
    told = {
        "pid": 2**22 + 1,  # above the largest that Linux gives
        "host": "elsewhere",
        "since": "2031-05-06 07:08:09+00:00",
        "command": "seq2seq-attn train x.yaml",
        "kernel": "of another host",
        "id": "abc",
    }
    folder.mkdir(exist_ok=True)
    (folder / ".lock").write_text(json.dumps(told | changes))
    return folder


def test_another_process_is_refused_with_the_owner_and_a_kill_frees_the_lock(process, tmp_path):
    holder = process(tmp_path / "run")
    with pytest.raises(BusyError) as refused, locked(tmp_path / "run"):
        pass
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'run'}: in use by process {holder.pid} on {socket.gethostname()}, since 20")
    assert message.endswith("; wait until it ends, or name another folder")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run/.lock").exists()
    with locked(tmp_path / "run"):
        assert json.loads((tmp_path / "run/.lock").read_text())["pid"] == os.getpid()
    assert not list((tmp_path / "run").iterdir())


def test_waiting_ends_when_the_owner_does(process, tmp_path):
    process(tmp_path, "time.sleep(0.3)")
    begun = time.monotonic()
    with locked(tmp_path, wait=True):
        assert time.monotonic() - begun > 0.1


def test_one_thread_enters_its_lock_again_and_another_one_does_not(tmp_path):
    refused = []

    def other():
        try:
            with locked(tmp_path / "run"):
                pass
        except BusyError as busy:
            refused.append(busy)

    with locked(tmp_path / "run"):
        with locked(tmp_path / "run"):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert not (tmp_path / "run").exists(), "a folder that stayed empty"


def test_many_processes_take_turns(tmp_path):
    """Each adds 1 to a number in a file, ten times; without a lock, additions would be lost."""
    (tmp_path / "number").write_text("0")
    code = (
        "import sys; from pathlib import Path; from seq2seq_attn.runs.lock import locked\n"
        "folder = Path(sys.argv[1]); number = folder / 'number'\n"
        "for _ in range(10):\n"
        "    with locked(folder / 'lock', wait=True):\n"
        "        number.write_text(str(int(number.read_text()) + 1))"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, tmp_path]) for _ in range(4)]
    assert [worker.wait(timeout=60) for worker in workers] == [0] * 4
    assert (tmp_path / "number").read_text() == "40"


def test_the_heartbeat_of_another_host_decides(tmp_path):
    """Its kernel and this one do not share their locks."""
    owned(tmp_path)
    owner = r"process 4194305 on elsewhere, since 2031-05-06 07:08:09\+00:00 \(seq2seq-attn train x\.yaml\)"
    with pytest.raises(BusyError, match=owner), locked(tmp_path):
        pass
    before = time.time() - lock.STALE - 5
    os.utime(tmp_path / ".lock", (before, before))
    with locked(tmp_path):
        assert "elsewhere" not in (tmp_path / ".lock").read_text()


def test_the_heartbeat_keeps_a_lock_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    with locked(tmp_path):
        before = time.time() - 1000
        os.utime(tmp_path / ".lock", (before, before))
        deadline = time.monotonic() + 30
        while (tmp_path / ".lock").stat().st_mtime < before + 500:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize("pid", ["dead", "alive"])
def test_without_locks_of_the_kernel_a_dead_process_frees_the_lock_and_a_living_one_does_not(
    tmp_path, monkeypatch, pid
):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    owned(tmp_path, pid=os.getpid() if pid == "alive" else 2**22 + 1, kernel=lock._kernel())
    if pid == "alive":
        with pytest.raises(BusyError), locked(tmp_path):
            pass
    else:
        with locked(tmp_path), pytest.raises(BusyError):
            lock._Lock(tmp_path / ".lock").acquire(wait=False)


def test_a_process_whose_lock_was_taken_over_learns_it_and_leaves_the_new_one_alone(tmp_path):
    with locked(tmp_path):
        require_lock(tmp_path)
        owned(tmp_path)
        with pytest.raises(UserError, match="was taken over by process 4194305 on elsewhere"):
            require_lock(tmp_path)
    assert "elsewhere" in (tmp_path / ".lock").read_text()


def test_a_lock_file_of_anything_else_is_no_owner(tmp_path):
    (tmp_path / ".lock").write_bytes(b"\xff[1]")
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: cannot be written: File exists"), locked(tmp_path / "file"):
        pass


def test_a_folder_that_another_process_removes_meanwhile_is_created_again(tmp_path, monkeypatch):
    """`Path.mkdir` raises FileExistsError if the folder exists when it begins, and is gone when it looks again."""
    calls = []

    def racing(path, *_, **__):
        calls.append(path)
        if len(calls) == 1:
            raise FileExistsError
        os.makedirs(path, exist_ok=True)

    monkeypatch.setattr(Path, "mkdir", racing)
    with locked(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").exists()
    assert len(calls) == 2


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no such file system here")
def test_a_folder_that_cannot_be_created_though_nothing_forbids_it_is_refused_at_once():
    with pytest.raises(UserError, match="/proc/run: cannot be written: No such file"), locked(Path("/proc/run")):
        pass


def test_a_process_without_file_descriptors_is_refused_instead_of_waiting_for_itself(tmp_path):
    """It can open the lock, and then not read it: once, it took that for a lock of another process."""
    code = (
        "import os, resource, sys; from pathlib import Path; from seq2seq_attn.errors import UserError\n"
        "from seq2seq_attn.runs.lock import locked\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (os.open('.', os.O_RDONLY) + 2,) * 2)\n"
        "try:\n    with locked(Path(sys.argv[1]), wait=True): pass\nexcept UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip().endswith("cannot be written: Too many open files"), done.stderr
