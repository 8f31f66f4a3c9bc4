from __future__ import annotations

import random
from itertools import product
from math import log

import pytest
import torch
from hand_made_models import (
    BOS,
    EOS,
    PAD,
    SOURCES,
    UNK,
    GruModel,
    TableModel,
    certain_table,
    expected_weights,
    random_table,
)

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.search import SearchOptions, beam_search, force, greedy_search


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, rel=1e-9)
            assert one.score == pytest.approx(other.score, rel=1e-9)
            torch.testing.assert_close(one.weights, other.weights)


def every_translation(translator, kind, longest, options):
    """(score, log-probability, tokens) of all complete translations, best first."""
    words = [token for token in range(translator.table.shape[-1]) if token not in (PAD, BOS, EOS)]
    found = []
    for length in range(1, longest + 1):
        for tokens in product(words, repeat=length - 1):
            total = sum(translator.log_probabilities(kind, [*tokens, EOS]))
            found.append((total / options.penalty(length), total, list(tokens)))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 3, 40])
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search_over_three_words(alpha, n_best):
    longest = 4  # 1 + 3 + 9 + 27 = 40 complete translations; 27 * 4 candidates in the last step
    options = SearchOptions(
        beam_size=27 * 4, n_best=n_best, length_penalty=alpha, max_length=longest, max_length_ratio=None
    )
    for seed in range(4):
        translator = random_table(seed, kinds=5, positions=3, vocabulary=6)
        found = beam_search(translator, pad([[4, EOS], [0, 4, EOS], [2, 5, 5, EOS]]), options)
        for kind, hypotheses in zip((4, 0, 2), found, strict=True):
            expected = every_translation(translator, kind, longest, options)[:n_best]
            assert [h.tokens for h in hypotheses] == [tokens for _, _, tokens in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _, _ in expected])
            assert [h.log_probability for h in hypotheses] == pytest.approx([total for _, total, _ in expected])


@pytest.mark.slow  # a minute: python -m pytest -m slow -n 0 tests/search
def test_exhaustive_search_over_thousands_of_random_models_finds_nothing_better():
    draw = random.Random(1)
    for seed in range(3000):
        translator = random_table(seed, kinds=1, positions=draw.randint(1, 4), vocabulary=6)
        options = SearchOptions(
            beam_size=27 * 4,
            n_best=draw.choice([1, 5, 40]),
            length_penalty=draw.choice([0.0, 0.3, 1.0, 3.0]),
            max_length=4,
            max_length_ratio=None,
        )
        (found,) = beam_search(translator, pad([[0, EOS]]), options)
        expected = every_translation(translator, 0, 4, options)[: options.n_best]
        assert [h.tokens for h in found] == [tokens for _, _, tokens in expected]
        assert [h.score for h in found] == pytest.approx([score for score, _, _ in expected])


def reference_beam_search(translator, kind, options, limit):
    """An independent implementation for one sentence, with lists: the n best (score, tokens), best first."""
    width, live, finished = options.beam_size, [(0.0, [])], []
    for length in range(1, limit + 1):
        candidates = []
        for total, tokens in live:
            position = min(length, translator.table.shape[1]) - 1
            log_p = translator.table[kind, position, [BOS, *tokens][-1]].log_softmax(-1).tolist()
            candidates += [(total + p, [*tokens, i]) for i, p in enumerate(log_p) if i not in (PAD, BOS)]
        candidates.sort(reverse=True)
        for total, tokens in candidates[:width]:
            if tokens[-1] == EOS:
                finished.append((total / options.penalty(length), tokens[:-1]))
        finished.sort(reverse=True)
        live = [(total, tokens) for total, tokens in candidates if tokens[-1] != EOS][:width]
        if len(finished) >= width and live[0][0] / options.penalty(length) <= finished[0][0]:
            break
    truncated = [(total / options.penalty(length), tokens) for total, tokens in live]
    return (finished or truncated)[: options.n_best]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize(("beam_size", "n_best"), [(2, 1), (3, 3), (7, 2)])
