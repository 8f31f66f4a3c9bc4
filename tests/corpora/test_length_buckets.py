from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_attn.corpora.encoded import count_buckets, length_buckets
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import read_lines

pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=80)


def captions(number):
    """Log-normal lengths with the moments of Multi30k's in words, for the source and target over source."""
    random = np.random.default_rng(7)
    source = random.lognormal(np.log(13.5), 0.273, number)
    target = source * random.lognormal(-0.05, 0.156, number)
    return source.round().astype(int), target.round().astype(int)


def buckets(*lengths, **options):
    return [batch.tolist() for batch in length_buckets(*lengths, **options)]


def padding(lengths, batches):
    positions = sum(lengths[batch].max() * len(batch) for batch in batches)
    return 1 - lengths.sum() / positions


@given(pairs, st.integers(1, 200), st.sampled_from(["tokens", "sentences"]), st.integers(0, 9))
def test_every_sentence_is_in_exactly_one_batch(lengths, size, unit, epoch):
    batches = buckets([s for s, _ in lengths], [t for _, t in lengths], size=size, unit=unit, seed=3, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(pairs, st.integers(1, 200))
def test_no_batch_exceeds_the_budget_unless_one_sentence_does(lengths, size):
    source, target = np.array([s for s, _ in lengths]), np.array([t for _, t in lengths])
    for batch in buckets(source, target, size=size, seed=3):
        positions = len(batch) * max(source[batch].max(), target[batch].max())
        assert positions <= size or len(batch) == 1


def test_batches_of_sentences_are_all_full_but_one():
    source, target = captions(1000)
    sizes = sorted(len(batch) for batch in buckets(source, target, size=64, unit="sentences", seed=1))
    assert sizes == [1000 % 64, *[64] * (1000 // 64)]


def test_the_same_seed_and_epoch_give_the_same_batches_and_others_do_not():
    source, target = captions(500)
    first = buckets(source, target, size=400, seed=1, epoch=2)
    assert buckets(source, target, size=400, seed=1, epoch=2) == first
    for seed, epoch in ((1, 3), (2, 2)):
        other = buckets(source, target, size=400, seed=seed, epoch=epoch)
        assert other != first
        assert sorted(map(sorted, other)) != sorted(map(sorted, first))


def test_batches_come_in_random_order_of_length():
    source, target = captions(2000)
    longest = [target[batch].max() for batch in buckets(source, target, size=500, seed=1)]
    assert abs(np.corrcoef(longest, range(len(longest)))[0, 1]) < 0.3


@pytest.mark.parametrize(("size", "unit"), [(1024, "tokens"), (4096, "tokens"), (64, "sentences")])
def test_batches_of_similar_lengths_have_little_padding(size, unit):
    source, target = captions(29_000)
    batches = buckets(source, target, size=size, unit=unit, seed=1)
    assert padding(target, batches) < 0.04
    assert padding(source, batches) < 0.06


def test_at_most_four_percent_of_the_batches_of_the_demo_are_padding():
    corpus = Path(__file__).parents[2] / "data" / "tom-and-jerry"
    lines = (read_lines(corpus / f"train.{side}.gz") for side in ("en", "zh"))
    lengths = [np.array([len(line.split()) + 1 for line in side]) for side in lines]  # the demo's tokens are words
    batches = buckets(*lengths, size=1000, seed=1)
    assert max(padding(side, batches) for side in lengths) <= 0.04


def test_token_batches_fill_their_budget():
    source, target = captions(29_000)
    batches = buckets(source, target, size=4096, seed=1)
    filled = [len(batch) * max(source[batch].max(), target[batch].max()) for batch in batches]
    assert np.median(filled) > 0.98 * 4096


@pytest.mark.parametrize(("size", "unit"), [(0, "tokens"), (5, "words")])
def test_an_invalid_size_or_unit_is_refused(size, unit):
    with pytest.raises(UserError, match=f"batches of {size} {unit}"):
        length_buckets([1], [1], size=size, unit=unit, seed=1)


def in_one_pass(source, target, size, unit, seed, epoch):
    """The batches by the definition: sort, then fill one batch after the other."""
    random = np.random.default_rng((seed, epoch))
    _, band = np.unique(np.floor(np.log(target) / np.log(9 / 8)), return_inverse=True)
    snake = np.where(band % 2 == 0, source, -source)
    batches, longest = [], 0
    for index in np.lexsort((random.random(len(source)), target, snake, band)).tolist():
        length = max(source[index], target[index]) if unit == "tokens" else 1
        longest = max(longest, length)
        if not batches or (len(batches[-1]) + 1) * longest > size:
            batches.append([])
            longest = length
        batches[-1].append(index)
    random.shuffle(batches)
    return batches


@given(pairs, st.integers(1, 200), st.sampled_from(["tokens", "sentences"]), st.integers(0, 9))
@settings(max_examples=40)
def test_the_batches_are_those_of_one_pass_over_the_sorted_pairs(lengths, size, unit, epoch):
    sides = [np.array([pair[side] for pair in lengths], dtype=int) for side in range(2)]
    expected = in_one_pass(*sides, size, unit, 3, epoch)
    assert buckets(*sides, size=size, unit=unit, seed=3, epoch=epoch) == expected
    assert count_buckets(*sides, size=size, unit=unit) == len(expected)
