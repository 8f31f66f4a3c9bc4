"""Scorers that depend on earlier steps: each unrolled again in NumPy, from the equations of its paper."""

from functools import partial

import numpy as np
import pytest
import torch
from finite_differences import numeric_gradient

from seq2seq_attn.attention import (
    Additive,
    Attention,
    LinguisticCoverage,
    LocationAware,
    NeuralCoverage,
    Relative,
    ScaledDot,
    scorer_classes,
)

B, T, S, QUERY, KEY, HIDDEN = 2, 3, 4, 5, 7, 11
LENGTHS = [4, 2]
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def additive(w, query, key, more):
    hidden = w["query_layer.weight"] @ query + w["key_layer.weight"] @ key + w["key_layer.bias"] + more
    return w["v"] @ np.tanh(hidden)


def location_aware(w, queries, keys):
    filters = w["convolution.weight"][:, 0]
    half = filters.shape[1] // 2
    rows, before = [], np.eye(len(keys))[0]
    for query in queries:
        scores = []
        for j, key in enumerate(keys):
            features = np.zeros(len(filters))
            for m in range(-half, half + 1):
                if 0 <= j + m < len(keys):
                    features += filters[:, half + m] * before[j + m]
            scores.append(additive(w, query, key, w["location_layer.weight"] @ features))
        before = softmax(np.array(scores))
        rows.append(before)
    return rows


def linguistic_coverage(w, queries, keys):
    fertility = 3 * sigmoid(keys @ w["fertility_layer.weight"][0])
    rows = []
    for query in queries:
        covered = sum(rows, np.zeros(len(keys))) / fertility
        scores = [additive(w, query, key, w["coverage_layer.weight"][:, 0] * covered[j]) for j, key in enumerate(keys)]
        rows.append(softmax(np.array(scores)))
    return rows


def neural_coverage(w, queries, keys):
    size = w["coverage_layer.weight"].shape[1]
    rows, covered = [], np.zeros((len(keys), size))
    for query in queries:
        scores = [additive(w, query, key, w["coverage_layer.weight"] @ covered[j]) for j, key in enumerate(keys)]
        rows.append(softmax(np.array(scores)))
        for j, key in enumerate(keys):
            x = w["cell.from_key.weight"] @ key + w["cell.from_key.bias"] + w["cell.from_query.weight"] @ query
            x += w["cell.from_weight.weight"][:, 0] * rows[-1][j]
            z, r = np.split(sigmoid(x[: 2 * size] + w["cell.gate_layer.weight"] @ covered[j]), 2)
            candidate = np.tanh(x[2 * size :] + w["cell.candidate_layer.weight"] @ (r * covered[j]))
            covered[j] = (1 - z) * covered[j] + z * candidate
    return rows


def relative(w, queries, keys):
    inner = {name.removeprefix("scorer."): value for name, value in w.items()}
    rows = []
    for i, query in enumerate(queries):
        biases = [w["bias"][max(-2, min(2, j - i)) + 2] for j in range(len(keys))]
        scores = [additive(inner, query, key, 0) + bias for key, bias in zip(keys, biases, strict=True)]
        rows.append(softmax(np.array(scores)))
    return rows


EQUATIONS = {  # config name: a scorer of ours, and the weights of all steps over one sentence
    "location_aware": (lambda: LocationAware(QUERY, KEY, HIDDEN, filters=6, kernel_width=3), location_aware),
    "linguistic_coverage": (lambda: LinguisticCoverage(QUERY, KEY, HIDDEN, max_fertility=3.0), linguistic_coverage),
    "neural_coverage": (lambda: NeuralCoverage(QUERY, KEY, HIDDEN, coverage_size=6), neural_coverage),
    "relative": (lambda: Relative(QUERY, KEY, partial(Additive, hidden_size=HIDDEN), max_distance=2), relative),
}


def of_this_package():
    classes = scorer_classes().items()
    return [name for name, cls in classes if cls.needs_history and cls.__module__.startswith("seq2seq_attn.")]


def make(name):
    torch.manual_seed(1)
    scorer = EQUATIONS[name][0]().double()
    if isinstance(scorer, Relative):
        torch.nn.init.normal_(scorer.bias)
    return scorer


def inputs():
    return torch.randn(B, T, QUERY, dtype=torch.double), torch.randn(B, S, KEY, dtype=torch.double)


