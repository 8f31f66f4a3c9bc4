"""Samples have the distribution that they are drawn from, and depend on nothing but seed, model and sentence."""

from collections import Counter
from math import log

import pytest
import torch
from hand_made_models import (
    BOS,
    EOS,
    PAD,
    SOURCES,
    GruModel,
    TableModel,
    expected_weights,
    random_table,
)
from pydantic import ValidationError

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.search import SearchOptions, force, greedy_search, sample, search
from seq2seq_attn.search.sampling import draw

THREE_WORDS = [0, 4, 5]  # and `</s>`; `<pad>` and `<s>` are never drawn


def sampling(count, **options):
    """Options for `count` samples."""
    return SearchOptions(n_best=count, sampling=True, **options)


def every_translation(translator, kind, longest):
    """The probability of each translation of at most `longest` tokens, truncated ones included."""
    found, open_ = {}, {(): 1.0}
    for length in range(longest):
        extended = {}
        for tokens, p in open_.items():
            table = translator.table[kind, min(length, translator.table.shape[1] - 1), [BOS, *tokens][-1]].clone()
            table[[PAD, BOS]] = -torch.inf
            for token in (*THREE_WORDS, EOS):
                q = p * table.softmax(-1)[token].item()
                (found if token == EOS else extended)[tokens if token == EOS else (*tokens, token)] = q
        open_ = extended
    return found | open_


@pytest.mark.parametrize("seed", [1, 2])
def test_frequencies_are_the_probabilities_over_three_words(seed):
    translator, count = random_table(seed, vocabulary=6), 10_000
    (samples,) = sample(translator, pad([[4, EOS]]), sampling(count, seed=seed, max_length=3))
    seen = Counter(tuple(each.tokens) for each in samples)
    expected = every_translation(translator, 4, longest=3)
    assert sum(expected.values()) == pytest.approx(1)
    assert set(seen) <= set(expected)
    for tokens, p in expected.items():
        deviation = (p * (1 - p) / count) ** 0.5
        assert abs(seen[tokens] / count - p) < 4.5 * deviation, tokens


def test_log_probabilities_and_weights_are_those_of_forced_decoding():
    translator = GruModel(1)
    options = sampling(3, temperature=0.7, top_k=4, max_length=12)
    found = sample(translator, pad(SOURCES), options, with_weights=True)
    for source, samples in zip(SOURCES, found, strict=True):
        assert len(samples) == 3
        for each in samples:
            finished = len(each.weights) == len(each.tokens) + 1
            target = [*each.tokens, EOS] if finished else each.tokens
            (forced,) = force(translator, pad([source]), pad([target]))
            assert each.log_probability == pytest.approx(forced.total, abs=1e-5)
            assert each.score == pytest.approx(each.log_probability / options.penalty(len(target)))
            torch.testing.assert_close(each.weights, forced.weights)


def test_weights_belong_to_the_sample_that_was_drawn_with_them():
    sources = [[4, 4, 4, EOS], [1, EOS], [0, 5, EOS]]
    found = sample(random_table(3), pad(sources), sampling(5, max_length=6), with_weights=True)
    for source, samples in zip(sources, found, strict=True):
        assert len({tuple(each.tokens) for each in samples}) > 1
        for each in samples:
            expected = expected_weights(source[0], each.tokens, len(each.weights), len(source))
            torch.testing.assert_close(each.weights, expected)


@pytest.mark.parametrize("temperature", [1e-4, 1e-38, 1e-300])
def test_a_temperature_near_0_is_greedy_search(temperature):
    translator = GruModel(2)
    found = sample(translator, pad(SOURCES), sampling(2, temperature=temperature, min_length=3, max_length=9))
    greedy = greedy_search(translator, pad(SOURCES), SearchOptions(beam_size=1, min_length=3, max_length=9))
    for samples, (best,) in zip(found, greedy, strict=True):
        assert [each.tokens for each in samples] == [best.tokens] * 2
        assert samples[0].log_probability == pytest.approx(best.log_probability, abs=1e-5)


