"""Every scorer of ours against the equation of its paper, written again in NumPy, one pair at a time."""

import numpy as np
import pytest
import torch
from finite_differences import numeric_gradient

from seq2seq_attn.attention import (
    MLP,
    Additive,
    Attention,
    Biaffine,
    Concat,
    Cosine,
    Dot,
    General,
    Location,
    Multiplicative,
    NegativeSquaredDistance,
    NormalizedAdditive,
    ScaledDot,
    Sigmoid,
    scorer_classes,
)

B, T, S, QUERY, KEY, HIDDEN = 2, 3, 4, 5, 7, 11


def general(weights, q, k, j):
    return q @ weights["key_layer.weight"] @ k


def additive(weights, q, k, j):
    hidden = weights["query_layer.weight"] @ q + weights["key_layer.weight"] @ k + weights["key_layer.bias"]
    return weights["v"] @ np.tanh(hidden)


def concat(weights, q, k, j):
    return weights["v"] @ np.tanh(weights["layer.weight"] @ np.concatenate([q, k]))


def cosine(weights, q, k, j):
    temperature = np.exp(weights.get("log_temperature", np.log(0.25)))
    return q @ k / (np.sqrt((q**2).sum()) * np.sqrt((k**2).sum())) / temperature


def biaffine(weights, q, k, j):
    bilinear, of_key = weights["key_layer.weight"][:-1], weights["key_layer.weight"][-1]
    of_query, bias = weights["key_layer.bias"][:-1], weights["key_layer.bias"][-1]
    return q @ bilinear @ k + of_query @ q + of_key @ k + bias


def normalized_additive(weights, q, k, j):
    network = {name.removeprefix("additive."): weight for name, weight in weights.items()}
    v = network["v"]
    return additive(network | {"v": v / np.sqrt(v @ v)}, q, k, j) * weights["gain"] + weights["offset"]


def mlp(weights, q, k, j):
    first = weights["query_layer.weight"] @ q + weights["key_layer.weight"] @ k + weights["key_layer.bias"]
    second = weights["deeper_layers.0.weight"] @ np.tanh(first) + weights["deeper_layers.0.bias"]
    third = weights["deeper_layers.1.weight"] @ np.tanh(second) + weights["deeper_layers.1.bias"]
    return weights["v.weight"][0] @ np.tanh(third)


EQUATIONS = {  # config name: a scorer of ours, and F(q, k) at position j
    "dot": (lambda: Dot(KEY, KEY), lambda w, q, k, j: (q * k).sum()),
    "scaled_dot": (lambda: ScaledDot(KEY, KEY), lambda w, q, k, j: (q * k).sum() / np.sqrt(KEY)),
    "general": (lambda: General(QUERY, KEY), general),
    "multiplicative": (
        lambda: Multiplicative(QUERY, KEY, hidden_size=HIDDEN),
        lambda w, q, k, j: (w["query_layer.weight"] @ q) @ (w["key_layer.weight"] @ k),
    ),
    "additive": (lambda: Additive(QUERY, KEY, hidden_size=HIDDEN), additive),
    "concat": (lambda: Concat(QUERY, KEY, hidden_size=HIDDEN), concat),
    "normalized_additive": (lambda: NormalizedAdditive(QUERY, KEY, HIDDEN, initial_offset=-2), normalized_additive),
    "biaffine": (lambda: Biaffine(QUERY, KEY), biaffine),
    "mlp": (lambda: MLP(QUERY, KEY, hidden_sizes=(HIDDEN, 6, 8)), mlp),
    "negative_squared_distance": (
        lambda: NegativeSquaredDistance(KEY, KEY, temperature=3),
        lambda w, q, k, j: -((q - k) ** 2).sum() / 3,
    ),
    "cosine": (lambda: Cosine(KEY, KEY, temperature=0.25), cosine),
    "cosine, learned": (lambda: Cosine(KEY, KEY, temperature=0.25, learned=True), cosine),
    "location": (
        lambda: Location(QUERY, KEY, max_length=HIDDEN),
        lambda w, q, k, j: w["position_layer.weight"][j] @ q,
    ),
}


def of_this_package():
    """Without those that depend on earlier steps, which are unrolled in test_history_scorers.py."""
    classes = scorer_classes().items()
    return [name for name, cls in classes if cls.__module__.startswith("seq2seq_attn.") and not cls.needs_history]


@pytest.mark.parametrize("name", of_this_package())
def test_every_scorer_of_ours_has_its_equation_here(name):
    assert name in EQUATIONS


@pytest.mark.parametrize("name", EQUATIONS)
def test_a_scorer_computes_the_equation_of_its_paper(name):
    make, equation = EQUATIONS[name]
    torch.manual_seed(1)
    scorer = make().double()
    query = torch.randn(B, T, scorer.query_size, dtype=torch.double)
    keys = torch.randn(B, S, scorer.key_size, dtype=torch.double)

    expected = all_scores(equation, in_numpy(scorer, query, keys))
    scores = scorer(query, scorer.prepare(keys))
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EQUATIONS)
def test_gradients_are_finite_differences_of_the_equation(name):
    make, equation = EQUATIONS[name]
    torch.manual_seed(2)
    scorer = make().double()
    query = torch.randn(1, 2, scorer.query_size, dtype=torch.double, requires_grad=True)
    keys = torch.randn(1, 3, scorer.key_size, dtype=torch.double, requires_grad=True)
    direction = torch.randn(1, 2, 3, dtype=torch.double)
    (scorer(query, scorer.prepare(keys)) * direction).sum().backward()
    gradients = {"query": query.grad, "keys": keys.grad} | {n: p.grad for n, p in scorer.named_parameters()}

    inputs = in_numpy(scorer, query, keys)
    for name, array in inputs.items():

        def along_direction(moved, name=name):
            return (all_scores(equation, inputs | {name: moved}) * direction.numpy()).sum()

        found = np.zeros(array.shape) if gradients[name] is None else gradients[name].numpy()
        expected = numeric_gradient(along_direction, array)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10, err_msg=name)


