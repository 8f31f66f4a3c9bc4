"""What ranks hypotheses, and diverse groups of them: against all translations, and against lists of numbers."""

from __future__ import annotations

from itertools import pairwise, product, zip_longest
from math import log

import numpy as np
import pytest
import torch
from hand_made_models import BOS, EOS, PAD, SOURCES, UNK, GruModel, TableModel, random_table

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.search import SearchOptions, beam_search, greedy_search, search
from seq2seq_attn.search.groups import diverse_beam_search
from seq2seq_attn.search.rules import CorpusRules, LineRules, Rules, SearchRules

LONGEST = 4
WIDE = {"beam_size": 27 * 4, "max_length": LONGEST, "max_length_ratio": None}  # as wide as the space of three words
WORDS = (UNK, 4, 5)
BATCH = [[4, EOS], [0, 4, EOS], [2, 5, 5, EOS]]


class Attending(TableModel):
    """Weights that sum to 1, depend on all tokens so far, and are 0 now and then."""

    def advance(self, tokens, state, memory):
        logits, state, _ = super().advance(tokens, state, memory)
        is_token = memory.is_state.repeat_interleave(len(tokens) // len(memory.is_state), dim=0)
        places = torch.arange(is_token.shape[1]) + 3
        weights = (state.fingerprint[:, None] * places % 7).clamp(max=4) * is_token + 1e-9 * (places == 3)
        return logits, state, (weights / weights.sum(dim=1, keepdim=True)).double()


def weights_of(kind, tokens, columns):
    """The same for one translation (T', S), in NumPy."""
    rows, fingerprint = [], kind
    for token in [BOS, *tokens]:
        fingerprint = (fingerprint * 31 + token) % 10007
        row = np.minimum(fingerprint * (np.arange(columns) + 3) % 7, 4) + 1e-9 * (np.arange(columns) == 0)
        rows.append(row / row.sum())
    return np.array(rows)


def attending(seed, **sizes):
    return Attending(random_table(seed, **sizes).table)


def score_of(options, total, length, weights):
    """Wu et al. 2016, eq. 14, and a reward for each token."""
    covered = np.log(np.clip(weights.sum(axis=0), np.finfo(np.float32).tiny, 1)).sum()
    normalized = total / ((5 + length) / 6) ** options.length_penalty
    return normalized + options.length_reward * length + options.coverage_penalty * covered


def every_translation(models, source, options, holds=lambda tokens: True):
    """(score, tokens) of all complete translations by the mean of these models, best first."""
    found = []
    for length in range(1, LONGEST + 1):
        for words in filter(holds, product(WORDS, repeat=length - 1)):
            logs = [model.log_probabilities(source[0], [*words, EOS]) for model in models]
            total = np.log(np.exp(logs).mean(axis=0)).sum()
            weights = weights_of(source[0], words, len(source))
            found.append((score_of(options, total, length, weights), list(words)))
    return sorted(found, reverse=True)


RANKINGS = [
    {"length_reward": 0.4, "length_penalty": 0.0},
    {"length_reward": 2.0},
    {"coverage_penalty": 0.2},
    {"coverage_penalty": 3.0, "length_penalty": 0.0},
    {"coverage_penalty": 0.5, "length_reward": 0.3, "length_penalty": 0.6},
]


@pytest.mark.parametrize("ranking", RANKINGS, ids=str)
@pytest.mark.parametrize("members", [1, 2])
def test_a_beam_as_wide_as_the_space_finds_the_best_scores_of_all(ranking, members):
    options = SearchOptions(**WIDE, **ranking, n_best=5)
    changed = 0
    for seed in range(4):
        models = [attending(seed + 10 * each, vocabulary=6) for each in range(members)]
        model = models[0] if members == 1 else Ensemble(models)
        found = beam_search(model, pad(BATCH), options)
        plain = beam_search(model, pad(BATCH), SearchOptions(**WIDE, n_best=5))
        for source, best, without in zip(BATCH, found, plain, strict=True):
            expected = every_translation(models, source, options)[:5]
            assert [each.score for each in best] == pytest.approx([score for score, _ in expected], rel=1e-5)
            assert [each.tokens for each in best] == [tokens for _, tokens in expected]
            changed += [each.tokens for each in best] != [each.tokens for each in without]
    assert changed > 2


def test_required_phrases_are_ranked_by_coverage_as_well():
    options = SearchOptions(**WIDE, coverage_penalty=1.0, length_reward=0.3, n_best=3)
    for seed in range(4):
        model, rules = attending(seed, vocabulary=6), Rules([LineRules([], [[5, 4]])] * 3, SearchRules())
        for source, best in zip(BATCH, beam_search(model, pad(BATCH), options, rules=rules), strict=True):
            expected = every_translation([model], source, options, lambda tokens: (5, 4) in pairwise(tokens))[:3]
            assert [each.tokens for each in best] == [tokens for _, tokens in expected]


def reference_search(model, source, options, limit):
    """Diverse beam search of one sentence, with lists: (score, tokens) of each group, best first."""
    groups, width = options.beam_groups, options.beam_size // options.beam_groups
    most = min(width, options.n_best)
    live, finished = [[(0.0, [])] for _ in range(groups)], [[] for _ in range(groups)]
    running = [True] * groups

    def scored(total, tokens):
        words = tokens[:-1] if tokens[-1] == EOS else tokens
        weights = weights_of(source[0], words, len(source))[: len(tokens)]
        return score_of(options, total, len(tokens), weights), words

    for length in range(1, limit + 1):
        chosen = np.zeros(model.table.shape[-1])
        for group in filter(running.__getitem__, range(groups)):
            candidates = []
            for total, tokens in live[group]:
                position = min(length, model.table.shape[1]) - 1
                logs = model.table[source[0], position, [BOS, *tokens][-1]].log_softmax(-1).tolist()
                for token, p in enumerate(logs):
                    if token not in (PAD, BOS):
                        rank = total + p - options.strength * chosen[token]
                        candidates.append((rank, total + p, [*tokens, token]))
            candidates.sort(reverse=True)
            ended = [each[1:] for each in candidates[:width] if each[2][-1] == EOS]
            live[group] = sorted([each[1:] for each in candidates if each[2][-1] != EOS][:width], reverse=True)
            for _, tokens in (*ended, *live[group]):
                chosen[tokens[-1]] += 1
            finished[group] += [scored(*each) for each in ended]
            finished[group].sort(key=lambda each: -each[0])
            leader, best = live[group][0][0], [score for score, _ in finished[group]]
            bound = leader / options.penalty(limit) + options.length_reward * limit
            now = leader / options.penalty(length) + options.length_reward * length
            can_win = len(best) < most or bound > best[most - 1]
            running[group] = can_win and (len(best) < width or now > best[0])
    return [
        (done or sorted((scored(*each) for each in rest), reverse=True))[:most]
        for done, rest in zip(finished, live, strict=True)
    ]


def merged(groups, count):
    """The best of every group, then the second best of every group, and no translation twice."""
    found = []
    for rank in zip_longest(*groups):
        for score, tokens in sorted((each for each in rank if each), reverse=True):
            if tokens not in [other for _, other in found]:
                found.append((score, tokens))
    return found[:count]


@pytest.mark.parametrize("ranking", [{}, RANKINGS[0], RANKINGS[4]], ids=str)
@pytest.mark.parametrize(
    ("beam_size", "groups", "diversity", "n_best"),
    [(3, 1, None, 2), (4, 2, 0.5, 4), (6, 3, 2.0, 3), (3, 3, 1.0, 3), (8, 2, None, 8)],
)
def test_diverse_groups_equal_an_independent_implementation(beam_size, groups, diversity, n_best, ranking):
    options = SearchOptions(
        beam_size=beam_size, beam_groups=groups, diversity=diversity, n_best=n_best, max_length_margin=2, **ranking
    )
    sources = [[kind, *[4] * (kind % 3), EOS] for kind in range(5)]
    for seed in range(4):
        model = attending(seed, positions=6)
        for source, best in zip(sources, search(model, sources, options), strict=True):
            expected = merged(reference_search(model, source, options, options.limit(len(source))), n_best)
            assert [each.tokens for each in best] == [tokens for _, tokens in expected]
            assert [each.score for each in best] == pytest.approx([score for score, _ in expected], rel=1e-5)


def test_the_first_group_is_a_beam_of_its_own_and_groups_differ_more_than_a_beam():
    wide = SearchOptions(beam_size=6, n_best=6)
    divided = wide.model_copy(update={"beam_groups": 3, "diversity": 1.0})
    differing = {True: 0, False: 0}
    for seed in range(6):
        model = GruModel(seed)
        for first, best in zip(
            search(model, SOURCES, SearchOptions(beam_size=2)), search(model, SOURCES, divided), strict=True
        ):
            assert first[0].tokens in [each.tokens for each in best[:3]]
            assert len({tuple(each.tokens) for each in best}) == len(best)
        for options in (divided, wide):
            words = [{token for each in best for token in each.tokens} for best in search(model, SOURCES, options)]
            differing[options is divided] += sum(map(len, words))
    assert differing[True] > differing[False]


@pytest.mark.parametrize(
    "options", [{"coverage_penalty": 0.4, "length_reward": 0.2}, {"beam_groups": 2, "diversity": 0.9}]
)
def test_batches_change_nothing_and_weights_belong_to_the_hypotheses(options):
    sources = [[row % 5, *[4] * min(row, 7), EOS] for row in range(17)]
    options = SearchOptions(beam_size=4, n_best=4, max_length_ratio=1.0, max_length_margin=0, **options)
    for seed in range(2):
        model = attending(seed, positions=9, vocabulary=7)
        model.table[..., EOS] -= 1.0
        together = search(model, sources, options, with_weights=True)
        alone = search(model, sources, options.model_copy(update={"batch_size": 1}), with_weights=True)
        for source, ours, theirs in zip(sources, together, alone, strict=True):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            assert [each.score for each in ours] == pytest.approx([each.score for each in theirs])
            for each in ours:
                expected = weights_of(source[0], each.tokens, len(source))[: len(each.weights)]
                np.testing.assert_allclose(each.weights, expected, rtol=1e-5)
                score = score_of(options, each.log_probability, len(each.weights), expected)
                assert each.score == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("groups", [2, 4])
def test_every_group_meets_the_required_phrases_and_keeps_the_rules(groups):
    lines = [LineRules([4] * (number % 2), [[7, 8], [9]][: number % 3]) for number in range(len(SOURCES))]
    rules = CorpusRules(lines, SearchRules(((10,),), 2))
    options = SearchOptions(beam_size=4, beam_groups=groups, n_best=4, max_length=14)
    for seed in range(4):
        for line, best in zip(lines, search(GruModel(seed), SOURCES, options, rules=rules), strict=True):
            assert best
            for each in best:
                text = " ".join(map(str, each.tokens))
                assert all(" ".join(map(str, phrase)) in text for phrase in line.phrases)
                assert each.tokens[: len(line.prefix)] == line.prefix
                assert 10 not in each.tokens


def test_what_is_never_attended_to_counts_as_the_least_number():
    table = torch.zeros(1, 1, 5, 5, dtype=torch.double)
    table[..., EOS] = 9.0

    class Blind(TableModel):
        def advance(self, tokens, state, memory):
            logits, state, weights = super().advance(tokens, state, memory)
            return logits, state, weights * 0 + torch.tensor([1.0, 0.0, 0.0])

    options = SearchOptions(beam_size=2, coverage_penalty=1.0, length_penalty=0.0)
    ((best,),) = beam_search(Blind(table), pad([[0, 4, EOS]]), options)
    assert best.score - best.log_probability == pytest.approx(2 * log(np.finfo(np.float32).tiny))


def test_greedy_search_is_rewarded_for_length_too():
    options = SearchOptions(beam_size=1, length_reward=0.5)
    for (best,), length in zip(greedy_search(GruModel(1), pad(SOURCES), options, True), range(9), strict=False):
        length = len(best.weights)
        assert best.score == pytest.approx(best.log_probability / options.penalty(length) + 0.5 * length)


def test_one_group_is_a_beam_search():
    options = SearchOptions(beam_size=4, n_best=4)
    for seed in range(3):
        ours, theirs = (method(GruModel(seed), pad(SOURCES), options) for method in (diverse_beam_search, beam_search))
        assert [[each.tokens for each in best] for best in ours] == [[each.tokens for each in best] for best in theirs]
