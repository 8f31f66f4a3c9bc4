"""Attention step by step: the numbers equal those of attention itself and of NumPy; the text fits and is correct."""

import re

import numpy as np
import pytest
import torch
from rich.cells import cell_len

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
    scorer_classes,
)
from seq2seq_attn.errors import UserError
from seq2seq_attn.walkthrough import walk

QUERIES, STATES, QUERY, KEY, VALUE = 3, 4, 5, 7, 2


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def rows(count, size):
    return torch.randn(count, size, dtype=torch.double)


def test_the_steps_equal_numpy():
    additive = Additive(QUERY, KEY, hidden_size=6).double()
    queries, keys, values = rows(QUERIES, QUERY), rows(STATES, KEY), rows(STATES, VALUE)
    walked = walk(Attention(additive, Softmax()), queries, keys, values)

    w = {name: value.numpy() for name, value in additive.state_dict().items()}
    for query, step in zip(queries.numpy(), walked.steps, strict=True):
        projected = keys.numpy() @ w["key_layer.weight"].T + w["key_layer.bias"]
        scores = np.tanh(w["query_layer.weight"] @ query + projected) @ w["v"]
        exponentials = np.exp(scores - scores.max())
        weights = exponentials / exponentials.sum()
        terms = weights[:, None] * values.numpy()
        for ours, theirs in [
            (walked.prepared, projected),
            (step.scores, scores),
            (step.exponentials, exponentials),
            (step.weights, weights),
            (step.terms, terms),
            (step.context, terms.sum(axis=0)),
        ]:
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-12)


def test_the_exponentials_include_the_temperature():
    walked = walk(Attention(Dot(KEY, KEY), Softmax(temperature=0.25)), rows(1, KEY), rows(STATES, KEY))
    (step,) = walked.steps
    torch.testing.assert_close(step.exponentials, torch.exp((step.scores - step.scores.max()) / 0.25))
    torch.testing.assert_close(step.exponentials / step.exponentials.sum(), step.weights)


def test_a_scorer_with_history_sees_the_previous_queries(forget_parts):
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
    walked = walk(attention, queries, keys)
    contexts, weights = attention(queries[None], attention.prepare(keys[None]))
    torch.testing.assert_close(torch.stack([step.weights for step in walked.steps]), weights[0])
    torch.testing.assert_close(torch.stack([step.context for step in walked.steps]), contexts[0])
    weights_before = walked.steps[0].weights + walked.steps[1].weights
    torch.testing.assert_close(walked.steps[2].scores, keys @ queries[2] - weights_before)


def test_a_normalizer_without_exponentials_shows_none_and_zero_weights_as_zero():
    keys = torch.tensor([[2.0], [-1.0], [1.5]])
    walked = walk(Attention(Dot(1, 1), Sparsemax()), torch.tensor([[1.0]]), keys)
    assert walked.steps[0].exponentials is None
    text = str(walked)
    assert "exp" not in text
    assert re.findall(r"^   \d  (\S+) +· \[", text, flags=re.MULTILINE) == ["0.7500", "0", "0.2500"]


def test_products_are_shown_only_if_the_score_is_their_sum():
    keys = torch.tensor([[3.0, 4.0], [1.0, -2.0]], dtype=torch.double)
    query = torch.tensor([[2.0, 5.0]], dtype=torch.double)
    assert "2·3 + 5· 4 =  26" in str(walk(Attention(Dot(2, 2)), query, keys))
    assert "2·2.1213 + 5· 2.8284 =  18.3848" in str(walk(Attention(ScaledDot(2, 2)), query, keys))
    assert " =  " not in str(walk(Attention(Additive(2, 2).double()), query, keys)).partition("2. ")[0]


def test_small_parameters_are_printed_and_large_ones_only_named():
    general = General(3, 2)
    with torch.no_grad():
        general.key_layer.weight.copy_(torch.tensor([[0.25, -1.5], [2, 0.75], [0, 1]]))
    text = str(walk(Attention(general), torch.ones(1, 3), torch.ones(4, 2)))
    assert "key_layer.weight (3 x 2)\n     0.25  -1.50\n     2.00   0.75\n     0.00   1.00" in text
    large = str(walk(Attention(General(70, 2)), torch.ones(1, 70), torch.ones(4, 2)))
    assert "key_layer.weight (70 x 2): too many numbers to show" in large


def test_values_are_shown_separately_only_if_they_differ_from_the_keys():
    keys = rows(STATES, KEY)
    alike = str(walk(Attention(Dot(KEY, KEY)), rows(1, KEY), keys))
    apart = str(walk(Attention(Dot(KEY, KEY)), rows(1, KEY), keys, rows(STATES, VALUE)))
    assert "\nValues v" not in alike
    assert "\nValues v" in apart


@pytest.mark.parametrize("words", [None, ["conscientiousness"] * 12, ["汤姆追逐杰瑞"] * 12])
@pytest.mark.parametrize("scale", [1e-6, 1, 300, 1e5, 1e9])
@pytest.mark.parametrize("size", [1, 3, 9])
def test_every_line_fits_a_terminal_of_80_columns(size, scale, words):
    for made in (Dot(size, size), Additive(size, size).double()):
        text = str(walk(Attention(made), scale * rows(2, size), scale * rows(12, size), words=words))
        assert max(map(cell_len, text.splitlines())) <= 80


def test_every_scorer_of_the_package_can_be_walked_through():
    ours = {name: cls for name, cls in scorer_classes().items() if cls.__module__.startswith("seq2seq_attn.")}
    for name, cls in ours.items():
        attention = Attention(cls(6, 6)).double().eval()
        queries, keys = rows(QUERIES, 6), rows(STATES, 6)
        walked = walk(attention, queries, keys)
        contexts, _ = attention(queries[None], attention.prepare(keys[None]))
        torch.testing.assert_close(torch.stack([each.context for each in walked.steps]), contexts[0], msg=name)
        assert max(map(cell_len, str(walked).splitlines())) <= 80, name


def test_nothing_of_the_walk_hangs_on_the_gradient():
    walked = walk(Attention(Additive(QUERY, KEY).double()), rows(1, QUERY), rows(STATES, KEY))
    assert not walked.steps[0].context.requires_grad


def test_numbers_that_overflow_are_refused():
    with pytest.raises(UserError, match="query 2: its scores or its context overflow"):
        walk("dot", [[1], [1e200]], [[1e200], [1]])


def test_a_scorer_without_an_equation_is_told_by_its_name(forget_parts):
    class Nameless(Scorer):
        def prepare(self, keys):
            return keys

        def forward(self, query, prepared):
            return query.sum(-1, keepdim=True) + prepared.sum(-1)[:, None]

    text = str(walk(Attention(Nameless(2, 3)), torch.ones(1, 2), torch.ones(4, 3)))
    assert "1. Score: how well does each key match the query?\n   Nameless\n" in text
