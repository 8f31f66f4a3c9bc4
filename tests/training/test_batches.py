"""Batches: every pair once an epoch, drawn anew, padded and unpadded without loss."""

import torch

from seq2seq_attn.training.batches import Buckets, EncodedPairs, collate, loader

PAIRS = EncodedPairs([[4] * (1 + i % 7) + [3] for i in range(53)], [[5] * (1 + i % 5) + [3] for i in range(53)])


def test_every_pair_is_in_one_batch_of_an_epoch():
    buckets = Buckets(PAIRS, 8, "sentences", seed=1)
    assert sorted(index for batch in buckets for index in batch) == list(range(53))
    assert len(buckets) == len(list(buckets)) == 7


def test_epochs_differ_and_repeat_by_number():
    buckets = Buckets(PAIRS, 8, "sentences", seed=1)
    first = list(buckets)
    buckets.set_epoch(1)
    assert list(buckets) != first
    buckets.set_epoch(0)
    assert list(buckets) == first


def test_a_batch_holds_the_sentences_that_went_in():
    batch = collate([([4, 5, 3], [6, 3]), ([7, 3], [8, 9, 10, 3])])
    assert batch.source.tokens[batch.source.is_token].tolist() == [4, 5, 3, 7, 3]
    assert batch.target.tokens[batch.target.is_token].tolist() == [6, 3, 8, 9, 10, 3]
    assert batch.source.lengths.tolist() == [3, 2]


def test_a_token_budget_counts_padding():
    for batch in loader(PAIRS, 30, "tokens"):
        assert max(batch.source.tokens.numel(), batch.target.tokens.numel()) <= 30


def test_lengths_stay_on_the_cpu_when_a_batch_moves():
    moved = collate([([4, 3], [5, 3])]).to(torch.device("meta"))
    assert moved.source.tokens.device.type == "meta"
    assert moved.source.lengths.device.type == "cpu"
