"""One process at a time writes to a folder, and a lock left by a kill is free at once."""

import errno
import fcntl
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
from seq2seq_attn.files.lock import LOCK, BusyError, locked


@pytest.fixture
def process():
    """Starts a process that holds the lock of a folder, and runs a statement while it does."""
    started = []

    def start(folder, then="time.sleep(60)"):
        code = "import sys, time; from pathlib import Path; from seq2seq_attn.files.lock import locked\n" + (
            f"with locked(Path(sys.argv[1]), wait=True):\n    print('locked', flush=True); {then}"
        )
        started.append(subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "locked\n"
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def test_another_process_is_refused_with_the_owner_and_a_kill_frees_the_lock(process, tmp_path):
    holder = process(tmp_path / "run")
    with pytest.raises(BusyError) as refused, locked(tmp_path / "run"):
        pass
    owner = f"process {holder.pid} on {socket.gethostname()}"
    assert str(refused.value) == f"{tmp_path / 'run'}: in use by {owner}; wait until it ends, or name another folder"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run" / LOCK).exists()
    with locked(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK).read_text().split() == [str(os.getpid()), socket.gethostname()]
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
        "import sys; from pathlib import Path; from seq2seq_attn.files.lock import locked\n"
        "folder = Path(sys.argv[1]); number = folder / 'number'\n"
        "for _ in range(10):\n"
        "    with locked(folder / 'lock', wait=True):\n"
        "        number.write_text(str(int(number.read_text()) + 1))"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, tmp_path]) for _ in range(4)]
    assert [worker.wait(timeout=60) for worker in workers] == [0] * 4
    assert (tmp_path / "number").read_text() == "40"


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_locks_of_the_kernel_a_dead_process_frees_the_lock_and_a_living_one_does_not(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / LOCK).write_text(f"{sleeping.pid}\n{socket.gethostname()}\n")
    with pytest.raises(BusyError, match=f"in use by process {sleeping.pid} on"), locked(tmp_path):
        pass
    sleeping.communicate(b"\n")
    with locked(tmp_path, wait=True):
        assert (tmp_path / LOCK).read_text().startswith(f"{os.getpid()}\n")
    assert not (tmp_path / LOCK).exists()


def test_a_file_system_that_fails_to_lock_is_named_in_one_line(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(UserError, match=f"^{tmp_path}: cannot be written: No locks available$"), locked(tmp_path):
        pass


def test_whatever_is_in_a_lock_that_nobody_holds_it_is_taken(tmp_path):
    for content in (b"\xff[1]", b"", b"7", b"{}\n" * 10_000):
        (tmp_path / LOCK).write_bytes(content)
        with locked(tmp_path):
            pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: cannot be written: File exists"), locked(tmp_path / "file"):
        pass


def test_a_folder_that_another_process_removes_meanwhile_is_created_again(tmp_path):
    """Whoever created it removes it while it is empty."""
    code = (
        "import sys; from pathlib import Path; from seq2seq_attn.files.lock import locked\n"
        "for _ in range(200):\n    with locked(Path(sys.argv[1]), wait=True): pass"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "run"]) for _ in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no such file system here")
def test_a_folder_that_cannot_be_created_though_nothing_forbids_it_is_refused_at_once():
    with pytest.raises(UserError, match=r"^/proc/run: cannot be written: No such file"), locked(Path("/proc/run")):
        pass


def test_a_process_without_file_descriptors_is_refused_instead_of_waiting_for_itself(tmp_path):
    code = (
        "import os, resource, sys; from pathlib import Path; from seq2seq_attn.errors import UserError\n"
        "from seq2seq_attn.files.lock import locked\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (os.open('.', os.O_RDONLY) + 1,) * 2)\n"
        "try:\n    with locked(Path(sys.argv[1]), wait=True): pass\nexcept UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip().endswith("cannot be written: Too many open files"), done.stderr
