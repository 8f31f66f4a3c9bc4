"""What a file is, by its first bytes: text in several forms is read, and everything else is refused by its name."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import sqlite3
import sys
import tarfile
import wave
import zipfile
from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from seq2seq_attn.corpora.corpus import read_tsv
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import read_gold
from seq2seq_attn.files.contents import SUFFIXES, without_packing
from seq2seq_attn.files.reading import decoded_lines, digest, line_batches, read_lines, read_text
from seq2seq_attn.strict import read_yaml

LINES = ["Ein Hund läuft.", "", "犬が走る。"]
UTF_8 = "\n".join(LINES).encode()
POWERSHELL = "\r\n".join(LINES).encode("utf-16")  # what `>` writes: a byte order mark, and CRLF
FORMS = {
    "UTF-8": UTF_8,
    "UTF-8 with a byte order mark": b"\xef\xbb\xbf" + UTF_8,
    "UTF-16 as PowerShell writes it": POWERSHELL,
    "big-endian UTF-16": b"\xfe\xff" + "\n".join(LINES).encode("utf-16-be"),
    "gzip": gzip.compress(UTF_8),
    "xz": lzma.compress(UTF_8),
    "bzip2": bz2.compress(UTF_8),
    "two gzip files in one": gzip.compress(UTF_8[:9]) + gzip.compress(UTF_8[9:]),
    "UTF-16 in xz": lzma.compress(POWERSHELL),
}


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.txt"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize("form", FORMS)
def test_text_is_read_in_any_form_and_under_any_name(write, form):
    for name in ("train.de", "train.de.gz", "train.pdf"):
        assert read_lines(write(FORMS[form], name)) == LINES
    assert list(decoded_lines(io.BytesIO(FORMS[form]), "stdin")) == LINES
    assert [line for batch in line_batches(io.BytesIO(FORMS[form]), "stdin", 2) for line in batch] == LINES


@pytest.mark.parametrize("form", FORMS)
def test_links_tables_and_configurations_are_recognized_as_sentences_are(write, form):
    def converted(text):
        content = text.encode("utf-16") if "UTF-16" in form else text.encode()
        packing = {"gzip": gzip, "xz": lzma, "bzip2": bz2}
        return next((packing[name].compress(content) for name in packing if name in form), content)

    assert read_gold(write(converted("0-0 1p2\n\n3-1\n"))).sure == [{(0, 0)}, set(), {(3, 1)}]
    assert read_tsv(write(converted("a\tb\nc\td\n"))).target == ["b", "d"]
    assert read_yaml(write(converted("seed: 1\ndata: {max_length: 3}\n"))) == {"seed": 1, "data": {"max_length": 3}}


def test_zstd_is_read_where_its_library_is_installed(write):
    zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    text = b"the same line again\n" * 100_000
    content = zstd.compress(text[:-40]) + zstd.compress(text[-40:])
    assert len(read_lines(write(content))) == 100_000
    for spoilt in (content[:-5], content[:-30], content + b"x", content + bytes(9)):
        with pytest.raises(UserError, match=r"file\.txt: incomplete or corrupt zstd file"):
            read_lines(write(spoilt))


def test_a_missing_library_is_named_with_two_ways_out(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(UserError, match=r"zstd, which needs the module \S+\.zstd; decompress it \(zstd -d\), or pip"):
        read_lines(write(b"\x28\xb5\x2f\xfd" + bytes(20)))
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(
        UserError, match=r"xz, which needs the module lzma; decompress it \(xz -d\), or install another"
    ):
        read_lines(write(lzma.compress(b"a")))


@pytest.mark.parametrize("form", ["gzip", "xz", "bzip2"])
def test_half_a_compressed_file_is_refused_and_so_is_another_one_behind_its_first_bytes(write, form):
    content = FORMS[form]
    for spoilt in (content[:-6], content[:12] + b"no such thing" + content[12:]):
        with pytest.raises(UserError, match=rf"file\.txt: incomplete or corrupt {form} file"):
            digest(write(spoilt))


def sound(file):
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, 8000, 0, "NONE", ""))
        written.writeframes(b"\1\0" * 9)


def packed(write):
    """Bytes of files that other programs write, with what each is and a word of the way out."""
    inside = io.BytesIO()
    with tarfile.open(fileobj=inside, mode="w") as archive:
        entry = tarfile.TarInfo("train.de")
        entry.size = len(UTF_8)
        archive.addfile(entry, io.BytesIO(UTF_8))
    tar = inside.getvalue()
    yield tar, "a tar archive", "tar -xf"
    yield gzip.compress(tar), "a tar archive, compressed with gzip", "tar -xf"
    yield lzma.compress(tar), "a tar archive, compressed with xz", "tar -xf"
    for name, what, way_out in (
        ("train.de", "a zip archive", "unzip"),
        ("word/document.xml", "a document", "plain text"),
        ("[Content_Types].xml", "a document", "plain text"),
    ):
        inside = io.BytesIO()
        with zipfile.ZipFile(inside, "w") as archive:
            archive.writestr(name, "text")
        yield inside.getvalue(), what, way_out
    for save, what in (
        (lambda file: torch.save({"a": torch.ones(3)}, file), "a file of torch.save"),
        (lambda file: np.savez(file, a=np.ones(3)), "NumPy arrays"),
        (lambda file: pickle.dump(LINES, file), "a Python pickle"),
    ):
        inside = io.BytesIO()
        save(inside)
        yield inside.getvalue(), what, ""
    for save, what in (
        (lambda file: np.save(file, np.ones(3)), "a NumPy array"),
        (lambda file: Image.new("RGB", (3, 2)).save(file, "PNG"), "an image"),
        (lambda file: Image.new("RGB", (3, 2)).save(file, "JPEG"), "an image"),
        (sound, "a recording"),
        (lambda file: file.write(b"fLaC\0\0\0\x22\x10\0"), "a recording"),
        (lambda file: file.write(b"OggS\0\2\0\0"), "a recording"),
        (lambda file: file.write(b"ID3\4\0\0"), "a recording"),
        (lambda file: file.write(b"\xff\xfb\x90\x64"), "a recording"),
    ):
        inside = io.BytesIO()
        save(inside)
        yield inside.getvalue(), what, "a text file with their paths"
    path = write(b"", "database")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE pairs (source TEXT)")
    database.close()
    yield path.read_bytes(), "an SQLite database", ""
    save_file({"a": torch.ones(3)}, path)
    yield path.read_bytes(), "safetensors", ""
    yield b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF", "pdftotext"
    yield b"{\\rtf1\\ansi text}", "a document", "plain text"
    yield b"PAR1\x15\x04\x15\x10", "a table of columns", ""
    yield "text\n".encode("utf-32"), "UTF-32", "iconv -f UTF-32"
    yield "text\n".encode("utf-16-le"), "UTF-16 without", "iconv -f UTF-16LE"
    yield "text\n".encode("utf-16-be"), "UTF-16 without", "iconv -f UTF-16BE"
    yield gzip.compress("text\n".encode("utf-16-le")), "UTF-16 without", "iconv -f UTF-16LE"
    yield gzip.compress(gzip.compress(UTF_8)), "compressed twice", "decompress it once"


def test_what_is_not_text_is_refused_with_what_it_is_and_the_way_out(write):
    for content, what, way_out in packed(write):
        for read in (read_lines, read_gold, read_yaml, lambda path: list(line_batches(path.open("rb"), "stdin", 9))):
            with pytest.raises(UserError) as refused:
                read(write(content))
            assert what in str(refused.value)
            assert way_out in str(refused.value)


@pytest.mark.parametrize("packing", [bytes, gzip.compress, bz2.compress])
def test_a_nul_anywhere_is_refused_with_file_and_line(write, packing):
    content = packing(b"one\n" * 3000 + b"tw\0o\n" + b"three\n" * 9)
    for read in (read_lines, lambda path: read_text(path, 50_000)):
        with pytest.raises(UserError, match=r"file\.txt, line 3001: a NUL"):
            read(write(content))
    before: list[str] = []
    lines = chain.from_iterable(line_batches(io.BytesIO(content), "stdin", 1000))
    with pytest.raises(UserError, match="stdin, line 3001: a NUL"):
        before.extend(lines)
    assert before == ["one"] * 3000


def test_damaged_utf16_is_refused_with_its_line(write):
    good = "one\ntwo\n".encode("utf-16")
    for spoilt in (good + b"x", good + b"\x00\xd8\x0a\x00"):
        with pytest.raises(UserError, match=r"file\.txt, line 3: half a surrogate pair"):
            read_lines(write(spoilt))


@pytest.mark.parametrize(
    "text",
    ["P", "BZh", "PAR1 is a word", "Rar! 7z", "Obj", "%PDF", "{\\rtf", "GIF", "ID3", "OggS", "fLaC", "MZ", "", "\n"],
)
def test_text_that_begins_as_another_format_does_is_text(write, text):
    assert read_lines(write(f"{text}\nmore\n".encode())) == [*text.split("\n"), "more"]


@pytest.mark.parametrize("form", ["UTF-8", "UTF-16 as PowerShell writes it"])
def test_a_pipe_that_gives_one_byte_at_a_time_is_recognized_and_a_line_is_answered_at_once(form):
    reading, writing = os.pipe()
    line = "Picture\n".encode("utf-8" if form == "UTF-8" else "utf-16")  # P begins a zip archive, too
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pipe:

        class Slow(io.RawIOBase):
            readable = lambda self: True  # noqa: E731
            fileno = lambda self: reading  # noqa: E731

            def readinto(self, buffer):
                content = stream.read(1)
                buffer[: len(content)] = content
                return len(content)

        pipe.write(line)
        batches = line_batches(io.BufferedReader(Slow()), "pipe", 3)
        assert next(batches) == ["Picture"]  # though the pipe is still open


def test_names_lose_the_suffix_of_their_compression():
    assert [without_packing(f"train.de{suffix}") for suffix in (*SUFFIXES, "")] == ["train.de"] * 5
    assert without_packing("gz") == "gz"
