"""Which pairs an epoch has: all of them, or those that weights ask for, whatever the number of windows."""

from collections import Counter

import numpy as np
import pytest

from seq2seq_attn.corpora.mixture import Mixture

SIZES = [90, 10]


@pytest.mark.parametrize(
    ("weights", "temperature", "counts"),
    [
        ((1, 1), 1, [90, 10]),
        ((1, 9), 1, [50, 50]),
        ((1, 1), 2, [75, 25]),  # sqrt(90) : sqrt(10) is 3 : 1
        ((2, 1), 2, [86, 14]),  # 6 : 1 of 100, 85.71 and 14.29
        ((1, 1), 1e9, [50, 50]),
    ],
)
def test_the_pairs_of_an_epoch_are_in_proportion_to_weight_and_tempered_size(weights, temperature, counts):
    assert Mixture(SIZES, weights, temperature).counts() == counts


def test_every_pair_of_a_corpus_is_drawn_equally_often_up_to_one():
    times = Counter(Mixture(SIZES, (1, 9), seed=1).draw(0, 0).tolist())
    assert {times[row] for row in range(90)} == {0, 1}
    assert all(times[row] == 5 for row in range(90, 100))


def test_an_epoch_is_determined_by_its_seed_and_number():
    first, second = (Mixture(SIZES, (1, 9), seed=seed).draw for seed in (1, 2))
    assert first(0, 0).tolist() == first(0, 0).tolist()
    assert first(0, 0).tolist() != first(1, 0).tolist()
    assert first(0, 0).tolist() != second(0, 0).tolist()
    assert {row for epoch in range(12) for row in first(epoch, 0).tolist()} == set(range(100))


def test_a_mixture_in_one_window_draws_as_numpy_does_from_the_seed_and_the_epoch():
    draw = np.random.default_rng((7, 3))
    expected = [np.sort(draw.choice(np.arange(90), 50, replace=False)), *[np.arange(90, 100)] * 5]
    draw.choice(np.arange(90, 100), 0, replace=False)
    assert Mixture(SIZES, (1, 9), seed=7).draw(3, 0).tolist() == np.concatenate(expected).tolist()


def test_equal_shares_are_all_pairs_in_order():
    assert Mixture(SIZES, (1, 1), seed=1).draw(3, 0).tolist() == list(range(100))


@pytest.mark.parametrize("sizes", [[1], [10_007], [5000, 3, 700], [12, 4999]])
@pytest.mark.parametrize("window", [777, 5011, 20_000])
def test_windows_of_equal_size_have_every_pair_once_and_their_share_of_each_corpus(sizes, window):
    mixture = Mixture(sizes, seed=3, window=window)
    windows = [mixture.lines(each) for each in range(len(mixture))]
    assert len(windows) == -(-sum(sizes) // window)
    assert np.sort(np.concatenate(windows)).tolist() == list(range(sum(sizes)))
    assert all((np.diff(each) > 0).all() for each in windows)
    for epoch in range(2):
        order = mixture.order(epoch)
        assert sorted(order) == list(range(len(mixture)))
        drawn = np.concatenate([mixture.draw(epoch, each) for each in order])
        assert np.sort(drawn).tolist() == list(range(sum(sizes)))


def test_each_window_is_a_random_part_of_the_corpus_not_a_stretch_of_it():
    mixture = Mixture([64_000], seed=3, window=4000)
    means = [mixture.lines(each).mean() for each in range(len(mixture))]
    assert len(means) == 16
    assert all(abs(mean / 32_000 - 1) < 0.5 for mean in means)


def test_weights_hold_in_every_window():
    mixture = Mixture([8000, 2000], (1, 4), seed=1, window=1000)
    drawn = [mixture.draw(0, each) for each in range(10)]
    assert [abs(np.count_nonzero(each < 8000) - 500) <= 30 for each in drawn] == [True] * 10
    assert sum(map(len, drawn)) == sum(mixture.counts()) == 10_000


def test_what_is_not_used_is_in_no_window():
    mixture = Mixture([50, 50], (1, 3), used=lambda lines: lines[lines % 2 == 0], window=13)
    drawn = np.concatenate([mixture.draw(1, each) for each in range(len(mixture))])
    assert len(drawn) == sum(mixture.counts()) == 50
    assert (drawn % 2 == 0).all()
