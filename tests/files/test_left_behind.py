"""What a killed process was writing is removed by the next one that writes there; what a living one writes is not."""

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.files import writing
from seq2seq_attn.files.writing import PART, remove_abandoned, unfinished_in, write_bytes

WRITERS = {
    "file": "from seq2seq_attn.files.writing import writing as begin\ndef fill(file): file.write(b'new')\n",
    "folder": (
        "from functools import partial\nfrom seq2seq_attn.files.writing import unfinished_in\n"
        "begin = lambda path: unfinished_in(path.parent, is_folder=True)\n"
        "def fill(folder): (folder / 'file').write_bytes(b'new'); folder.rename(path)\n"
    ),
}


@pytest.fixture(params=WRITERS)
def writer(request, tmp_path):
    """A process that has begun to write `result`, and ends it when a line comes."""
    code = (
        f"import sys\nfrom pathlib import Path\n{WRITERS[request.param]}path = Path(sys.argv[1])\n"
        "with begin(path) as unfinished:\n    print('begun', flush=True); sys.stdin.readline(); fill(unfinished)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "result"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.communicate()


def test_what_a_killed_process_was_writing_is_removed_by_the_next_that_writes_there(writer, tmp_path):
    assert len(list(tmp_path.glob(PART))) == 2, "it, and its lock"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len(list(tmp_path.glob(PART))) == 2
    write_bytes(tmp_path / "another", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_what_a_living_process_is_writing_is_left_alone(writer, tmp_path):
    for _ in range(3):
        write_bytes(tmp_path / "another", b"content")
        remove_abandoned(tmp_path)
    writer.communicate("go on\n")
    assert writer.returncode == 0
    result = tmp_path / "result"
    assert (result / "file" if result.is_dir() else result).read_bytes() == b"new"
    assert list(tmp_path.glob(PART)) == []


def test_several_files_of_a_folder_can_be_written_at_once(tmp_path):
    with writing.writing(tmp_path / "one") as one, writing.writing(tmp_path / "two") as two:
        two.write(b"second")
        one.write(b"first")
    assert [(tmp_path / name).read_bytes() for name in ("one", "two")] == [b"first", b"second"]
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


def test_a_part_that_was_taken_for_abandoned_before_it_was_locked_is_begun_again(tmp_path, monkeypatch):
    held = writing.held

    def late(path, seconds):
        if seconds:
            remove_abandoned(tmp_path)
        return held(path, seconds)

    monkeypatch.setattr(writing, "held", late)
    for is_folder in (False, True):
        with unfinished_in(tmp_path, is_folder=is_folder) as path:
            assert path.is_dir() == is_folder
            assert path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_cannot_be_created_leaves_nothing_behind(tmp_path, monkeypatch):
    def held(path, seconds):
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(writing, "held", held)
    with pytest.raises(UserError, match=r"result: cannot be written: Input/output error$"):
        write_bytes(tmp_path / "result", b"content")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no such file system here")
def test_where_nothing_can_be_created_writing_fails_at_once():
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"^/proc/file: cannot be written: "):
        write_bytes(Path("/proc/file"), b"content")
    assert time.monotonic() - begun < 0.5


def test_files_of_other_names_are_never_removed(tmp_path):
    names = ["notes.4711.part", ".seq2seq_attn.notes", "seq2seq_attn.1.part"]
    for name in names:
        (tmp_path / name).touch()
    write_bytes(tmp_path / "file", b"content")
    assert {path.name for path in tmp_path.iterdir()} == {*names, "file"}
