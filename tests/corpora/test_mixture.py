from collections import Counter

import numpy as np
import pytest

from seq2seq_attn.corpora.mixture import Mixture

ROWS = [np.arange(0, 90), np.arange(90, 100)]


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
    assert Mixture.of(ROWS, weights, temperature).counts == counts


def test_every_pair_of_a_corpus_is_drawn_equally_often_up_to_one():
    mixture = Mixture.of(ROWS, (1, 9), 1)
    times = Counter(mixture.draw(seed=1, epoch=0).tolist())
    assert {times[row] for row in range(90)} == {0, 1}
    assert all(times[row] == 5 for row in range(90, 100))


def test_an_epoch_is_determined_by_its_seed_and_number():
    draw = Mixture.of(ROWS, (1, 9), 1).draw
    assert draw(1, 0).tolist() == draw(1, 0).tolist()
    assert draw(1, 0).tolist() != draw(1, 1).tolist()
    assert draw(1, 0).tolist() != draw(2, 0).tolist()
    seen = {row for epoch in range(12) for row in draw(1, epoch).tolist()}
    assert seen == set(range(100))


def test_equal_shares_are_all_pairs_in_order():
    assert Mixture.of(ROWS, (1, 1), 1).draw(1, 3).tolist() == list(range(100))