@pytest.mark.parametrize("name", of_this_package())
def test_all_steps_follow_the_equations_of_the_paper(name):
    attention = Attention(make(name))
    query, keys = inputs()
    _, weights = attention(query, attention.prepare(keys, is_token=IS_TOKEN))

    parameters = {name: value.numpy() for name, value in attention.scorer.state_dict().items()}
    for b, length in enumerate(LENGTHS):
        expected = EQUATIONS[name][1](parameters, query[b].numpy(), keys[b, :length].numpy())
        np.testing.assert_allclose(weights[b, :, :length].detach().numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", of_this_package())
def test_gradients_through_all_steps_are_finite_differences_of_the_equations(name):
    attention = Attention(make(name))
    query, keys = (tensor[:1].requires_grad_() for tensor in inputs())
    direction = torch.randn(1, T, S, dtype=torch.double)
    (attention(query, attention.prepare(keys))[1] * direction).sum().backward()

    tensors = {"query": query, "keys": keys, **dict(attention.scorer.named_parameters())}
    arrays = {name: np.array(tensor.detach().numpy()) for name, tensor in tensors.items()}
    for moved, array in arrays.items():

        def along_direction(array, moved=moved):
            now = arrays | {moved: array}
            return (np.array(EQUATIONS[name][1](now, now["query"][0], now["keys"][0])) * direction[0].numpy()).sum()

        expected = numeric_gradient(along_direction, array)
        np.testing.assert_allclose(tensors[moved].grad.numpy(), expected, rtol=0, atol=1e-10, err_msg=moved)


def test_a_word_read_as_often_as_its_fertility_has_coverage_1():
    scorer = LinguisticCoverage(QUERY, KEY, max_fertility=4.0)
    torch.nn.init.zeros_(scorer.fertility_layer.weight)  # 4 σ(0) = 2 words each
    query, keys = torch.randn(1, 1, QUERY), torch.randn(1, S, KEY)
    prepared = scorer.prepare(keys)
    covered = scorer.start(prepared)
    for weights in ([[[1.0, 0, 0, 0]]], [[[0.5, 0.5, 0, 0]]], [[[0.5, 0, 0.5, 0]]]):
        covered = scorer.advance(covered, query, prepared, torch.tensor(weights))
    assert covered.tolist() == [[[1.0, 0.25, 0.25, 0.0]]]


def test_coverage_is_summed_in_full_precision():
    scorer = LinguisticCoverage(QUERY, KEY).to(torch.bfloat16)
    query, keys = torch.randn(1, 1, QUERY).bfloat16(), torch.randn(1, 400, KEY).bfloat16()
    prepared = scorer.prepare(keys)
    covered = scorer.start(prepared)
    weights = torch.full((1, 1, 400), 1 / 512, dtype=torch.bfloat16)
    for _ in range(512):
        covered = scorer.advance(covered, query, prepared, weights)
    torch.testing.assert_close(covered, 1 / prepared[:, None, :, -1].float(), rtol=1e-4, atol=0)
    assert scorer(query, prepared, covered).dtype == torch.bfloat16


def test_a_word_without_fertility_overflows_nothing():
    attention = Attention(LinguisticCoverage(QUERY, KEY))
    torch.nn.init.constant_(attention.scorer.fertility_layer.weight, -1e4)
    keys = torch.rand(B, S, KEY).requires_grad_()
    context, _ = attention(torch.randn(B, T, QUERY), attention.prepare(keys, is_token=IS_TOKEN))
    context.sum().backward()
    assert context.isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in (keys, *attention.parameters()))


def test_relative_adds_a_preference_for_the_distance_from_the_number_of_steps_taken():
    scorer = Relative(KEY, KEY, ScaledDot, max_distance=1)
    with torch.no_grad():
        scorer.bias.copy_(torch.tensor([10.0, 20, 30]))
    query, keys = torch.randn(1, 1, KEY), torch.randn(1, S, KEY)
    prepared = scorer.prepare(keys)
    content = ScaledDot(KEY, KEY)
    plain = content(query, content.prepare(keys))
    history = scorer.start(prepared)
    for expected in ([20, 30, 30, 30], [10, 20, 30, 30], [10, 10, 20, 30], [10, 10, 10, 20], [10, 10, 10, 10]):
        torch.testing.assert_close(scorer(query, prepared, history) - plain, torch.tensor([[expected]]).float())
        history = scorer.advance(history, query, prepared, torch.ones(1, 1, S))


def test_relative_changes_nothing_before_it_has_learned():
    scorer = Relative(QUERY, KEY)
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    prepared = scorer.prepare(keys)
    assert torch.equal(scorer(query, prepared), scorer.scorer(query, prepared))


def test_all_steps_of_relative_are_one_call_of_its_scorer():
    attention = Attention(Relative(QUERY, KEY))
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    calls = []
    attention.scorer.scorer.register_forward_hook(lambda *call: calls.append(call))
    attention(query, attention.prepare(keys))
    assert len(calls) == 1


def test_relative_around_a_scorer_that_remembers_keeps_its_memory():
    torch.manual_seed(1)
    inner = partial(LocationAware, hidden_size=HIDDEN)
    attention = Attention(Relative(QUERY, KEY, inner))
    alone = Attention(attention.scorer.scorer)
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    torch.testing.assert_close(attention(query, attention.prepare(keys))[1], alone(query, alone.prepare(keys))[1])