def in_numpy(scorer, query, keys):
    """Copies of all inputs of the scores."""
    tensors = {"query": query, "keys": keys} | dict(scorer.named_parameters())
    return {name: np.array(tensor.detach().numpy()) for name, tensor in tensors.items()}


def all_scores(equation, inputs):
    query, keys = inputs["query"], inputs["keys"]
    scores = np.empty((*query.shape[:2], keys.shape[1]))
    for b, t, j in np.ndindex(*scores.shape):
        scores[b, t, j] = equation(inputs, query[b, t], keys[b, j], j)
    return scores


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
        scorer.v.copy_(torch.tensor([2.0, -1]))
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
        additive.v.copy_(concat.v)
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    torch.testing.assert_close(concat(query, concat.prepare(keys)), additive(query, additive.prepare(keys)))


def test_an_mlp_of_one_hidden_layer_is_additive():
    mlp, additive = MLP(QUERY, KEY, hidden_sizes=[HIDDEN]), Additive(QUERY, KEY, HIDDEN)
    with torch.no_grad():
        additive.query_layer.weight.copy_(mlp.query_layer.weight)
        additive.key_layer.load_state_dict(mlp.key_layer.state_dict())
        additive.v.copy_(mlp.v.weight[0])
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    torch.testing.assert_close(mlp(query, mlp.prepare(keys)), additive(query, additive.prepare(keys)))


def test_an_mlp_has_two_layers_as_wide_as_the_query_by_default():
    shapes = [tuple(layer.weight.shape) for layer in MLP(QUERY, KEY).deeper_layers]
    assert (MLP(QUERY, KEY).key_layer.weight.shape, shapes) == ((QUERY, KEY), [(QUERY, QUERY)])


def test_normalized_additive_does_not_depend_on_the_length_of_v():
    scorer = NormalizedAdditive(QUERY, KEY)
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    expected = scorer(query, scorer.prepare(keys))
    with torch.no_grad():
        scorer.additive.v.mul_(100)
    torch.testing.assert_close(scorer(query, scorer.prepare(keys)), expected)


def test_softmax_does_not_see_an_offset_and_sigmoid_does():
    low, high = (NormalizedAdditive(QUERY, KEY, initial_offset=offset) for offset in (-3, 2))
    high.load_state_dict(low.state_dict() | {"offset": high.offset.detach()})
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)

    def weights(scorer, *normalizer):
        attention = Attention(scorer, *normalizer)
        return attention(query, attention.prepare(keys))[1]

    torch.testing.assert_close(weights(low), weights(high))
    assert (weights(low, Sigmoid()) < weights(high, Sigmoid())).all()


def test_the_nearest_key_scores_highest_and_a_key_at_the_query_0():
    scorer = NegativeSquaredDistance(KEY, KEY)
    query = torch.randn(1, 1, KEY)
    keys = torch.cat((query + 2, query, query - 1), dim=1)
    expected = torch.tensor([[[-4.0 * KEY, 0, -KEY]]])
    torch.testing.assert_close(scorer(query, scorer.prepare(keys)), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_small_distance_between_long_vectors_survives_autocast(dtype):
    scorer = NegativeSquaredDistance(KEY, KEY)
    query = 100 * torch.randn(1, 1, KEY)
    keys = query + torch.tensor([0.5, 0.25, 1])[:, None]
    with torch.autocast("cpu", dtype):
        scores = scorer(query, scorer.prepare(keys))
    torch.testing.assert_close(scores.float(), -KEY * torch.tensor([[[0.25, 0.0625, 1]]]), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_small_distance_between_long_vectors_survives_half_precision(dtype):
    scorer = NegativeSquaredDistance(KEY, KEY)
    query = torch.full((1, 1, KEY), 8.0, dtype=dtype)
    keys = torch.tensor([8.0, 8.125, 8.25], dtype=dtype)[None, :, None].expand(1, 3, KEY)
    scores = scorer(query, scorer.prepare(keys))
    torch.testing.assert_close(scores, -KEY * torch.tensor([[[0, 1 / 64, 1 / 16]]], dtype=dtype))


@pytest.mark.parametrize("cls", [Additive, Concat, NormalizedAdditive])
def test_the_hidden_layer_is_as_wide_as_the_query_by_default(cls):
    widths = [dict(made.named_parameters()) for made in (cls(QUERY, KEY), cls(QUERY, KEY, hidden_size=HIDDEN))]
    v = "additive.v" if cls is NormalizedAdditive else "v"
    assert [each[v].shape for each in widths] == [(QUERY,), (HIDDEN,)]


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
