from __future__ import annotations

import random
import threading

import pytest
import torch
from hand_made_translators import EOS, GruTranslator, TableTranslator, random_table
from torch import nn

from seq2seq_attn.models.translator import pad
from seq2seq_attn.ops import host as parallel
from seq2seq_attn.search import SearchOptions, beam_search, force, force_corpus, greedy_search, search


@pytest.fixture(autouse=True)
def set_threads():
    """As many threads as a test asks for, one unless it does: batches are searched in their order then."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def corpus(count: int, longest: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[*draw.choices(range(4, 11), k=draw.randrange(longest)), EOS] for _ in range(count)]


@pytest.mark.parametrize(("beam_size", "method"), [(1, greedy_search), (3, beam_search)])
def test_every_sentence_gets_its_own_translation_in_the_order_of_the_corpus(beam_size, method):
    translator, sources = GruTranslator(1), corpus(23, longest=9, seed=4)
    options = SearchOptions(beam_size=beam_size, n_best=min(2, beam_size), batch_size=5)
    found = search(translator, sources, options, with_weights=True)
    for source, hypotheses in zip(sources, found, strict=True):
        (alone,) = method(translator, pad([source]), options, with_weights=True)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        for ours, theirs in zip(hypotheses, alone, strict=True):
            torch.testing.assert_close(ours.weights, theirs.weights)


def test_batches_keep_to_both_budgets_and_waste_little_on_padding():
    shapes = []

    class Watched(TableTranslator):
        def encode(self, source):
            shapes.append(source.tokens.shape)
            return super().encode(source._replace(tokens=source.tokens % 5))

    sources = corpus(60, longest=13, seed=1)
    search(Watched(random_table(0).table), sources, SearchOptions(beam_size=1, batch_size=7, batch_tokens=40))
    assert all(count <= 7 and count * length <= 40 for count, length in shapes)
    assert [length for _, length in shapes] == sorted((length for _, length in shapes), reverse=True)
    real = sum(map(len, sources))
    assert sum(count * length for count, length in shapes) < 1.1 * real


def test_a_sentence_longer_than_the_budget_is_a_batch_of_its_own():
    sources = [[4] * 30 + [EOS], [4, EOS], [3]]
    found = search(random_table(0), sources, SearchOptions(batch_tokens=8))
    assert len(found) == 3


def test_an_empty_corpus_has_no_translations():
    assert search(random_table(0), [], SearchOptions()) == []


def test_progress_hears_of_every_sentence():
    heard: list[int] = []
    search(random_table(0), [[4, EOS]] * 7, SearchOptions(batch_size=3), progress=heard.append)
    assert heard == [3, 3, 1]


def test_search_runs_without_dropout_and_gives_every_part_its_mode_back():
    translator, sources = GruTranslator(3), corpus(6, longest=5, seed=2)
    quiet = search(translator, sources, SearchOptions(beam_size=2))
    translator.train()
    translator.encoder.eval()
    before = [module.training for module in translator.modules()]
    assert search(translator, sources, SearchOptions(beam_size=2)) == quiet
    assert [module.training for module in translator.modules()] == before


def test_the_mode_comes_back_after_a_failure_too():
    class Failing(GruTranslator):
        def encode(self, source):
            raise RuntimeError("out of memory")

    translator = Failing(0).train()
    with pytest.raises(RuntimeError, match="out of memory"):
        search(translator, [[4, EOS]], SearchOptions())
    assert translator.training


def test_batches_are_made_on_the_device_of_the_parameters():
    class Elsewhere(TableTranslator):
        def __init__(self):
            super().__init__(random_table(0).table)
            self.parameter = nn.Parameter(torch.zeros(1, device="meta"))

        def encode(self, source):
            raise RuntimeError(f"tokens on {source.tokens.device}, lengths on {source.lengths.device}")

    with pytest.raises(RuntimeError, match="tokens on meta, lengths on cpu"):
        search(Elsewhere(), [[4, EOS]], SearchOptions())


def test_forced_decoding_of_a_corpus_keeps_its_order():
    translator = GruTranslator(2)
    sources, targets = corpus(19, longest=8, seed=5), corpus(19, longest=11, seed=6)
    heard: list[int] = []
    found = force_corpus(translator.train(), sources, targets, batch_size=4, progress=heard.append)
    assert heard == [4, 4, 4, 4, 3]
    translator.eval()
    for source, target, forced in zip(sources, targets, found, strict=True):
        (alone,) = force(translator, pad([source]), pad([target]))
        assert forced.total == pytest.approx(alone.total, rel=1e-9)
        torch.testing.assert_close(forced.weights, alone.weights)


def test_bf16_multiplies_in_half_precision_and_fp32_as_its_caller_does():
    seen = []

    class Asked(GruTranslator):
        def step(self, tokens, state, memory):
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().step(tokens, state, memory)

    for precision in ("bf16", "fp32"):
        search(Asked(1), corpus(4, 5, 2), SearchOptions(precision=precision, max_length=1))
    with torch.autocast("cpu", torch.bfloat16):
        search(Asked(1), corpus(4, 5, 2), SearchOptions(max_length=1))
    assert seen == [True, False, True]


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("casts", [False, True])
def test_batches_shared_out_among_threads_are_translated_as_one_by_one(casts, monkeypatch, set_threads):
    set_threads(2)
    threads, precisions, heard = set(), set(), []

    class Watched(GruTranslator):
        def encode(self, source):
            threads.add((threading.get_ident(), torch.get_num_threads()))
            memory = super().encode(source)
            precisions.add((torch.ones(1, 1) @ torch.ones(1, 1)).dtype)
            return memory

    translator, sources = Watched(1), corpus(23, longest=9, seed=4)
    options = SearchOptions(beam_size=2, batch_size=3)
    with torch.autocast("cpu", torch.bfloat16, enabled=casts):
        found = search(translator, sources, options, progress=heard.append)
        assert threading.get_ident() not in {thread for thread, _ in threads}
        assert {alone for _, alone in threads} == {1}
        assert torch.get_num_threads() == 2
        threads.clear()
        monkeypatch.setattr(parallel, "MIN_BATCHES_PER_THREAD", 1000)
        expected = search(translator, sources, options)
    assert threads == {(threading.get_ident(), 2)}
    assert precisions == {torch.bfloat16 if casts else torch.float32}
    assert heard == [3] * 7 + [2]
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]


def test_what_fails_in_a_thread_fails_here(set_threads):
    set_threads(2)

    class Broken(TableTranslator):
        def encode(self, source):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        search(Broken(random_table(0).table), [[4, EOS]] * 9, SearchOptions(batch_size=1))
    assert torch.get_num_threads() == 2
