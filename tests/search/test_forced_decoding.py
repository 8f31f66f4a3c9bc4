from __future__ import annotations

from math import log

import pytest
import torch
from hand_made_models import (
    EOS,
    SOURCES,
    GruModel,
    TableModel,
    expected_weights,
    random_table,
)

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.search import force

TARGETS = [[4, EOS], [5, 6, 4, 0, EOS], [EOS], [7, 7, EOS], [8, EOS], [4, 5, 6, 7, 8, EOS]]


def test_log_probabilities_equal_those_of_the_table():
    table = torch.zeros(1, 1, 6, 6, dtype=torch.double)
    table[0, 0] = torch.tensor([0.1, 0.05, 0.05, 0.2, 0.35, 0.25]).log()
    (forced,) = force(TableModel(table), pad([[0, EOS]]), pad([[5, 4, EOS]]))
    expected = torch.tensor([log(0.25), log(0.35), log(0.2)])
    torch.testing.assert_close(forced.log_probabilities, expected)
    assert forced.total == pytest.approx(log(0.25 * 0.35 * 0.2))


def test_weights_have_the_size_of_their_pair_and_belong_to_its_prefixes():
    sources = [[4, 4, 4, EOS], [1, EOS], [3], [0, 5, EOS], [2, EOS], [4, EOS]]
    for source, target, forced in zip(
        sources, TARGETS, force(random_table(1), pad(sources), pad(TARGETS)), strict=True
    ):
        torch.testing.assert_close(forced.weights, expected_weights(source[0], target[:-1], len(target), len(source)))
        assert forced.log_probabilities.shape == (len(target),)


def test_padding_never_changes_a_forced_score():
    translator = GruModel(5)
    for source, target, forced in zip(SOURCES, TARGETS, force(translator, pad(SOURCES), pad(TARGETS)), strict=True):
        (alone,) = force(translator, pad([source]), pad([target]))
        assert forced.total == pytest.approx(alone.total, rel=1e-12)
        torch.testing.assert_close(forced.log_probabilities, alone.log_probabilities)
        torch.testing.assert_close(forced.weights, alone.weights)


def test_only_tokens_are_projected_and_all_at_once():
    translator = GruModel(5)
    force(translator, pad(SOURCES), pad(TARGETS))
    assert translator.projected == [sum(map(len, TARGETS))]


def test_bf16_logits_are_scored_in_fp32():
    translator = random_table(3)
    translator.table = translator.table.bfloat16()
    (forced,) = force(translator, pad([[4, EOS]]), pad([[4, 5, 6, 7, 8, EOS]]))
    exact = TableModel(translator.table.double()).log_probabilities(4, [4, 5, 6, 7, 8, EOS])
    assert forced.log_probabilities.dtype == torch.float32
    assert forced.total == pytest.approx(sum(exact), abs=1e-5)
