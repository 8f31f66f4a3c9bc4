from __future__ import annotations

import random
from itertools import pairwise, product

import pytest
import torch
from hand_made_models import EOS, SOURCES, UNK, GruModel, random_table

from seq2seq_attn.corpora.learning import train_codec
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.runs.requests import Constraint, SourceLine, met, rules_of
from seq2seq_attn.search import SearchOptions, beam_search, greedy_search
from seq2seq_attn.search.batched import search
from seq2seq_attn.search.required import Required, _allocated
from seq2seq_attn.search.rules import CorpusRules, LineRules, Rules, SearchRules
from seq2seq_attn.search.sampling import sample
from seq2seq_attn.search.shortlist import Shortlist

LONGEST = 5
WIDE = {"beam_size": 81 * 4, "max_length": LONGEST, "max_length_ratio": None}  # as wide as the space of three words


def contains(tokens, phrase):
    return any(tuple(tokens[i : i + len(phrase)]) == tuple(phrase) for i in range(len(tokens)))


def repeats(tokens, n):
    ngrams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(ngrams) > len(set(ngrams))


def every_translation(translator, kind, options, words=(UNK, 4, 5)):
    """(score, tokens) of all complete translations, best first."""
    found = []
    for length in range(1, LONGEST + 1):
        for tokens in product(words, repeat=length - 1):
            total = sum(translator.log_probabilities(kind, [*tokens, EOS]))
            found.append((total / options.penalty(length), list(tokens)))
    return sorted(found, reverse=True)


