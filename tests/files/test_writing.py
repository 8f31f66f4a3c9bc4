"""Reading what expands without end, and what comes bit by bit."""

import gzip
import io
import os
from pathlib import Path

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import read_gold
from seq2seq_attn.files import contents, reading
from seq2seq_attn.files.reading import digest, line_batches, read_bytes, read_lines
from seq2seq_attn.results.evidence import Evidence


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """A thousand times smaller than its content, which is above a limit that is lowered for speed."""
    monkeypatch.setattr(contents, "FREE", 1 << 16)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\n" * (1 << 19)))
    return tmp_path / "bomb.gz"


@pytest.mark.parametrize("read", [read_lines, read_gold, Evidence.load, digest])
def test_what_expands_without_end_is_refused_wherever_it_is_read(bomb, read):
    with pytest.raises(UserError, match=r"bomb.gz: decompresses to more than 65,536 bytes.*MAX_UNPACKED"):
        read(bomb)


def test_a_repetitive_file_is_read_and_the_limit_can_be_set(bomb, monkeypatch):
    repetitive = b"the same line again\n" * 1000
    bomb.with_name("small.gz").write_bytes(gzip.compress(repetitive))
    assert read_bytes(bomb.with_name("small.gz")) == repetitive
    monkeypatch.setenv(contents.VARIABLE, str(1 << 19))
    assert len(read_bytes(bomb)) == 1 << 19
    monkeypatch.setenv(contents.VARIABLE, "1000")
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        read_bytes(bomb)
    monkeypatch.setenv(contents.VARIABLE, "all")
    with pytest.raises(UserError, match=r"MAX_UNPACKED='all'.*a number of bytes is wanted"):
        read_bytes(bomb)


def test_a_cut_or_foreign_gzip_file_is_still_named(tmp_path):
    content = gzip.compress(os.urandom(1000))
    for spoilt in (content[:-9], content[:20] + b"x" * 20 + content[40:]):
        (tmp_path / "a.gz").write_bytes(spoilt)
        with pytest.raises(UserError, match="incomplete or corrupt gzip file"):
            read_bytes(tmp_path / "a.gz")


def test_gzip_is_read_from_a_pipe_within_the_same_limits(bomb):
    content = gzip.compress(b"one\ntwo\n" * 2000)
    for packed, expected in ((content, 4000), (bomb.read_bytes(), None)):
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(packed)
        try:
            if expected is None:
                with pytest.raises(UserError, match="decompresses to more than"):
                    read_lines(f"/dev/fd/{reading}")
            else:
                assert len(read_lines(f"/dev/fd/{reading}")) == expected
        finally:
            os.close(reading)


def test_a_path_with_a_nul_is_refused():
    with pytest.raises(UserError, match="no NUL"):
        read_lines("a\0b")


def test_a_pipe_gives_the_lines_that_are_at_hand():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pipe:
        batches = line_batches(stream, "pipe", 3)
        pipe.write(b"\xef\xbb\xbfa\nb\nha")
        assert next(batches) == ["a", "b"]
        pipe.write(b"lf\r\n")
        assert next(batches) == ["half"]
        pipe.write(b"1\n2\n3\n4\n")
        assert [next(batches), next(batches)] == [["1", "2", "3"], ["4"]]
        pipe.write(b"\n" + "ä".encode())
        assert next(batches) == [""]
        pipe.close()
        assert list(batches) == [["ä"]]


def test_lines_are_those_of_the_file_however_they_arrive():
    content = b"".join(b"%d\n" % number for number in range(30_000)) + b"end"
    batches = list(line_batches(io.BufferedReader(io.BytesIO(content)), "file", 512))
    assert [line for batch in batches for line in batch] == [*map(str, range(30_000)), "end"]
    assert max(map(len, batches)) == 512


def test_a_line_without_end_is_refused_with_its_number(monkeypatch, tmp_path):
    monkeypatch.setattr(reading, "MAX_LINE", 100)
    (tmp_path / "file").write_bytes(b"a" * 99 + b"\n" + b"b" * 101)
    with pytest.raises(UserError, match="file, line 2: more than 100 bytes; give one sentence per line"):
        read_lines(tmp_path / "file")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_without_end_is_refused():
    with pytest.raises(UserError, match="/dev/zero, line 1: a NUL"):
        read_lines("/dev/zero")


def test_a_line_without_end_is_refused_after_the_lines_before(monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 100)
    batches = line_batches(io.BufferedReader(io.BytesIO(b"a\n" + b"b" * 200)), "pipe", 3)
    assert next(batches) == ["a"]
    with pytest.raises(UserError, match="pipe: a line of more than 100 bytes"):
        next(batches)
