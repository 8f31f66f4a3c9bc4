"""Attention step by step: the numbers are those of attention itself, and of NumPy; the text fits and is true."""

import doctest
import re

import numpy as np
import pytest
import torch

import seq2seq_attn.walk
from seq2seq_attn.attention import (
    Additive,
    Attention,
    Dot,
    General,
    HistoryScorer,
    ScaledDot,
    Scorer,
    Softmax,
    Sparsemax,
    scorer,
    scorer_classes,
)
from seq2seq_attn.walk import as_text, walk
from seq2seq_attn.walk.text import cells

QUERIES, STATES, QUERY, KEY, VALUE = 3, 4, 5, 7, 2


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


@pytest.fixture
def own_scorers(monkeypatch):
    """Scorers that a test defines are forgotten after it."""
    monkeypatch.setattr(scorer._scorers, "_classes", scorer_classes())


def rows(count, size):
    return torch.randn(count, size, dtype=torch.double)


def test_the_worked_example_of_the_package_runs():
    failures, examples = doctest.testmod(seq2seq_attn.walk)
    assert failures == 0
    assert examples > 0


def test_the_steps_are_those_of_numpy():
    additive = Additive(QUERY, KEY, hidden_size=6).double()
    queries, keys, values = rows(QUERIES, QUERY), rows(STATES, KEY), rows(STATES, VALUE)
    steps = walk(Attention(additive, Softmax()), queries, keys, values)

    w = {name: value.numpy() for name, value in additive.state_dict().items()}
    for query, reading in zip(queries.numpy(), steps.readings, strict=True):
        projected = keys.numpy() @ w["key_layer.weight"].T + w["key_layer.bias"]
        scores = np.tanh(w["query_layer.weight"] @ query + projected) @ w["v"]
        exponentials = np.exp(scores - scores.max())
        weights = exponentials / exponentials.sum()
        terms = weights[:, None] * values.numpy()
        for ours, theirs in [
            (steps.prepared, projected),
            (reading.scores, scores),
            (reading.exponentials, exponentials),
            (reading.weights, weights),
            (reading.terms, terms),
            (reading.context, terms.sum(axis=0)),
        ]:
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-12)


def test_a_temperature_is_seen_in_the_exponentials():
    steps = walk(Attention(Dot(KEY, KEY), Softmax(temperature=0.25)), rows(1, KEY), rows(STATES, KEY))
    (reading,) = steps.readings
    torch.testing.assert_close(reading.exponentials, torch.exp((reading.scores - reading.scores.max()) / 0.25))
    torch.testing.assert_close(reading.exponentials / reading.exponentials.sum(), reading.weights)


def test_several_queries_are_steps_that_remember_those_before(own_scorers):
    class Tiring(HistoryScorer):
        """q · k, less what was read of k before."""

        needs_equal_sizes = True

        def prepare(self, keys):
            return keys

        def start(self, prepared):
            return prepared.new_zeros(len(prepared), 1, prepared.shape[1])

        def forward(self, query, prepared, history=None):
            return query @ prepared.transpose(1, 2) - (self.start(prepared) if history is None else history)

        def advance(self, history, query, prepared, weights):
            return history + weights

    attention = Attention(Tiring(KEY, KEY))
    queries, keys = rows(QUERIES, KEY), rows(STATES, KEY)
    steps = walk(attention, queries, keys)
    contexts, weights = attention(queries[None], attention.prepare(keys[None]))
    torch.testing.assert_close(torch.stack([reading.weights for reading in steps.readings]), weights[0])
    torch.testing.assert_close(torch.stack([reading.context for reading in steps.readings]), contexts[0])
    read_before = steps.readings[0].weights + steps.readings[1].weights
    torch.testing.assert_close(steps.readings[2].scores, keys @ queries[2] - read_before)


def test_what_is_no_softmax_shows_no_exponentials_and_says_exactly_nothing_of_what_it_leaves_out():
    keys = torch.tensor([[2.0], [-1.0], [1.5]])
    steps = walk(Attention(Dot(1, 1), Sparsemax()), torch.tensor([[1.0]]), keys)
    assert steps.readings[0].exponentials is None
    text = as_text(steps)
    assert "exp" not in text
    assert re.findall(r"^   \d  (\S+) +· \[", text, flags=re.MULTILINE) == ["0.7500", "0", "0.2500"]


