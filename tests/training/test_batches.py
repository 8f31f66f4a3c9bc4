"""Batches: every pair once per epoch, in new batches each epoch, padded without loss."""

import numpy as np
import torch

from seq2seq_attn.corpora.encoded import EncodedSentences
from seq2seq_attn.training.batches import EncodedPairs, LengthBuckets, loader


def encoded(source, target, kept=None):
    return EncodedPairs(EncodedSentences.of(source), EncodedSentences.of(target), kept)


PAIRS = encoded([[4] * (1 + i % 7) + [3] for i in range(53)], [[5] * (1 + i % 5) + [3] for i in range(53)])


def test_every_pair_is_in_exactly_one_batch_of_an_epoch():
    buckets = LengthBuckets(PAIRS, 8, "sentences", seed=1)
    assert sorted(index for batch in buckets for index in batch) == list(range(53))
    assert len(buckets) == len(list(buckets)) == 7


def test_epochs_differ_and_repeat_by_number():
    buckets = LengthBuckets(PAIRS, 8, "sentences", seed=1)
    first = list(buckets)
    buckets.set_epoch(1)
    assert list(buckets) != first
    buckets.set_epoch(0)
    assert list(buckets) == first


def test_a_batch_contains_its_sentences():
    pairs = encoded([[7, 3], [11, 3], [4, 5, 3]], [[8, 9, 10, 3], [12, 3], [6, 3]])
    batch = pairs[[2, 0]]
    assert batch.source.tokens[batch.source.is_token].tolist() == [4, 5, 3, 7, 3]
    assert batch.target.tokens[batch.target.is_token].tolist() == [6, 3, 8, 9, 10, 3]
    assert batch.source.lengths.tolist() == [3, 2]


def test_excluded_pairs_are_in_no_batch():
    pairs = encoded([[7, 3], [11, 11, 3], [4, 3]], [[8, 3], [12, 3], [6, 9, 3]], kept=np.array([0, 2]))
    (batch,) = loader(pairs, 2, "sentences")
    assert sorted(batch.source.tokens.tolist()) == [[4, 3], [7, 3]]
    assert sorted(batch.target.tokens.tolist()) == [[6, 9, 3], [8, 3, 1]]


def test_a_token_budget_counts_padding():
    for batch in loader(PAIRS, 30, "tokens"):
        assert max(batch.source.tokens.numel(), batch.target.tokens.numel()) <= 30


def test_lengths_stay_on_the_cpu_when_a_batch_moves():
    moved = PAIRS[[0, 1]].to(torch.device("meta"))
    assert moved.source.tokens.device.type == "meta"
    assert moved.source.lengths.device.type == "cpu"