def test_a_narrow_beam_equals_an_independent_implementation(alpha, beam_size, n_best):
    options = SearchOptions(beam_size=beam_size, n_best=n_best, length_penalty=alpha, max_length_margin=3)
    sources = [[kind, *[4] * (kind % 3), EOS] for kind in range(5)]
    for seed in range(6):
        translator = random_table(seed, kinds=5, positions=8)
        for source, hypotheses in zip(sources, beam_search(translator, pad(sources), options), strict=True):
            expected = reference_beam_search(translator, source[0], options, options.limit(len(source)))
            assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_of_one_equals_greedy_search(alpha):
    options = SearchOptions(beam_size=1, length_penalty=alpha, max_length=12)
    for seed in range(8):
        translator = GruModel(seed)
        beam = beam_search(translator, pad(SOURCES), options, with_weights=True)
        assert_same(beam, greedy_search(translator, pad(SOURCES), options, with_weights=True))


def test_scores_and_their_order_computed_by_hand():
    # First </s> (p = 0.4) or a word (0.6); then </s> (0.9) or the word again (0.1); then </s> (1).
    table = torch.full((1, 3, 5, 5), -torch.inf, dtype=torch.double)
    table[0, 0, :, [EOS, 4]] = torch.tensor([0.4, 0.6], dtype=torch.double).log()
    table[0, 1, :, [EOS, 4]] = torch.tensor([0.9, 0.1], dtype=torch.double).log()
    table[0, 2, :, EOS] = 0.0
    options = SearchOptions(beam_size=3, n_best=3, length_penalty=1.0)
    (hypotheses,) = beam_search(TableModel(table), pad([[0, EOS]]), options)
    assert [h.tokens for h in hypotheses] == [[4], [], [4, 4]]
    assert [h.log_probability for h in hypotheses] == pytest.approx([log(0.54), log(0.4), log(0.06)])
    assert [h.score for h in hypotheses] == pytest.approx([log(0.54) * 6 / 7, log(0.4), log(0.06) * 6 / 8])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_the_n_best_are_sorted_and_distinct_and_do_not_depend_on_n(alpha):
    for seed in range(6):
        translator = GruModel(seed)
        lists = {
            n: beam_search(translator, pad(SOURCES), SearchOptions(beam_size=4, n_best=n, length_penalty=alpha), True)
            for n in (1, 2, 4)
        }
        for hypotheses in lists[4]:
            scores = [h.score for h in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        for n in (1, 2):
            assert_same(lists[n], [hypotheses[:n] for hypotheses in lists[4]])


def test_the_log_probability_is_the_total_of_forced_decoding():
    options = SearchOptions(beam_size=3, n_best=3)
    for seed in range(4):
        translator = GruModel(seed)
        for source, hypotheses in zip(SOURCES, beam_search(translator, pad(SOURCES), options, True), strict=True):
            for hypothesis in hypotheses:
                closed = [*hypothesis.tokens, EOS]
                (forced,) = force(translator, pad([source]), pad([closed]))
                predicted = len(hypothesis.weights)
                if predicted == len(closed):
                    assert hypothesis.log_probability == pytest.approx(forced.total, rel=1e-6)
                torch.testing.assert_close(hypothesis.weights, forced.weights[:predicted])


def test_weights_belong_to_the_hypothesis_that_survived():
    sources = [[4, EOS], [0, 4, 4, EOS], [2, EOS], [3], [1, 4, 4, 4, 4, EOS], [4, 6, EOS]]
    options = SearchOptions(beam_size=5, n_best=5, length_penalty=0.5)
    for seed in range(6):
        found = beam_search(random_table(seed), pad(sources), options, with_weights=True)
        for source, hypotheses in zip(sources, found, strict=True):
            assert hypotheses
            for h in hypotheses:
                expected = expected_weights(source[0], h.tokens, len(h.tokens) + 1, len(source))
                torch.testing.assert_close(h.weights, expected, rtol=0, atol=0)
                assert h.weights.dtype == torch.float32


def test_weights_are_none_unless_requested():
    for search in (beam_search, greedy_search):
        assert search(random_table(1), pad([[4, EOS]]), SearchOptions())[0][0].weights is None


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_padding_never_changes_a_translation(search):
    options = SearchOptions(beam_size=3, n_best=2)
    for seed in range(4):
        translator = GruModel(seed)
        together = search(translator, pad(SOURCES), options, with_weights=True)
        alone = [search(translator, pad([source]), options, with_weights=True)[0] for source in SOURCES]
        assert_same(together, alone)


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_permuting_the_batch_permutes_its_output(search):
    options = SearchOptions(beam_size=3, n_best=2)
    order = [3, 5, 0, 2, 1, 4]
    translator = GruModel(2)
    found = search(translator, pad(SOURCES), options, with_weights=True)
    permuted = search(translator, pad([SOURCES[i] for i in order]), options, with_weights=True)
    assert_same(permuted, [found[i] for i in order])


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_finished_sentences_leave_the_batch_and_the_memory_is_never_copied_for_hypotheses(search):
    translator = certain_table([1, 3, 3, 6])
    options = SearchOptions(beam_size=3, length_penalty=0.0)
    found = search(translator, pad([[0, EOS], [1, EOS], [2, EOS], [3]]), options)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [0, 2, 2, 5]
    memory, hypotheses = zip(*translator.seen, strict=True)
    assert memory == (4, 3, 3, 1, 1, 1)
    width = 3 if search is beam_search else 1
    assert hypotheses == (4, 3 * width, 3 * width, width, width, width)


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_the_batch_shrinks_only_once_an_eighth_of_it_has_finished(search):
    lengths = [2, 1, 3, *[5] * 14]
    translator = certain_table(lengths)
    options = SearchOptions(beam_size=2, length_penalty=0.0)
    found = search(translator, pad([[kind, EOS] for kind in range(17)]), options, with_weights=True)
    assert [memory for memory, _ in translator.seen] == [17, 17, 17, 14, 14]
    for kind, (length, hypotheses) in enumerate(zip(lengths, found, strict=True)):
        assert hypotheses[0].tokens == [4 + kind % 4] * (length - 1)
        torch.testing.assert_close(
            hypotheses[0].weights, expected_weights(kind, hypotheses[0].tokens, length, columns=2)
        )


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_finished_sentence_that_is_still_in_the_batch_does_not_change(search):
    # No translation is longer than its source, so the first few end or are truncated long before the others.
    sources = [[row % 5, *[4] * min(row, 7), EOS] for row in range(29)]
    options = SearchOptions(beam_size=2, length_penalty=2.0, max_length_ratio=1.0, max_length_margin=0)
    for seed in range(3):
        translator = random_table(seed, kinds=5, positions=9, vocabulary=7)
        translator.table[..., EOS] -= 2.0
        together = search(translator, pad(sources), options, with_weights=True)
        assert_same(together, [search(translator, pad([source]), options, with_weights=True)[0] for source in sources])


def test_a_search_stops_once_no_live_hypothesis_can_reach_the_n_best():
    # 4 </s> has nearly probability 1. The others need a third token.
    table = torch.zeros(1, 3, 8, 8, dtype=torch.double)
    table[0, :2, :, EOS] = -9.0
    table[0, 0, :, 4] = table[0, 1, 5:, 4] = table[0, 1, 4, EOS] = table[0, 2, :, EOS] = 6.0
    for n_best, steps in ((1, 2), (3, 3)):
        translator = TableModel(table)
        options = SearchOptions(beam_size=3, n_best=n_best, length_penalty=0.0)
        assert beam_search(translator, pad([[0, EOS]]), options)[0][0].tokens == [4]
        assert len(translator.seen) == steps


def test_a_search_stops_after_k_finished_hypotheses_even_if_a_long_continuation_could_win():
    table = torch.full((1, 1, 6, 6), -9.0, dtype=torch.double)
    table[0, 0, :, [EOS, 4]] = torch.tensor([4.0, 3.0], dtype=torch.double)
    translator = TableModel(table)
    options = SearchOptions(beam_size=2, length_penalty=2.0, max_length=50, max_length_ratio=None)
    ((best,),) = beam_search(translator, pad([[0, EOS]]), options)
    assert best.tokens == []
    assert best.score < 2 * log(0.2) / options.penalty(50)  # the exact rule alone would continue
    assert len(translator.seen) == 2  # by then </s> and 4 </s> have finished


def test_a_search_continues_after_k_finished_hypotheses_while_a_live_one_is_better():
    translator = certain_table([7])  # `</s>` is among the best in every step, at p < 0.01
    options = SearchOptions(beam_size=2, length_penalty=0.0)
    ((best,),) = beam_search(translator, pad([[0, EOS]]), options)
    assert best.tokens == [4] * 6


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_minimum_and_maximum_length_are_respected(search):
    for seed in range(4):
        options = SearchOptions(beam_size=4, n_best=4, min_length=4, max_length=6, max_length_ratio=None)
        found = search(GruModel(seed), pad(SOURCES), options, with_weights=True)
        assert all(4 <= len(h.weights) <= 6 for hypotheses in found for h in hypotheses)
        assert all(EOS not in h.tokens for hypotheses in found for h in hypotheses)


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_hypothesis_without_an_end_is_truncated_at_the_limit_of_its_source(search):
    table = torch.zeros(2, 1, 7, 7, dtype=torch.double)
    table[:, :, :, 5], table[:, :, :, EOS] = 4.0, -50.0
    translator = TableModel(table)
    sources = [[0, 4, 4, EOS], [1, EOS]]
    options = SearchOptions(beam_size=2, n_best=2, max_length_ratio=1.5, max_length_margin=1)
    found = search(translator, pad(sources), options, with_weights=True)
    assert [memory for memory, _ in translator.seen] == [2, 2, 2, 2, 1, 1, 1]
    for kind, (limit, hypotheses) in enumerate(zip((7, 4), found, strict=True)):
        assert len(hypotheses) == (2 if search is beam_search else 1)
        for h in hypotheses:
            assert len(h.tokens) == limit
            expected = expected_weights(kind, h.tokens, limit, columns=len(sources[kind]))
            torch.testing.assert_close(h.weights, expected)
            assert h.log_probability == pytest.approx(sum(translator.log_probabilities(kind, h.tokens)))
            assert h.score == pytest.approx(h.log_probability * 6 / (5 + limit))
        assert hypotheses[0].tokens == [5] * limit


def test_truncated_hypotheses_are_returned_only_if_none_has_finished():
    table = torch.zeros(1, 2, 6, 6, dtype=torch.double)
    table[0, 0, :, [EOS, 4]] = torch.tensor([3.0, 4.0], dtype=torch.double)
    table[0, 1, :, 4], table[0, 1, :, EOS] = 9.0, -50.0
    options = SearchOptions(beam_size=2, n_best=2, length_penalty=0.0, max_length=5)
    (hypotheses,) = beam_search(TableModel(table), pad([[0, EOS]]), options)
    assert [h.tokens for h in hypotheses] == [[]]


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_padding_and_start_are_never_produced_but_unknown_may_be(search):
    table = torch.zeros(1, 1, 7, 7, dtype=torch.double)
    table[:, :, :, [PAD, BOS]], table[:, :, :, UNK] = 9.0, 5.0
    options = SearchOptions(beam_size=6, n_best=6, max_length=3)
    (hypotheses,) = search(TableModel(table), pad([[0, EOS]]), options)
    produced = {token for h in hypotheses for token in h.tokens}
    assert UNK in produced
    assert produced.isdisjoint({PAD, BOS, EOS})


def test_ties_are_broken_independently_of_the_batch():
    translator = TableModel(torch.zeros(7, 1, 9, 9, dtype=torch.double))
    options = SearchOptions(beam_size=4, n_best=4, min_length=3)
    (alone,) = beam_search(translator, pad([[5, 4, EOS]]), options, with_weights=True)
    together = beam_search(translator, pad([[6, EOS], [5, 4, EOS], [5, 4, EOS]]), options, with_weights=True)
    assert_same(together[1:], [alone, alone])
    ((greedy,),) = greedy_search(translator, pad([[5, EOS]]), SearchOptions(max_length=3))
    assert greedy.tokens == [UNK] * 3  # the lowest id


def test_log_probabilities_of_bf16_logits_are_summed_in_fp32():
    translator = random_table(3, positions=6)
    translator.table = translator.table.bfloat16()
    exact = TableModel(translator.table.double())
    options = SearchOptions(beam_size=3, n_best=3)
    for search in (beam_search, greedy_search):
        for h in search(translator, pad([[4, EOS]]), options)[0]:
            assert h.log_probability == pytest.approx(sum(exact.log_probabilities(4, [*h.tokens, EOS])), abs=1e-5)


def test_if_all_allowed_tokens_have_probability_0_the_hypotheses_so_far_are_returned():
    table = torch.full((1, 2, 6, 6), -torch.inf, dtype=torch.double)
    table[0, 0, :, 4] = 0.0
    table[0, 1, :, EOS] = 0.0  # ends after one word with probability 1, below the minimum length
    (hypotheses,) = beam_search(
        TableModel(table), pad([[0, EOS]]), SearchOptions(beam_size=2, min_length=4), with_weights=True
    )
    assert [h.tokens for h in hypotheses] == [[4]]
    assert len(hypotheses[0].weights) == 1
