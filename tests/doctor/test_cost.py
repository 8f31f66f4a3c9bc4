"""The counted cost of a scorer equals the cost worked out by hand."""

import pytest
import torch

from seq2seq_attn.attention import Additive, Dot, General, HistoryScorer, Location, Scorer, scorer
from seq2seq_attn.doctor import Cost, measure_cost

QUERY, KEY, HIDDEN, S = 5, 3, 4, 7


@pytest.fixture(autouse=True)
def _without_scorers_of_other_tests(monkeypatch):
    monkeypatch.setattr(scorer._scorers, "_classes", {})


def numbers(*counts):
    return 4 * sum(counts)  # bytes in float32


def test_dot_costs_one_product_of_the_query_with_all_keys():
    cost = measure_cost(Dot(QUERY, QUERY), positions=S)
    assert cost.parameters == 0
    assert cost.prepare == Cost(0, 0)
    assert cost.step == Cost(2 * QUERY * S, numbers(QUERY, QUERY * S, S))


def test_general_applies_its_matrix_once_per_sentence():
    cost = measure_cost(General(QUERY, KEY), positions=S)
    assert cost.parameters == QUERY * KEY
    assert cost.prepare == Cost(2 * S * KEY * QUERY, numbers(S * KEY, KEY * QUERY, S * QUERY))
    assert cost.step == measure_cost(Dot(QUERY, QUERY), positions=S).step


def test_additive_costs_an_addition_and_a_tanh_at_every_position():
    cost = measure_cost(Additive(QUERY, KEY, hidden_size=HIDDEN), positions=S)
    assert cost.parameters == HIDDEN * (QUERY + KEY + 1 + 1)
    layer = S * HIDDEN
    assert cost.prepare == Cost(2 * S * KEY * HIDDEN, numbers(S * KEY, KEY * HIDDEN, HIDDEN, layer))
    steps = {
        "W q": (2 * QUERY * HIDDEN, numbers(QUERY, QUERY * HIDDEN, HIDDEN)),
        "W q + U k": (layer, numbers(HIDDEN, layer, layer)),
        "tanh": (layer, numbers(layer, layer)),
        "v · tanh": (2 * layer, numbers(layer, HIDDEN, S)),
    }
    flops, moved = (sum(figures) for figures in zip(*steps.values(), strict=True))
    assert cost.step == Cost(flops, moved)


def test_empty_tensors_cost_nothing():
    assert measure_cost(Location(QUERY, KEY), positions=S).prepare == Cost(0, 0)


def test_sums_count_their_input_copies_only_bytes_and_expanded_tensors_once():
    class Operations(Scorer):
        def prepare(self, keys):
            return torch.cat((keys, keys), dim=-1)[:, :, : self.query_size]

        def forward(self, query, prepared):
            return (query.expand(-1, prepared.shape[1], -1) * prepared).sum(dim=-1)[:, None]

    cost = measure_cost(Operations(QUERY, KEY), positions=S)
    assert cost.prepare == Cost(0, numbers(2 * S * KEY, 2 * S * KEY))
    product = QUERY * S
    assert cost.step == Cost(product + product, numbers(QUERY, product, product) + numbers(product, S))


def test_a_step_includes_the_next_history_but_not_the_first():
    class Coverage(HistoryScorer):
        def prepare(self, keys):
            return keys

        def start(self, prepared):
            return prepared.new_zeros((1, 1, prepared.shape[1]))

        def forward(self, query, prepared, history=None):
            return torch.bmm(query, prepared.transpose(1, 2)) - history

        def advance(self, history, query, prepared, weights):
            return history + weights

    dot = measure_cost(Dot(QUERY, QUERY), positions=S).step
    step = measure_cost(Coverage(QUERY, QUERY), positions=S).step
    assert step == Cost(dot.flops + 2 * S, dot.bytes + 2 * numbers(S, S, S))


def test_half_precision_moves_half_the_bytes():
    made = General(QUERY, KEY)
    single, half = measure_cost(made, positions=S), measure_cost(made.half(), positions=S)
    assert half.step == Cost(single.step.flops, single.step.bytes // 2)
