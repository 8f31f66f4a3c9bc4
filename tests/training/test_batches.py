"""Batches: every pair once per epoch, in new batches each epoch, padded without loss."""

import tracemalloc

import numpy as np
import pytest
import torch

from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.mixture import Mixture
from seq2seq_attn.training.batches import Batch, EncodedPairs
from seq2seq_attn.training.guided_alignment import CorpusLinks


def encoded(source, target, size=8, unit="sentences", **options):
    return EncodedPairs(EncodedLines.of(source), EncodedLines.of(target), size, unit, **options)


SOURCE, TARGET = [[4] * (1 + i % 7) + [3] for i in range(53)], [[5] * (1 + i % 5) + [3] for i in range(53)]


@pytest.fixture(params=[("sentences", None), ("sentences", 9), ("tokens", 9)], ids=["one window", "six", "of tokens"])
def make(request):
    """Makes pairs in one window, or in six of them."""
    unit, window = request.param
    mixture = None if window is None else Mixture([len(SOURCE)], seed=1, window=window)
    return lambda: encoded(SOURCE, TARGET, 30 if window else 8, unit, seed=1, mixture=mixture)


@pytest.fixture
def pairs(make):
    return make()


def rows(batches):
    return [batch.rows.tolist() for batch in batches]


def test_every_pair_is_in_exactly_one_batch_of_an_epoch(pairs):
    for epoch in range(3):
        pairs.set_epoch(epoch)
        batches = rows(pairs)
        assert sorted(row for batch in batches for row in batch) == list(range(53))
        assert len(batches) == len(pairs) >= 6


def test_epochs_differ_and_repeat_by_number(pairs):
    first = rows(pairs)
    pairs.set_epoch(1)
    assert rows(pairs) != first
    pairs.set_epoch(0)
    assert rows(pairs) == first


def test_a_batch_contains_its_sentences():
    (batch,) = encoded([[7, 3], [11, 3], [4, 5, 3]], [[8, 9, 10, 3], [12, 3], [6, 3]])
    batch = batch.select(torch.tensor([batch.rows.tolist().index(row) for row in (2, 0)]))
    assert batch.source.tokens[batch.source.is_token].tolist() == [4, 5, 3, 7, 3]
    assert batch.target.tokens[batch.target.is_token].tolist() == [6, 3, 8, 9, 10, 3]
    assert batch.source.lengths.tolist() == [3, 2]


def test_excluded_pairs_are_in_no_batch():
    kept = Mixture([3], used=lambda lines: lines[lines != 1])
    (batch,) = encoded([[7, 3], [11, 11, 3], [4, 3]], [[8, 3], [12, 3], [6, 9, 3]], mixture=kept)
    assert sorted(batch.source.tokens.tolist()) == [[4, 3], [7, 3]]
    assert sorted(batch.target.tokens.tolist()) == [[6, 9, 3], [8, 3, 1]]


def test_a_token_budget_counts_padding():
    for batch in encoded(SOURCE, TARGET, 30, "tokens"):
        assert max(batch.source.tokens.numel(), batch.target.tokens.numel()) <= 30


def test_lengths_stay_on_the_cpu_when_a_batch_moves(pairs):
    moved = pairs[[0, 1]].to(torch.device("meta"))
    assert moved.source.tokens.device.type == "meta"
    assert moved.source.lengths.device.type == "cpu"


@pytest.mark.parametrize("world", [2, 3, 60])
def test_the_shards_of_all_processes_are_exactly_the_batches_of_one(pairs, world):
    pairs.set_epoch(2)
    shards = [rows(pairs.shard(rank, world)) for rank in range(world)]
    for whole, *parts in zip(rows(pairs), *shards, strict=True):
        assert sorted(row for part in parts for row in part) == sorted(whole)
        assert all(part == whole[rank::world] for rank, part in enumerate(parts))


def test_a_state_continues_with_the_batch_after_the_last_that_was_drawn(make):
    for drawn in range(1, len(make()) + 1):
        pairs, resumed = make(), make()
        pairs.set_epoch(3)
        batches = iter(pairs)
        for _ in range(drawn):
            next(batches)
        resumed.load_state_dict(pairs.state_dict())
        resumed.set_epoch(3)
        assert rows(resumed) == rows(batches)
        assert len(rows(resumed)) == len(pairs)  # the next pass is a whole one
        pairs.set_epoch(4)
        resumed.load_state_dict(pairs.state_dict())
        assert rows(resumed) == rows(pairs)


def test_a_batch_is_selected_with_its_links_and_without_needless_padding():
    links = CorpusLinks.between([{(0, 0)}, {(1, 0), (0, 1)}, {(0, 0)}], [([0], [0]), ([0, 1], [0, 1]), ([0], [0])])
    pairs = encoded([[7, 3], [8, 9, 3], [4, 3]], [[5, 3], [6, 7, 3], [8, 3]], links=links)
    batch: Batch = pairs[[0, 1, 2]].select(torch.tensor([2, 0, 2]))
    assert batch.source.tokens.tolist() == [[4, 3], [7, 3], [4, 3]]
    assert batch.links.row.tolist() == [0, 1, 2]
    assert batch.rows.tolist() == [2, 0, 2]
    twice = pairs[[0, 1]].twice()
    assert twice.source.tokens.tolist() == [[7, 3, 1], [8, 9, 3], [7, 3, 1], [8, 9, 3]]
    assert list(zip(*(part.tolist() for part in twice.links[:3]), strict=True)) == [
        (0, 0, 0),
        (1, 0, 1),
        (1, 1, 0),
        (2, 0, 0),
        (3, 0, 1),
        (3, 1, 0),
    ]


def test_another_encoding_is_asked_for_window_by_window():
    asked = []

    def encode(epoch, window, lines):
        asked.append((epoch, window, len(lines)))
        return tuple(EncodedLines.of([10 * epoch + line for _ in range(2)] for line in lines) for _ in range(2))

    mixture = Mixture([len(SOURCE)], seed=1, window=20)
    pairs = encoded(SOURCE, TARGET, seed=1, encode=encode, mixture=mixture)
    pairs.set_epoch(1)
    for batch in pairs:
        assert batch.source.tokens[:, 0].tolist() == (batch.rows + 10).tolist()
        assert batch.target.tokens[:, 0].tolist() == (batch.rows + 10).tolist()
    assert [(epoch, window) for epoch, window, _ in asked] == [(1, window) for window in mixture.order(1)]
    assert sum(count for *_, count in asked) == len(SOURCE)


def test_the_memory_of_batches_does_not_grow_with_the_corpus():
    def peak(pairs):
        offsets = np.arange(0, 2 * pairs + 2, 2)
        lines = EncodedLines(np.full(2 * pairs, 4, np.int32), offsets)
        tracemalloc.start()
        batches = iter(EncodedPairs(lines, lines, 500, "tokens", mixture=Mixture([pairs], window=2000)))
        for _ in range(3):
            next(batches)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(160_000) < 1.5 * peak(20_000)
