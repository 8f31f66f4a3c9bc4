import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_attn.corpora.corpus import ParallelCorpus, filter_pairs, split_by_source, usable_pairs
from seq2seq_attn.errors import UserError

CORPUS = ParallelCorpus(["a", "b", "", "d", "e"], ["A", "B", "C", "", "E"], "mine")


def filtered_by(source_lengths, target_lengths, max_length):
    lengths = np.array(source_lengths), np.array(target_lengths)
    parts = [[side[:2] for side in lengths], [side[2:] for side in lengths]]
    kept = np.flatnonzero(usable_pairs(*lengths, max_length)).tolist()
    return filter_pairs("mine", parts, max_length, "data.max_length"), kept


def test_blank_and_long_pairs_are_dropped_and_counted():
    filtered, kept = filtered_by([3, 9, 0, 2, 7], [5, 1, 4, 0, 8], max_length=7)
    assert kept == [0]
    assert (filtered.blank, filtered.too_long) == (2, 2)
    assert str(filtered) == "1 of 5 pairs (dropped: 2 with a blank side, 2 longer than data.max_length=7)"
    assert str(filtered_by([3, 7], [5, 1], max_length=7)[0]) == "2 pairs"


def test_a_pair_of_exactly_the_maximum_length_is_kept():
    filtered, kept = filtered_by([7, 8, 1, 1, 1], [7, 7, 1, 1, 8], max_length=7)
    assert kept == [0, 2, 3]
    assert filtered.kept == 3


def test_a_pair_that_is_blank_and_long_is_counted_once():
    filtered, _ = filtered_by([0, 4], [9, 4], max_length=7)
    assert (filtered.blank, filtered.too_long) == (1, 0)


def test_a_filter_that_leaves_nothing_is_refused_with_its_reasons():
    with pytest.raises(UserError, match=r"mine: no pair is left: 0 of 5 pairs \(dropped: 1 with a blank"):
        filtered_by([8, 9, 0, 9, 9], [1, 1, 1, 1, 1], max_length=7)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40), st.integers(0, 2**32))
def test_a_split_leaks_no_source_sentence_and_loses_no_pair(source, seed):
    corpus = ParallelCorpus(source, [f"{line} {place}" for place, line in enumerate(source)])
    distinct = len(set(source))
    if distinct < 6:
        with pytest.raises(UserError, match=f"the corpus has {distinct} distinct source sentences"):
            split_by_source(corpus, validation=2, test=4, seed=seed)
        return
    if distinct == 6:
        return
    split = split_by_source(corpus, validation=2, test=4, seed=seed)
    assert len(set(split.validation.source)) == 2
    assert len(set(split.test.source)) == 4
    assert set(split.train.source).isdisjoint(split.validation.source + split.test.source)
    assert set(split.validation.source).isdisjoint(split.test.source)
    assert sorted(target for part in split for target in part.target) == sorted(corpus.target)


def test_a_split_depends_on_its_seed_alone():
    corpus = ParallelCorpus([str(i) for i in range(50)], ["x"] * 50)
    first = split_by_source(corpus, validation=5, test=10, seed=1)
    assert split_by_source(corpus, validation=5, test=10, seed=1) == first
    assert split_by_source(corpus, validation=5, test=10, seed=2) != first


def test_a_split_that_leaves_nothing_to_train_on_is_refused():
    with pytest.raises(UserError, match="3 validation and 2 test sentences leave none"):
        split_by_source(CORPUS, validation=3, test=2, seed=0)
