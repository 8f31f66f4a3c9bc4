import gzip
from itertools import islice
from pathlib import Path
from random import Random
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.toys import copy, reverse, sort, toy_pair, toy_pairs
from make import generate, make

letters = st.lists(st.sampled_from(ascii_lowercase), min_size=1, max_size=20)


@given(letters)
def test_copy_changes_nothing(sequence: list[str]) -> None:
    pair = toy_pair(sequence, copy)
    assert pair.source == pair.target == tuple(sequence)
    assert all(i == j for i, j in pair.links)


@given(letters)
def test_reverse_twice_is_the_identity(sequence: list[str]) -> None:
    once = toy_pair(sequence, reverse)
    assert toy_pair(once.target, reverse).target == tuple(sequence)
    assert all(i + j == len(sequence) - 1 for i, j in once.links)


@given(letters)
def test_sort_orders_the_letters_and_sorting_again_changes_nothing(sequence: list[str]) -> None:
    once = toy_pair(sequence, sort)
    assert list(once.target) == sorted(sequence)
    assert toy_pair(once.target, sort).links == tuple((i, i) for i in range(len(sequence)))


def test_equal_letters_keep_their_order_when_sorted() -> None:
    assert toy_pair(list("bdbab"), sort).pharaoh == "0-1 1-4 2-2 3-0 4-3"


@pytest.mark.parametrize("task", [copy, reverse, sort])
def test_links_join_equal_letters_one_to_one(task) -> None:
    for pair in islice(toy_pairs(task, Random(4)), 50):
        assert all(pair.source[i] == pair.target[j] for i, j in pair.links)
        assert sorted(i for i, _ in pair.links) == sorted(j for _, j in pair.links) == list(range(len(pair.source)))


def test_a_task_is_written_as_three_files_per_part(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "reverse"
    make("reverse", folder, seed=6)
    source, target, links = (
        gzip.decompress((folder / f"train.{side}.gz").read_bytes()).decode().splitlines()
        for side in ("source", "target", "align")
    )
    assert len(source) == len(target) == len(links) == 4000
    assert source[0].split() == target[0].split()[::-1]
    for part in ("validation", "test"):
        assert len((folder / f"{part}.source").read_text().splitlines()) == 500
    assert len(list(folder.iterdir())) == 9


def test_no_sequence_is_in_two_parts() -> None:
    made = generate("sort", seed=8)
    sources = [pair.source for part in made for pair in part]
    assert len(set(sources)) == len(sources) == 5000