RULES = {
    "prefix": (LineRules([4, 5]), SearchRules(), lambda tokens: tokens[:2] == [4, 5]),
    "forbidden words": (LineRules(), SearchRules(((4,), (UNK,))), lambda tokens: not {4, UNK} & set(tokens)),
    "forbidden phrases": (
        LineRules(),
        SearchRules(((4, 4), (5, 4, 5), (UNK, UNK, UNK), (UNK, 5))),
        lambda tokens: not any(contains(tokens, each) for each in ((4, 4), (5, 4, 5), (0, 0, 0), (0, 5))),
    ),
    "no word twice": (LineRules(), SearchRules((), 1), lambda tokens: not repeats(tokens, 1)),
    "no bigram twice": (LineRules(), SearchRules((), 2), lambda tokens: not repeats(tokens, 2)),
    "a word": (LineRules([], [[5]]), SearchRules(), lambda tokens: 5 in tokens),
    "a word twice": (LineRules([], [[5], [5]]), SearchRules(), lambda tokens: tokens.count(5) >= 2),
    "a phrase and a word": (
        LineRules([], [[4, 5], [UNK]]),
        SearchRules(),
        lambda tokens: contains(tokens, (4, 5)) and UNK in tokens,
    ),
    "phrases that begin alike": (
        LineRules([], [[4, 5], [4, UNK]]),
        SearchRules(),
        lambda tokens: contains(tokens, (4, 5)) and contains(tokens, (4, UNK)),
    ),
    "a phrase in two spellings": (
        LineRules([], [[4, 5], [UNK]], [[5, 4, 4], [UNK]]),
        SearchRules(),
        lambda tokens: (contains(tokens, (4, 5)) or contains(tokens, (5, 4, 4))) and UNK in tokens,
    ),
    "a word that may be another, twice": (
        LineRules([], [[4]] * 2, [[5]] * 2),
        SearchRules(),
        lambda tokens: tokens.count(4) + tokens.count(5) >= 2,
    ),
    "a phrase within a prefix": (
        LineRules([5, 4], [[4, UNK]]),
        SearchRules(((5, 5),)),
        lambda tokens: tokens[:2] == [5, 4] and contains(tokens, (4, UNK)) and not contains(tokens, (5, 5)),
    ),
    "where words begin": (
        LineRules([], [[4]]),
        SearchRules(begins_word=torch.tensor([True] * 5 + [False])),  # 5 continues a word
        lambda tokens: any(a == 4 and b != 5 for a, b in pairwise([*tokens, EOS])),
    ),
    "all": (
        LineRules([5, 5]),
        SearchRules(((UNK,), (5, 4, 5)), 2),
        lambda tokens: (
            tokens[:2] == [5, 5] and not repeats(tokens, 2) and not contains(tokens, (5, 4, 5)) and 0 not in tokens
        ),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_beam_as_wide_as_the_space_finds_the_best_translation_that_keeps_the_rules(rule):
    line, of_search, holds = RULES[rule]
    options = SearchOptions(**WIDE, n_best=3)
    for seed in range(4):
        translator = random_table(seed, positions=3, vocabulary=6)
        rules = Rules([line, LineRules(), line], of_search)
        free = Rules([LineRules()] * 3, of_search)  # the second line has no prefix
        found = beam_search(translator, pad([[4, EOS], [3, EOS], [2, 5, 5, EOS]]), options, rules=rules)
        (_, second, _) = beam_search(translator, pad([[4, EOS], [3, EOS], [2, 5, 5, EOS]]), options, rules=free)
        assert [each.tokens for each in found[1]] == [each.tokens for each in second]
        for kind, hypotheses in zip((4, 2), found[::2], strict=True):
            expected = [each for each in every_translation(translator, kind, options) if holds(each[1])][:3]
            assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("method", [greedy_search, beam_search, sample])
def test_every_search_keeps_the_rules_and_reports_the_models_own_probabilities(method):
    options = SearchOptions(
        beam_size=1 if method is greedy_search else 4, n_best=1 if method is greedy_search else 3, max_length=12, seed=3
    )
    forbidden = ((7,), (5, 6), (8, 9, 8))
    lines = [LineRules([4] * (number % 3)) for number in range(len(SOURCES))]
    for seed in range(5):
        translator, rules = GruModel(seed), Rules(lines, SearchRules(forbidden, 2))
        for line, source, best in zip(
            lines, SOURCES, method(translator, pad(SOURCES), options, with_weights=True, rules=rules), strict=True
        ):
            assert best
            for each in best:
                assert each.tokens[: len(line.prefix)] == line.prefix
                rest = each.tokens[max(len(line.prefix) - 1, 0) :]
                assert not any(contains(each.tokens, phrase) for phrase in forbidden)
                assert not repeats(rest, 2)
                predicted = [*each.tokens, EOS][: len(each.weights)]
                with torch.inference_mode():
                    memory = translator.encode(pad([source]))
                    inputs = torch.tensor([[translator.start_token, *predicted[:-1]]])
                    decoded = translator.decode(inputs, memory)
                    logits = translator.head(*translator.reads(decoded, memory, torch.arange(inputs.numel())))
                own = logits.log_softmax(-1)[range(len(predicted)), predicted].sum()
                assert each.log_probability == pytest.approx(float(own), rel=1e-5)


@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_a_narrow_beam_meets_every_phrase_that_fits(beam_size):
    draw = random.Random(beam_size)
    for seed in range(6):
        translator = GruModel(seed)
        phrases = [
            [[draw.randrange(4, 11) for _ in range(draw.randint(1, 3))] for _ in range(each)] for each in range(6)
        ]
        lines = [LineRules([4] * (number % 2), each) for number, each in enumerate(phrases)]
        options = SearchOptions(beam_size=beam_size, n_best=2, max_length=20, max_length_margin=0, no_repeat_ngram=2)
        rules = CorpusRules(lines, SearchRules((), 2))
        found = search(translator, SOURCES, options, rules=rules)
        assert [[h.tokens for h in best] for best in found] == [
            [h.tokens for h in best]
            for best in search(translator, SOURCES, options.model_copy(update={"batch_size": 1}), rules=rules)
        ]
        for each, best in zip(phrases, found, strict=True):
            assert best
            for hypothesis in best:
                assert all(contains(hypothesis.tokens, phrase) for phrase in each)
        # the tight limit leaves room for the phrases
        tight = search(translator, SOURCES, options.model_copy(update={"max_length": 1}), rules=rules)
        for line, best in zip(lines, tight, strict=True):
            assert all(contains(best[0].tokens, phrase) for phrase in line.phrases)


def test_phrases_may_overlap_and_restart():
    phrases = [[4, 5], [5, UNK], [4, 4, 5, 4]]
    required = Required([[[phrase] for phrase in phrases]], None, "cpu")
    met = required.start()
    missing = []
    for token in [4, 4, 4, 5, UNK, 4, 4, 5, 4]:
        met = required.advance(met, torch.tensor([token]))
        missing.append(int(required.missing(met)))
    # 4 4 4 5: `4 5` is met, `5` is begun, and three tokens of the last phrase, of which the next one fails
    assert missing == [7, 6, 6, 3, 4, 3, 2, 1, 0]


def test_places_of_the_beam_are_allocated_to_banks():
    totals = torch.tensor([[9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, -torch.inf]])
    banks = torch.tensor([[0, 0, 0, 1, 0, 1, 2, 2]])
    # C = 2: two places each and none left; bank 2 has one candidate, so its second place goes to bank 1, which has two
    # candidates for three places, so bank 0 has three.
    (chosen,) = _allocated(totals, banks, torch.tensor([2]), 6).tolist()
    assert chosen == [0, 1, 2, 3, 5, 6]
    (chosen,) = _allocated(totals, banks, torch.tensor([2]), 4).tolist()  # 1, 1 and 2 places
    assert chosen == [0, 3, 5, 6]
    (chosen,) = _allocated(totals, banks * 0, torch.tensor([0]), 4).tolist()  # without phrases, the best
    assert chosen == [0, 1, 2, 3]


def test_rules_do_not_depend_on_the_batch_and_without_any_nothing_changes():
    translator = GruModel(2)
    for options in (SearchOptions(beam_size=3), SearchOptions(beam_size=1), SearchOptions(seed=5)):
        lines = [LineRules([4] * (number % 4)) for number in range(len(SOURCES))]
        rules = CorpusRules(lines, SearchRules(((5,), (4, 4, 6)), 3))
        found = [
            search(translator, SOURCES, options.model_copy(update={"batch_size": size}), rules=rules)
            for size in (1, 2, 9)
        ]
        for other in found[1:]:
            assert [[each.tokens for each in best] for best in other] == [[h.tokens for h in best] for best in found[0]]
        idle = CorpusRules([LineRules()] * len(SOURCES))
        for with_rules, without in zip(
            search(translator, SOURCES, options, rules=idle), search(translator, SOURCES, options), strict=True
        ):
            assert [each.tokens for each in with_rules] == [each.tokens for each in without]


def test_a_shortlist_contains_the_tokens_of_a_prefix_and_may_lack_those_of_a_forbidden_phrase():
    translator = GruModel(1)
    shortlist = Shortlist(torch.full((11, 1), 6), torch.tensor([7]))
    rules = CorpusRules([LineRules([9, 5])] * len(SOURCES), SearchRules(((8, 6), (6, 7), (7,))))
    for best in search(translator, SOURCES, SearchOptions(max_length=9), shortlist=shortlist, rules=rules):
        assert best[0].tokens[:2] == [9, 5]
        assert set(best[0].tokens) <= {UNK, 5, 6, 9}


def test_a_hypothesis_that_may_not_continue_ends():
    options = SearchOptions(beam_size=1, min_length=8)
    rules = Rules([LineRules()], SearchRules(((UNK,), (4,)), 1))
    ((found,),) = greedy_search(random_table(0, vocabulary=6), pad([[4, EOS]]), options, rules=rules)
    assert found.tokens == [5]


def test_the_limit_leaves_room_for_a_prefix():
    rules = Rules([LineRules([4] * 9), LineRules()], SearchRules())
    options = SearchOptions(max_length=4)
    first, second = beam_search(random_table(0), pad([[4, EOS], [4, EOS]]), options, rules=rules)
    assert first[0].tokens[:9] == [4] * 9
    assert len(second[0].tokens) <= 4


def test_a_phrase_of_a_script_without_spaces_is_met_at_the_start_and_inside_of_a_sentence():
    text = TextConfig(tokenizer="bpe", vocabulary_size=30)
    codec = train_codec(["一只猫追逐狗", "猫看见一只狗", "狗看见猫", "那只猫"] * 9, 36, text, "zh")
    assert codec.within("猫") != codec.encode("猫")[:-1]
    for sentence, inside in (("猫看见狗", 0), ("狗看见猫", 1), ("狗追逐猫看", 1)):
        start, *rest = codec.encode("猫")[:-1] if not inside else codec.encode(sentence.split("猫")[0])[:-1]
        tokens = [start, *rest, *(codec.within("猫") if inside else codec.within("看见狗"))]
        (found,) = met(codec, ["猫"], tokens)
        assert codec.decode(tokens[slice(*found.steps)]) == "猫"
    assert met(codec, ["猫"], codec.encode("狗看见狗")[:-1]) == (Constraint("猫", None),)
    lines, options = [SourceLine("x", constraints=("猫", "狗看见"))] * 6, SearchOptions(beam_size=4, max_length=20)
    starts = set()
    for seed in range(4):
        sources = [[4 + number, 9, 2 + 5 * number, 3] for number in range(6)]
        model = GruModel(seed, vocabulary=codec.size)
        for (best,) in search(model, sources, options, rules=rules_of(codec, lines, options)):
            assert all(each.steps for each in met(codec, ["猫", "狗看见"], best.tokens))
            starts.add(codec.decode(best.tokens).index("猫") > 0)
    assert starts == {True, False}
