"""The checksums of a folder: whenever a process ends, each file is as recorded, and nothing else is accepted."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.files import writing
from seq2seq_attn.files.checksums import SUMS, checked, read_sums, record, recording, write_recorded


def test_the_sums_are_those_of_the_command_sha256sum(tmp_path):
    write_recorded(tmp_path, {"a.txt": b"one", "parts/b c.txt": b""})
    (tmp_path / "log.csv").write_text("1,2\n")
    record(tmp_path, ["log.csv"])
    assert sorted(read_sums(tmp_path)) == ["a.txt", "log.csv", "parts/b c.txt"]
    done = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


def test_another_content_is_refused_and_a_file_without_a_line_is_not_checked(tmp_path):
    write_recorded(tmp_path, {"a.txt": b"one", "b.txt": b"two"})
    (tmp_path / "a.txt").write_bytes(b"One")
    with pytest.raises(UserError, match=r"a\.txt: damaged or edited, .*delete its line in .*SHA256SUMS"):
        checked(tmp_path, "a.txt")
    assert checked(tmp_path, "b.txt").read_bytes() == b"two"
    sums = tmp_path / SUMS
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if "a.txt" not in line))
    assert checked(tmp_path, "a.txt").read_bytes() == b"One"
    assert not checked(tmp_path, "missing.txt").exists()


@pytest.mark.parametrize("line", ["", "a.txt", f"{'0' * 63}  a.txt", f"{'0' * 64} a.txt"])
def test_a_damaged_line_is_refused_by_its_number(tmp_path, line):
    write_recorded(tmp_path, {"a.txt": b"one"})
    with (tmp_path / SUMS).open("a") as sums:
        sums.write(f"{line}\n")
    with pytest.raises(UserError, match="SHA256SUMS, line 3: damaged"):
        checked(tmp_path, "a.txt")


class PowerFailureError(Exception):
    pass


@pytest.mark.parametrize("operation", ["replace", "fsync"])
def test_a_process_that_ends_at_any_operation_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch, operation):
    """As when it is killed: nothing after the operation happens, and nothing is tidied up."""
    original, failed = getattr(os, operation), True
    number = 0
    while failed:
        folder = tmp_path / str(number)
        write_recorded(folder, {"a.txt": b"old"})
        calls = 0

        def fail(*arguments, last=number):
            nonlocal calls
            calls += 1
            if calls > last:
                raise PowerFailureError
            return original(*arguments)

        monkeypatch.setattr(writing.os, operation, fail)
        try:
            write_recorded(folder, {"a.txt": b"new"})
            failed = False
        except PowerFailureError:
            pass
        monkeypatch.setattr(writing.os, operation, original)
        content = checked(folder, "a.txt").read_bytes()
        assert content in ((b"old", b"new") if failed else (b"new",))
        write_recorded(folder, {"a.txt": b"newer"})
        assert checked(folder, "a.txt").read_bytes() == b"newer"
        assert len(read_sums(folder)["a.txt"]) == 1
        number += 1
    assert number > 3


def test_while_a_file_is_replaced_both_contents_are_accepted_and_then_one(tmp_path):
    write_recorded(tmp_path, {"a.txt": b"old", "b.txt": b"b"})
    new = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437"  # of "new"
    with recording(tmp_path, {"a.txt": new, "b.txt": None}):
        assert checked(tmp_path, "a.txt").read_bytes() == b"old"
        (tmp_path / "a.txt").write_bytes(b"new")
        assert checked(tmp_path, "a.txt").read_bytes() == b"new"
        (tmp_path / "b.txt").unlink()
    assert read_sums(tmp_path) == {"a.txt": {new}}


def test_processes_that_write_at_the_same_time_wait_for_each_other(tmp_path):
    def write(number):
        for turn in range(10):
            write_recorded(tmp_path, {f"{number % 3}.txt": b"%d %d" % (number, turn)})

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert all(checked(tmp_path, f"{number}.txt").exists() for number in range(3))


def test_a_written_file_and_its_folder_are_synced_before_and_after_it_is_renamed(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(writing, "sync", lambda path: done.append("folder" if path.is_dir() else "file"))
    monkeypatch.setattr(writing.os, "replace", lambda old, new: done.append("rename"))
    writing.write_bytes(tmp_path / "folder" / "file", b"content")
    assert done == ["file", "rename", "folder"]