def test_samples_do_not_depend_on_the_batch_the_order_or_the_limit_of_others():
    translator = GruModel(3)
    expected = search(translator, SOURCES, sampling(4, seed=7))
    for size in (1, 2):
        found = search(translator, SOURCES[::-1], sampling(4, seed=7, batch_size=size))[::-1]
        assert [[each.tokens for each in best] for best in found] == [[each.tokens for each in b] for b in expected]
    other = search(translator, SOURCES, sampling(4, seed=8))
    assert [[each.tokens for each in best] for best in other] != [[each.tokens for each in b] for b in expected]


LOGITS = torch.tensor([0.05, 0.1, 0.02, 0.2, 0.35, 0.28]).log()


def shares(steps=1000, excluded=(), **options):
    """The share of [0, 1) that chooses each token."""
    uniform = (torch.arange(steps, dtype=torch.double) + 0.5) / steps
    logits = LOGITS.clone()
    logits[list(excluded)] = -torch.inf
    tokens = draw(logits.expand(steps, 6), uniform, SearchOptions(**options))
    return (tokens.bincount(minlength=6) / steps).tolist()


def test_each_option_changes_the_distribution_as_it_says():
    assert shares() == pytest.approx([0.05, 0.1, 0.02, 0.2, 0.35, 0.28], abs=0.002)
    assert shares(excluded=[PAD, BOS]) == pytest.approx(
        [0.05 / 0.88, 0, 0, 0.2 / 0.88, 0.35 / 0.88, 0.28 / 0.88], abs=0.002
    )
    squares = [0.0025, 0.01, 0.0004, 0.04, 0.1225, 0.0784]
    assert shares(temperature=0.5) == pytest.approx([each / sum(squares) for each in squares], abs=0.002)
    assert shares(temperature=1e300, excluded=[PAD, BOS]) == pytest.approx([0.25, 0, 0, 0.25, 0.25, 0.25], abs=0.002)
    assert shares(top_k=2) == pytest.approx([0, 0, 0, 0, 0.35 / 0.63, 0.28 / 0.63], abs=0.002)
    assert shares(top_k=6) == shares(top_k=50) == shares(top_p=1.0) == shares()
    assert shares(top_p=0.6) == shares(top_k=2)  # 0.35 + 0.28 is the first sum of at least 0.6
    assert shares(top_p=0.64) == shares(top_k=3)
    assert shares(top_p=0.01) == shares(top_k=1) == [0, 0, 0, 0, 1, 0]
    # The mass is that after temperature and top_k: of 0.1225 and 0.0784, the first is 0.61.
    assert shares(temperature=0.5, top_k=2, top_p=0.6) == [0, 0, 0, 0, 1, 0]


def test_a_token_of_probability_0_is_never_drawn():
    logits = torch.tensor([[-torch.inf, -torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(3, 6)
    drawn = draw(logits, torch.tensor([0.0, 0.5, 1 - 1e-9], dtype=torch.double), SearchOptions())
    assert drawn.tolist() == [BOS, 4, 4]


def test_lengths_are_limited_as_in_a_search():
    never = torch.zeros(1, 1, 6, 6, dtype=torch.double)
    never[..., EOS] = -50
    always = -never
    (cut,) = sample(TableModel(never), pad([[0, EOS]]), sampling(2, max_length=4), with_weights=True)
    assert [(len(each.tokens), len(each.weights)) for each in cut] == [(4, 4)] * 2
    assert cut[0].log_probability == pytest.approx(4 * log(1 / 5))
    (least,) = sample(TableModel(always), pad([[0, EOS]]), sampling(2, min_length=4))
    assert [len(each.tokens) for each in least] == [3, 3]


def test_samples_need_no_beam_and_impossible_options_are_an_error():
    assert sampling(40).n_best == 40
    for wrong in ({"temperature": 0.0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"seed": -1}):
        with pytest.raises(ValidationError):
            SearchOptions(**wrong)
