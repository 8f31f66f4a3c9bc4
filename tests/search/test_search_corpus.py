from __future__ import annotations

import random
import threading

import pytest
import torch
from hand_made_models import EOS, GruModel, TableModel, random_table
from torch import nn

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.ops import host
from seq2seq_attn.search import (
    SearchOptions,
    beam_search,
    force,
    force_corpus,
    greedy_search,
    search,
)


@pytest.fixture(autouse=True)
def set_threads():
    """Sets torch's number of threads for a test; by default 1, so that batches are searched in order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def corpus(count: int, longest: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[*draw.choices(range(4, 11), k=draw.randrange(longest)), EOS] for _ in range(count)]


@pytest.mark.parametrize(("beam_size", "method"), [(1, greedy_search), (3, beam_search)])
def test_every_sentence_gets_its_own_translation_in_the_order_of_the_corpus(beam_size, method):
    translator, sources = GruModel(1), corpus(23, longest=9, seed=4)
    options = SearchOptions(beam_size=beam_size, n_best=min(2, beam_size), batch_size=5)
    found = search(translator, sources, options, with_weights=True)
    for source, hypotheses in zip(sources, found, strict=True):
        (alone,) = method(translator, pad([source]), options, with_weights=True)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        for ours, theirs in zip(hypotheses, alone, strict=True):
            torch.testing.assert_close(ours.weights, theirs.weights)


def test_batches_respect_both_limits_and_contain_little_padding():
    shapes = []

    class Watched(TableModel):
        def encode(self, source):
            shapes.append(source.tokens.shape)
            return super().encode(source._replace(tokens=source.tokens % 5))

    sources = corpus(60, longest=13, seed=1)
    search(Watched(random_table(0).table), sources, SearchOptions(beam_size=1, batch_size=7, batch_tokens=40))
    assert all(count <= 7 and count * length <= 40 for count, length in shapes)
    assert [length for _, length in shapes] == sorted((length for _, length in shapes), reverse=True)
    real = sum(map(len, sources))
    assert sum(count * length for count, length in shapes) < 1.1 * real


def test_a_sentence_longer_than_the_limit_is_a_batch_by_itself():
    sources = [[4] * 30 + [EOS], [4, EOS], [3]]
    found = search(random_table(0), sources, SearchOptions(batch_tokens=8))
    assert len(found) == 3


def test_an_empty_corpus_has_no_translations():
    assert search(random_table(0), [], SearchOptions()) == []


def test_progress_is_called_for_every_sentence():
    counts: list[int] = []
    search(random_table(0), [[4, EOS]] * 7, SearchOptions(batch_size=3), progress=counts.append)
    assert counts == [3, 3, 1]


def test_search_runs_in_evaluation_mode_and_restores_the_mode_of_every_module():
    translator, sources = GruModel(3), corpus(6, longest=5, seed=2)
    expected = search(translator, sources, SearchOptions(beam_size=2))
    translator.train()
    translator.encoder.eval()
    before = [module.training for module in translator.modules()]
    assert search(translator, sources, SearchOptions(beam_size=2)) == expected
    assert [module.training for module in translator.modules()] == before


def test_the_mode_is_restored_after_an_error():
    class Failing(GruModel):
        def encode(self, source):
            raise RuntimeError("out of memory")

    translator = Failing(0).train()
    with pytest.raises(RuntimeError, match="out of memory"):
        search(translator, [[4, EOS]], SearchOptions())
    assert translator.training


def test_batches_are_made_on_the_device_of_the_parameters():
    class Elsewhere(TableModel):
        def __init__(self):
            super().__init__(random_table(0).table)
            self.parameter = nn.Parameter(torch.zeros(1, device="meta"))

        def encode(self, source):
            raise RuntimeError(f"tokens on {source.tokens.device}, lengths on {source.lengths.device}")

    with pytest.raises(RuntimeError, match="tokens on meta, lengths on cpu"):
        search(Elsewhere(), [[4, EOS]], SearchOptions())


def test_forced_decoding_of_a_corpus_keeps_its_order():
    translator = GruModel(2)
    sources, targets = corpus(19, longest=8, seed=5), corpus(19, longest=11, seed=6)
    counts: list[int] = []
    found = force_corpus(force, translator.train(), sources, targets, batch_size=4, progress=counts.append)
    assert counts == [4, 4, 4, 4, 3]
    translator.eval()
    for source, target, forced in zip(sources, targets, found, strict=True):
        (alone,) = force(translator, pad([source]), pad([target]))
        assert forced.total == pytest.approx(alone.total, rel=1e-9)
        torch.testing.assert_close(forced.weights, alone.weights)


def test_precision_bf16_enables_autocast_and_fp32_leaves_it_to_the_caller():
    seen = []

    class Asked(GruModel):
        def step(self, tokens, state, memory):
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().step(tokens, state, memory)

    for precision in ("bf16", "fp32"):
        search(Asked(1), corpus(4, 5, 2), SearchOptions(precision=precision, max_length=1))
    with torch.autocast("cpu", torch.bfloat16):
        search(Asked(1), corpus(4, 5, 2), SearchOptions(max_length=1))
    assert seen == [True, False, True]


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("is_autocast", [False, True])
def test_batches_in_several_threads_have_the_same_translations_as_in_one(is_autocast, monkeypatch, set_threads):
    set_threads(2)
    threads, precisions, counts = set(), set(), []

    class Watched(GruModel):
        def encode(self, source):
            threads.add((threading.get_ident(), torch.get_num_threads()))
            memory = super().encode(source)
            precisions.add((torch.ones(1, 1) @ torch.ones(1, 1)).dtype)
            return memory

    translator, sources = Watched(1), corpus(9, longest=5, seed=4)
    options = SearchOptions(beam_size=2, batch_size=2)
    with torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
        found = search(translator, sources, options, progress=counts.append)
        assert threading.get_ident() not in {thread for thread, _ in threads}
        assert {alone for _, alone in threads} == {1}
        assert torch.get_num_threads() == 2
        threads.clear()
        monkeypatch.setattr(host, "MIN_BATCHES_PER_THREAD", 1000)
        expected = search(translator, sources, options)
    assert threads == {(threading.get_ident(), 2)}
    assert precisions == {torch.bfloat16 if is_autocast else torch.float32}
    assert counts == [2] * 4 + [1]
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]


def test_an_error_in_a_thread_is_raised_to_the_caller(set_threads):
    set_threads(2)

    class Broken(TableModel):
        def encode(self, source):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        search(Broken(random_table(0).table), [[4, EOS]] * 9, SearchOptions(batch_size=1))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam_size=1, min_length=9),
        SearchOptions(beam_size=3, min_length=9),
        SearchOptions(sampling=True, min_length=9),
    ],
    ids=["greedy", "beam", "samples"],
)
def test_whoever_waits_for_a_search_may_end_it_before_any_step(options):
    translator, source, asked = GruModel(1), [[4, 5, EOS]], []

    def leave_at_the_fifth_call():
        asked.append(len(asked))
        if len(asked) == 5:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        search(translator, source, options, at_step=leave_at_the_fifth_call)
    assert len(asked) == 5
    asked.clear()
    three = options.model_copy(update={"max_length": 3, "min_length": 3})
    search(translator, source, three, at_step=lambda: asked.append(0))
    assert len(asked) == 4  # before it encodes, and before each of three steps