def test_products_are_shown_where_the_score_is_their_sum_and_only_there():
    keys = torch.tensor([[3.0, 4.0], [1.0, -2.0]], dtype=torch.double)
    query = torch.tensor([[2.0, 5.0]], dtype=torch.double)
    assert "2·3 + 5· 4 =  26" in as_text(walk(Attention(Dot(2, 2)), query, keys))
    assert "2·2.1213 + 5· 2.8284 =  18.3848" in as_text(walk(Attention(ScaledDot(2, 2)), query, keys))
    assert " =  " not in as_text(walk(Attention(Additive(2, 2).double()), query, keys)).partition("2. ")[0]


def test_small_parameters_are_printed_and_large_ones_are_named():
    general = General(3, 2)
    with torch.no_grad():
        general.key_layer.weight.copy_(torch.tensor([[0.25, -1.5], [2, 0.75], [0, 1]]))
    text = as_text(walk(Attention(general), torch.ones(1, 3), torch.ones(4, 2)))
    assert "key_layer.weight (3 x 2)\n     0.25  -1.50\n     2.00   0.75\n     0.00   1.00" in text
    large = as_text(walk(Attention(General(70, 2)), torch.ones(1, 70), torch.ones(4, 2)))
    assert "key_layer.weight (70 x 2): too many numbers to show" in large


def test_keys_and_values_are_told_apart_where_they_differ():
    keys = rows(STATES, KEY)
    alike = as_text(walk(Attention(Dot(KEY, KEY)), rows(1, KEY), keys))
    apart = as_text(walk(Attention(Dot(KEY, KEY)), rows(1, KEY), keys, rows(STATES, VALUE)))
    assert "the values v" not in alike
    assert "the values v" in apart


@pytest.mark.parametrize("words", [None, ["conscientiousness"] * 12, ["汤姆追逐杰瑞"] * 12])
@pytest.mark.parametrize("scale", [1e-6, 1, 300, 1e5, 1e9])
@pytest.mark.parametrize("size", [1, 3, 9])
def test_every_line_fits_a_terminal_of_80_columns(size, scale, words):
    for made in (Dot(size, size), Additive(size, size).double()):
        text = as_text(walk(Attention(made), scale * rows(2, size), scale * rows(12, size)), words)
        assert max(map(cells, text.splitlines())) <= 80


def test_every_scorer_of_the_package_can_be_walked_through():
    ours = {name: cls for name, cls in scorer_classes().items() if cls.__module__.startswith("seq2seq_attn.")}
    for name, cls in ours.items():
        attention = Attention(cls(6, 6)).double().eval()
        queries, keys = rows(QUERIES, 6), rows(STATES, 6)
        steps = walk(attention, queries, keys)
        contexts, _ = attention(queries[None], attention.prepare(keys[None]))
        torch.testing.assert_close(torch.stack([each.context for each in steps.readings]), contexts[0], msg=name)
        assert max(map(cells, as_text(steps).splitlines())) <= 80, name


def test_nothing_of_the_walk_hangs_on_the_gradient():
    steps = walk(Attention(Additive(QUERY, KEY).double()), rows(1, QUERY), rows(STATES, KEY))
    assert not steps.readings[0].context.requires_grad


def test_numbers_that_overflow_are_refused():
    with pytest.raises(ValueError, match="query 2: its scores or its context overflow"):
        walk(Attention(Dot(1, 1)), torch.tensor([[1.0], [1e30]]), torch.tensor([[1e30], [1.0]]))


def test_a_scorer_without_an_equation_is_told_by_its_name(own_scorers):
    class Nameless(Scorer):
        def prepare(self, keys):
            return keys

        def forward(self, query, prepared):
            return query.sum(-1, keepdim=True) + prepared.sum(-1)[:, None]

    text = as_text(walk(Attention(Nameless(2, 3)), torch.ones(1, 2), torch.ones(4, 3)))
    assert "1. Score: how well does each key answer the query?\n   Nameless\n" in text
