"""What Windows and macOS lack or refuse, simulated on Linux: the package neither needs nor asks it."""

import ast
import errno
import fcntl
import io
import os
import signal
import sys
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from filelock import SoftFileLock

import seq2seq_attn
from benchmarks import sitting, workloads
from seq2seq_attn.cli import is_closed_pipe, main
from seq2seq_attn.comparison.launchers import local
from seq2seq_attn.files import lock
from seq2seq_attn.files.checksums import checked, write_recorded
from seq2seq_attn.files.lock import LOCK, locked
from seq2seq_attn.files.writing import PART, unfinished_in, writing
from seq2seq_attn.ops.native import build
from seq2seq_attn.results.records import slug

POSIX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"}
ABSENT = {
    os: ("killpg", "fork", "geteuid", "sysconf", "sched_getaffinity", "memfd_create", "O_NOFOLLOW", "O_NONBLOCK"),
    signal: ("pthread_sigmask",),  # and no SIGKILL, which Python needs here: see below
}

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the simulation needs Linux")


def in_use(path):
    """Whether this process has the file open, or mapped into memory: Windows then neither renames nor removes it."""
    real = os.path.realpath(path)
    opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    mapped = [line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line]
    return real in opened or real in mapped


@pytest.fixture
def windows(monkeypatch):
    """As Windows answers: it opens no folder, syncs nothing opened for reading, and moves nothing that is open."""
    original = {name: getattr(os, name) for name in ("open", "replace", "rename", "unlink")}

    def opened(path, flags, *rest, **named):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return original["open"](path, flags, *rest, **named)

    def refused_if_in_use(name):
        def call(path, *rest, **named):
            if any(os.path.isfile(each) and in_use(each) for each in (path, *rest)):
                raise PermissionError(errno.EACCES, "The process cannot access the file", path)
            return original[name](path, *rest, **named)

        return call

    def sync(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "fsync", sync)
    for name in ("replace", "rename", "unlink"):
        monkeypatch.setattr(os, name, refused_if_in_use(name))
    monkeypatch.setattr(lock, "FileLock", SoftFileLock)  # that of Windows needs it
    for module, names in ABSENT.items():
        for name in names:
            monkeypatch.delattr(module, name, raising=False)
    build.library.cache_clear()
    monkeypatch.setattr(build, "_compiler", lambda: None)  # kernels are for POSIX systems
    yield
    build.library.cache_clear()


def test_no_module_is_imported_that_only_some_systems_have():
    for path in Path(seq2seq_attn.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:  # not those that may fail, in a `try`
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not POSIX_ONLY & {name.partition(".")[0] for name in names}, path


def test_files_are_written_recorded_and_locked_where_folders_cannot_be_opened(windows, tmp_path):
    with locked(tmp_path / "run"):
        for content in (b"old", b"new"):
            write_recorded(tmp_path / "run", {"file": content, "deep/file": content})
        with pytest.raises(TypeError), writing(tmp_path / "run" / "file") as file:
            file.write("text")
        with unfinished_in(tmp_path / "run", is_folder=True) as folder:
            (folder / "a").write_bytes(b"a")
            folder.rename(tmp_path / "run" / "whole")
        assert (tmp_path / "run" / LOCK).exists()
    for name in ("file", "deep/file"):
        assert checked(tmp_path / "run", name).read_bytes() == b"new"
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {"file", "deep", "whole", "SHA256SUMS"}


def test_a_run_is_trained_resumed_used_and_evaluated(windows, tmp_path, capsys, toy_config):
    run = tmp_path / "run"
    for arguments in (
        ["train", toy_config, "--output", run],
        ["train", toy_config, "--output", run, "--resume", "training.max_epochs=2"],
        ["translate", run, tmp_path / "test.src", "--attention", tmp_path / "weights.npz"],
        ["evaluate", run],
        ["verify", run],
        ["data", "get", "copy", "--output", tmp_path / "copy"],
        ["train", toy_config, "--output", run, "--overwrite"],
    ):
        with pytest.raises(SystemExit) as end:
            main([str(each) for each in arguments])
        assert end.value.code == 0, (arguments, capsys.readouterr().err)
    assert list(tmp_path.rglob(PART)) == []
    assert list(tmp_path.rglob(LOCK)) == []


@pytest.fixture
def toy_config(tmp_path):
    for part, count in {"train": 12, "validation": 3, "test": 2}.items():
        (tmp_path / f"{part}.src").write_text("a b\nb a c\nc\n" * count)
        (tmp_path / f"{part}.tgt").write_text("b a\nc a b\nc\n" * count)
    (tmp_path / "toy.yaml").write_text(f"""
data:
  train: {{source: {tmp_path}/train.src, target: {tmp_path}/train.tgt}}
  validation: {{source: {tmp_path}/validation.src, target: {tmp_path}/validation.tgt}}
  test: {{source: {tmp_path}/test.src, target: {tmp_path}/test.tgt}}
text: {{tokenizer: word}}
model: {{embedding_size: 3, encoder: {{hidden_size: 2}}, decoder: {{hidden_size: 5}}}}
training: {{batch_size: 12, max_epochs: 1, patience: null, monitor: loss, accelerator: cpu}}
evaluation: {{tokenize: none}}
""")
    return tmp_path / "toy.yaml"


def test_workers_are_started_where_no_signal_can_be_blocked(monkeypatch):
    resource_tracker.ensure_running()
    monkeypatch.setattr(resource_tracker, "_HAVE_SIGMASK", False)  # of Python itself, as on Windows
    for name in ABSENT[signal]:
        monkeypatch.delattr(signal, name, raising=False)
    assert sorted(local.in_processes(abs, [-3, 5], 2)) == [(-3, 3), (5, 5)]
    monkeypatch.delattr(signal, "SIGKILL")
    assert "SIGTERM" in local._reason(-15)


def test_a_measurement_runs_where_there_are_no_process_groups(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "killpg")
    monkeypatch.delattr(signal, "SIGKILL")
    outcome = '{"value": 2.0, "peak_bytes": 7, "parts": {}}'
    command = [sys.executable, "-c", f"import sys; sys.stdin.read(); print({outcome!r})"]
    assert sitting.run_process(command, {}, 1, tmp_path).value == 2.0


def test_memory_is_unknown_where_no_module_tells_it(monkeypatch):
    def refused(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refused)
    assert workloads.peak_bytes("cpu") > 0
    monkeypatch.setitem(sys.modules, "resource", None)
    assert workloads.peak_bytes("cpu") == 0


def test_lines_end_alike_on_every_system(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="cp1252", newline="\r\n"))
    with pytest.raises(SystemExit):
        main(["--version"])
    assert out.getvalue().endswith(b"\n")
    assert b"\r" not in out.getvalue()


def test_a_closed_pipe_is_known_by_either_error():
    assert is_closed_pipe(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert is_closed_pipe(OSError(errno.EINVAL, "Invalid argument"))
    assert not is_closed_pipe(OSError(errno.EINVAL, "Invalid argument", "file"))
    assert not is_closed_pipe(OSError(errno.ENOSPC, "No space left on device"))


@pytest.mark.parametrize("name", ["CON", "nul", "Aux!", "com1", "lpt³"])
def test_no_folder_has_the_name_of_a_device(name):
    assert slug(name).endswith("-")
    assert slug(f"{name} 2") == f"{slug(name)}2"
