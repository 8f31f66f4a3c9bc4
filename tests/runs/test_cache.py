"""The cache: entries are computed once, survive damage to their files, and never block or fail a run."""

import multiprocessing
import shutil
import time

import pytest
import torch

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.runs.cache import Cache

FILES = {"a": b"first", "b.npy": b"second"}


class Maker:
    """Writes the same files each time, and counts the calls."""

    def __init__(self):
        self.made = 0

    def make(self):
        self.made += 1
        return FILES

    def get(self, cache, made_from="text"):
        return cache.get(made_from, self.make, save, load)


def save(files, entry):
    entry.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (entry / name).write_bytes(content)


def load(entry):
    return {name: (entry / name).read_bytes() for name in FILES}


@pytest.fixture
def maker():
    return Maker()


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def entry_of(cache):
    (entry,) = cache.folder.iterdir()
    return entry


def test_an_entry_is_computed_once(cache, maker):
    assert [maker.get(cache) for _ in range(3)] == [FILES] * 3
    assert maker.made == 1
    maker.get(cache, "another text")
    assert maker.made == 2


def folder_is_a_file(entry):
    shutil.rmtree(entry)
    entry.write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "times"),
    [
        (lambda entry: (entry / "a").write_bytes(b"firs"), 2),
        (lambda entry: (entry / "b.npy").write_bytes(b"secomd"), 2),
        (lambda entry: (entry / "a").unlink(), 2),
        (lambda entry: (entry / "SHA256SUMS").unlink(), 2),
        (lambda entry: (entry / "SHA256SUMS").write_bytes(b""), 2),
        (lambda entry: [path.unlink() for path in entry.iterdir()] and (entry / "SHA256SUMS").write_bytes(b""), 2),
        (shutil.rmtree, 2),
        (lambda entry: (entry / ".seq2seq_attn.7.part").write_bytes(b"fi"), 1),
        (folder_is_a_file, 3),
    ],
    ids=["cut", "changed", "gone", "no sums", "no sum", "foreign", "deleted", "being written", "no folder"],
)
def test_a_damaged_entry_is_recomputed(cache, maker, spoil, times):
    maker.get(cache)
    spoil(entry_of(cache))
    assert maker.get(cache) == maker.get(cache) == FILES
    assert maker.made == times


def test_what_a_killed_process_left_in_an_entry_is_removed_when_it_is_read(cache, maker):
    maker.get(cache)
    left = [entry_of(cache) / f".seq2seq_attn.7.part{suffix}" for suffix in ("", ".lock")]
    for path in left:
        path.touch()
    assert maker.get(cache) == FILES
    assert maker.made == 1
    assert not any(path.exists() for path in left)


def test_an_unwritable_cache_is_reported_and_not_used(tmp_path, maker):
    (tmp_path / "cache").write_text("a file of somebody's")
    said = []
    assert maker.get(Cache(tmp_path / "cache", said.append)) == FILES
    assert [text.split(": ")[0] for text in said] == ["warning"]
    assert (tmp_path / "cache").read_text() == "a file of somebody's"


def test_an_entry_that_fails_raises_and_leaves_nothing(cache):
    def fail():
        raise UserError("no such text")

    with pytest.raises(UserError, match="no such text"):
        cache.get("text", fail, save, load)
    assert not cache.folder.exists()


def write_sides(made, entry):
    for side in range(3):
        write_bytes(entry / f"{side}.npy", made * side)


def read_sides(entry):
    assert (entry / "2.npy").stat().st_size == 2 * (entry / "1.npy").stat().st_size
    return (entry / "1.npy").read_bytes()


def use(folders, barrier):
    barrier.wait()
    for cache in map(Cache, folders):
        for number in range(15):
            content = str(number).encode() * 1000
            assert cache.get(str(number), lambda content=content: content, write_sides, read_sides) == content


@pytest.mark.skipif(torch.cuda.is_available(), reason="forks, which CUDA does not allow once it was used")
def test_concurrent_processes_succeed_even_while_the_cache_is_deleted(tmp_path, capfd):
    kept, deleted = tmp_path / "kept", tmp_path / "deleted"
    forking = multiprocessing.get_context("fork")
    barrier = forking.Barrier(2)
    processes = [forking.Process(target=use, args=((kept, deleted), barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        shutil.rmtree(deleted, ignore_errors=True)
        time.sleep(0.02)
    assert ([process.exitcode for process in processes], capfd.readouterr().err) == ([0, 0], "")
    assert not [path for path in kept.rglob("*") if path.suffix == ".part"]
    assert len(list(kept.glob("*/SHA256SUMS"))) == 15
