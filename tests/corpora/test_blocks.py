"""A corpus in blocks: the same bytes as in one piece, whatever is killed or damaged on the way."""

import multiprocessing
import os
import signal
import sys
import time
import tracemalloc

import pytest
import torch

from seq2seq_attn.corpora.blocks import Block, EncodedBlock, TextLines, blocks_of, encode_blocks
from seq2seq_attn.corpora.encoded import EncodedLines, joined_lines
from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.files.checksums import SUMS

PAIRS = [(f"line {number} ü\u2028 " * (number % 5), f"\t{number}\0" * (number % 3)) for number in range(53)]
FORKS = pytest.mark.skipif(
    torch.cuda.is_available() or not sys.platform.startswith("linux"), reason="copies of a process, on Linux alone"
)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Files that need not survive a power failure, for speed."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def blocks(lines=5, pairs=PAIRS):
    return blocks_of(0, "mine", pairs, lines)


def joined(found):
    return [[line.tobytes().decode() for line in joined_lines(side)] for side in (found.source, found.target)]


def counting(called, fail_at=None, error=KeyboardInterrupt):
    """Encodes a block as text, notes its first line, and fails at one of them."""

    def encode(block):
        if block.first == fail_at:
            raise error
        called.append(block.first)
        return block.as_text()

    return encode


@FORKS
@pytest.mark.parametrize("processes", [1, 3])
def test_blocks_are_the_lines_of_the_corpus_in_their_order(tmp_path, processes):
    found = encode_blocks(blocks(), Block.as_text, tmp_path / "blocks", processes, 9)
    assert joined(found) == [[pair[side] for pair in PAIRS] for side in range(2)]
    whole = encode_blocks(blocks(lines=53), Block.as_text, tmp_path / "unused", processes, 53)
    assert not (tmp_path / "unused").exists()
    for name, parts in (("whole", whole), ("parts", found)):
        parts.save(tmp_path / name)
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "parts" / path.name).read_bytes()
    mapped = EncodedLines.load(tmp_path / "parts", "source")
    assert list(TextLines(mapped)) == TextLines(mapped)[:] == [source for source, _ in PAIRS]


def test_an_interrupted_preparation_continues_with_the_blocks_that_are_missing(tmp_path):
    called = []
    with pytest.raises(KeyboardInterrupt):
        encode_blocks(blocks(), counting(called, fail_at=21), tmp_path, 1, 9)
    assert called == [1, 6, 11, 16]
    found = encode_blocks(blocks(), counting(called), tmp_path, 1, 9)
    assert called == list(range(1, 54, 5))
    assert joined(found) == [[pair[side] for pair in PAIRS] for side in range(2)]


def is_alive(group):
    """Whether a process of this group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def slow(block):
    time.sleep(0.03)
    return block.as_text()


@FORKS
def test_a_killed_preparation_leaves_no_process_and_continues_to_the_same_lines(tmp_path):
    def prepare():
        os.setpgid(0, 0)
        encode_blocks(blocks(), slow, tmp_path, 2, 9)

    process = multiprocessing.get_context("fork").Process(target=prepare)
    process.start()
    while len(list(tmp_path.glob(f"*/{SUMS}"))) < 2:
        time.sleep(0.005)
    process.kill()
    process.join()
    until = time.monotonic() + 10
    while is_alive(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_alive(process.pid)
    whole, called = len(list(tmp_path.glob(f"*/{SUMS}"))), []
    assert joined(encode_blocks(blocks(), counting(called), tmp_path, 1, 9)) == [
        [pair[side] for pair in PAIRS] for side in range(2)
    ]
    assert len(called) == 11 - whole < 10


@pytest.mark.parametrize("damage", [b"", b"not an array"])
def test_a_damaged_block_is_not_used_but_encoded_again(tmp_path, damage):
    encode_blocks(blocks(), Block.as_text, tmp_path, 1, 9)
    (tmp_path / "000003" / "target.values.npy").write_bytes(damage)
    called = []
    assert joined(encode_blocks(blocks(), counting(called), tmp_path, 1, 9))[1] == [target for _, target in PAIRS]
    assert called == [16]


def test_a_full_disk_fails_in_one_line_and_keeps_what_is_whole(tmp_path, monkeypatch):
    write = EncodedBlock.save

    def save(block, folder):
        if folder.name == "000004":
            raise OSError(28, "No space left on device")
        write(block, folder)

    monkeypatch.setattr(EncodedBlock, "save", save)
    with pytest.raises(FailedError, match="No space left on device"):
        encode_blocks(blocks(), Block.as_text, tmp_path, 1, 9)
    assert len(list(tmp_path.glob(f"*/{SUMS}"))) == 4


@FORKS
def test_many_blocks_need_few_open_files(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    found = encode_blocks(blocks(4), Block.as_text, tmp_path, 1, 9)
    found.save(tmp_path)
    assert (len(found.source), found.sizes.tolist()) == (14, [len(PAIRS)])
    assert len(os.listdir("/proc/self/fd")) < before + 9


def test_a_line_that_cannot_be_encoded_leaves_no_block(tmp_path):
    with pytest.raises(UserError, match="line 23"):
        encode_blocks(blocks(), counting([], 21, UserError("line 23")), tmp_path / "blocks", 1, 9)
    assert not (tmp_path / "blocks").exists()


@FORKS
def test_a_process_that_is_killed_fails_in_one_line_and_keeps_what_is_whole(tmp_path):
    def encode(block):
        if block.first == 51:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        return block.as_text()

    with pytest.raises(FailedError, match="was killed"):
        encode_blocks(blocks(), encode, tmp_path, 2, 9)
    assert len(list(tmp_path.glob(f"*/{SUMS}"))) >= 8


def test_a_folder_that_cannot_be_written_leaves_the_blocks_in_memory(tmp_path):
    (tmp_path / "file").touch()
    found = encode_blocks(blocks(), Block.as_text, tmp_path / "file" / "blocks", 1, 9)
    assert joined(found)[0] == [source for source, _ in PAIRS]


def test_the_memory_of_a_preparation_does_not_grow_with_the_corpus(tmp_path):
    def peak(count):
        pairs = (("some words of a source", "and of a target") for _ in range(count))
        tracemalloc.start()
        found = encode_blocks(blocks(100, pairs), Block.as_text, tmp_path / str(count), 1, 9)
        found.save(tmp_path / f"{count} joined")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(2000) < 1.5 * peak(500)


def test_a_block_is_encoded_as_the_front_ends_say_and_errors_have_the_number_of_the_line():
    class Numbers:
        def items(self, lines, sources=None):
            return ([int(line)] for line in lines) if sources is None else ([7] for _ in sources)

    class Refusing(Numbers):
        def items(self, lines):
            for line in lines:
                if line == "3":
                    raise UserError("no such file")
                yield [int(line)]

    second = list(blocks_of(1, "mine", [(str(number), "x") for number in range(5)], 2))[1]
    encoded = second.encode((Numbers(), Numbers()))
    assert [line.tolist() for line in encoded.source] == [[2], [3]]
    assert [line.tolist() for line in encoded.target] == [[7], [7]]
    with pytest.raises(UserError, match="mine, line 4: no such file"):
        second.encode((Refusing(), Numbers()))
