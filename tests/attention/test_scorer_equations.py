"""Every scorer of ours against the equation of its paper, written again in NumPy, one pair at a time."""

import numpy as np
import pytest
import torch

from seq2seq_attn.attention import (
    Additive,
    Attention,
    Concat,
    Cosine,
    Dot,
    General,
    Location,
    ScaledDot,
    scorer_classes,
)

B, T, S, QUERY, KEY, HIDDEN = 2, 3, 4, 5, 7, 11


def general(weights, q, k, j):
    return q @ weights["key_layer.weight"] @ k


def additive(weights, q, k, j):
    hidden = weights["query_layer.weight"] @ q + weights["key_layer.weight"] @ k + weights["key_layer.bias"]
    return weights["energy.v"] @ np.tanh(hidden)


def concat(weights, q, k, j):
    return weights["energy.v"] @ np.tanh(weights["layer.weight"] @ np.concatenate([q, k]))


def cosine(weights, q, k, j):
    return q @ k / (np.sqrt((q**2).sum()) * np.sqrt((k**2).sum())) / 0.25


EQUATIONS = {  # config name: a scorer of ours, and F(q, k) at position j
    "dot": (lambda: Dot(KEY, KEY), lambda w, q, k, j: (q * k).sum()),
    "scaled_dot": (lambda: ScaledDot(KEY, KEY), lambda w, q, k, j: (q * k).sum() / np.sqrt(KEY)),
    "general": (lambda: General(QUERY, KEY), general),
    "additive": (lambda: Additive(QUERY, KEY, hidden_size=HIDDEN), additive),
    "concat": (lambda: Concat(QUERY, KEY, hidden_size=HIDDEN), concat),
    "cosine": (lambda: Cosine(KEY, KEY, temperature=0.25), cosine),
    "location": (
        lambda: Location(QUERY, KEY, max_length=HIDDEN),
        lambda w, q, k, j: w["position_layer.weight"][j] @ q,
    ),
}


def of_this_package():
    return [name for name, cls in scorer_classes().items() if cls.__module__.startswith("seq2seq_attn.")]


@pytest.mark.parametrize("name", of_this_package())
def test_a_scorer_computes_the_equation_of_its_paper(name):
    make, equation = EQUATIONS[name]
    torch.manual_seed(1)
    scorer = make().double()
    query = torch.randn(B, T, scorer.query_size, dtype=torch.double)
    keys = torch.randn(B, S, scorer.key_size, dtype=torch.double)
    weights = {name: value.numpy() for name, value in scorer.state_dict().items()}

    expected = np.empty((B, T, S))
    for b, t, j in np.ndindex(B, T, S):
        expected[b, t, j] = equation(weights, query[b, t].numpy(), keys[b, j].numpy(), j)

    scores = scorer(query, scorer.prepare(keys))
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=0, atol=1e-10)


def test_the_worked_example_reads_the_second_state():
    states = torch.tensor([[[0.0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]]])
    query = torch.tensor([[[10.0, 5, 10]]])
    attention = Attention(Dot(3, 3))
    source = attention.prepare(states)
    assert attention.scorer(query, source.prepared).tolist() == [[[15, 60, 15, 35]]]

    context, weights = attention(query, source)
    torch.testing.assert_close(weights, torch.tensor([[[0.0, 1, 0, 0]]]), rtol=0, atol=1e-10)
    torch.testing.assert_close(context, torch.tensor([[[5.0, 0, 1]]]), rtol=0, atol=1e-9)


def test_additive_by_hand():
    scorer = Additive(query_size=2, key_size=1, hidden_size=2)
    with torch.no_grad():
        scorer.query_layer.weight.copy_(torch.tensor([[1.0, 0], [0, 2]]))
        scorer.key_layer.weight.copy_(torch.tensor([[3.0], [1]]))
        scorer.key_layer.bias.copy_(torch.tensor([0.5, 0]))
        scorer.energy.v.copy_(torch.tensor([2.0, -1]))
    query, keys = torch.tensor([[[0.5, -1]]]), torch.tensor([[[0.0], [1]]])
    scores = scorer(query, scorer.prepare(keys))
    # tanh of [0.5 + 0.5, -2] and of [0.5 + 3.5, -2 + 1]: tanh(1) = .76159, tanh(2) = .96403, tanh(4) = .99933
    expected = torch.tensor([[[2 * 0.76159 + 0.96403, 2 * 0.99933 + 0.76159]]])
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-4)


def test_concat_is_additive_with_one_matrix_and_no_bias():
    concat, additive = Concat(QUERY, KEY, HIDDEN), Additive(QUERY, KEY, HIDDEN)
    with torch.no_grad():
        additive.query_layer.weight.copy_(concat.layer.weight[:, :QUERY])
        additive.key_layer.weight.copy_(concat.layer.weight[:, QUERY:])
        additive.key_layer.bias.zero_()
        additive.energy.v.copy_(concat.energy.v)
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    torch.testing.assert_close(concat(query, concat.prepare(keys)), additive(query, additive.prepare(keys)))


@pytest.mark.parametrize("cls", [Additive, Concat])
def test_the_hidden_layer_is_as_wide_as_the_query_unless_said_otherwise(cls):
    assert cls(QUERY, KEY).energy.v.shape == (QUERY,)
    assert cls(QUERY, KEY, hidden_size=HIDDEN).energy.v.shape == (HIDDEN,)


def test_cosine_scores_a_zero_vector_0_and_gives_it_a_small_gradient():
    scorer = Cosine(KEY, KEY, temperature=0.5)
    query, keys = torch.randn(1, 2, KEY), torch.randn(1, 3, KEY)
    with torch.no_grad():
        query[0, 0] = keys[0, 1] = 0
    query.requires_grad_()
    keys.requires_grad_()
    scores = scorer(query, scorer.prepare(keys))
    assert (scores[0, 0] == 0).all()
    assert (scores[0, :, 1] == 0).all()
    scores.sum().backward()
    for gradient in (query.grad, keys.grad):
        assert gradient.isfinite().all()
        assert gradient.abs().max() < 100


def test_cosine_does_not_see_the_length_of_a_vector():
    scorer = Cosine(KEY, KEY)
    query, keys = torch.randn(B, T, KEY), torch.randn(B, S, KEY)
    torch.testing.assert_close(scorer(query, scorer.prepare(keys)), scorer(1000 * query, scorer.prepare(0.001 * keys)))


def test_location_never_reads_beyond_its_longest_length():
    attention = Attention(Location(QUERY, KEY, max_length=3))
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, 5, KEY)
    context, weights = attention(query, attention.prepare(keys))
    assert (weights[:, :, 3:] == 0).all()
    torch.testing.assert_close(weights[:, :, :3], attention(query, attention.prepare(keys[:, :3]))[1])
    context.sum().backward()
    assert attention.scorer.position_layer.weight.grad.isfinite().all()


def test_location_keeps_nothing_of_the_keys_but_their_number():
    assert Location(QUERY, KEY).prepare(torch.randn(B, S, KEY)).shape == (B, S, 0)


def test_scaled_dot_under_softmax_is_torchs_attention():
    attention = Attention(ScaledDot(KEY, KEY), value_size=HIDDEN)
    query, keys, values = torch.randn(B, T, KEY), torch.randn(B, S, KEY), torch.randn(B, S, HIDDEN)
    is_token = torch.tensor([[True, True, True, True], [True, True, False, False]])
    context, _ = attention(query, attention.prepare(keys, values, is_token))
    expected = torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=is_token[:, None])
    torch.testing.assert_close(context, expected)
