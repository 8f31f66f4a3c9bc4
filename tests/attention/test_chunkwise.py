"""Chunkwise attention against every path that the walk could take, each with a softmax over the chunk it ends in."""

import itertools

import numpy as np
import pytest
import torch
from finite_differences import numeric_gradient

from seq2seq_attn.attention import (
    Additive,
    Attention,
    ChunkwiseAttention,
    Dot,
    General,
    LocalM,
    LocationAware,
    Monotonic,
    ScaledDot,
)

B, T, S, QUERY, KEY = 2, 3, 4, 5, 7
BOTH_SIDES = torch.tensor([[True, True, True, True], [False, True, True, False]])


def chunkwise(scorer=None, chunk_size=2):
    torch.manual_seed(8)
    scorer = Additive(QUERY, KEY) if scorer is None else scorer
    return ChunkwiseAttention(Attention(General(QUERY, KEY), Monotonic(noise=0)), scorer, chunk_size).double()


def inputs(scale=1.0):
    torch.manual_seed(9)
    return scale * torch.randn(B, T, QUERY, dtype=torch.double), torch.randn(B, S, KEY, dtype=torch.double)


def over_all_paths(p, energies, chunk_size):
    """Probability (T, S) that step i reads j: each way to stop at t_1 <= ... <= t_T, S being past the end."""
    steps, size = p.shape
    weights = np.zeros((steps, size))
    for path in itertools.product(range(size + 1), repeat=steps):
        probability, begin = float(list(path) == sorted(path)), 0
        for i, stop in enumerate(path):
            probability *= np.prod(1 - p[i, begin:stop]) * (p[i, stop] if stop < size else 1.0)
            begin = stop
        for i, stop in enumerate(path):
            if stop < size:
                chunk = slice(max(0, stop - chunk_size + 1), stop + 1)
                exponentials = np.exp(energies[i, chunk])
                weights[i, chunk] += probability * exponentials / exponentials.sum()
    return weights


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 6])
def test_in_training_weights_are_the_expectation_over_all_paths(chunk_size):
    model = chunkwise(chunk_size=chunk_size)
    query, keys = inputs()
    context, weights = model(query, model.prepare(keys, is_token=BOTH_SIDES))
    place, chunk = model.attention.scorer, model.scorer
    p = place(query, place.prepare(keys)).sigmoid().detach().numpy()
    energies = chunk(query, chunk.prepare(keys)).detach().numpy()
    for b in range(B):
        tokens = BOTH_SIDES[b].numpy()
        expected = over_all_paths(p[b][:, tokens], energies[b][:, tokens], chunk_size)
        np.testing.assert_allclose(weights[b].detach().numpy()[:, tokens], expected, rtol=0, atol=1e-10)
    assert (weights[1, :, [0, 3]] == 0).all()
    torch.testing.assert_close(context, weights @ keys)


def test_gradients_through_all_steps_are_finite_differences_of_the_expectation():
    model = ChunkwiseAttention(Attention(Dot(QUERY, QUERY), Monotonic(noise=0)), ScaledDot(QUERY, QUERY), 3).double()
    query, keys = inputs()
    query, keys = query[:1].requires_grad_(), keys[:1, :, :QUERY].requires_grad_()
    direction = torch.randn(1, T, S, dtype=torch.double)
    (model(query, model.prepare(keys))[1] * direction).sum().backward()

    def along_direction(query, keys):
        scores = query[0] @ keys[0].T
        weights = over_all_paths(1 / (1 + np.exp(-scores)), scores / np.sqrt(QUERY), chunk_size=3)
        return (weights * direction[0].numpy()).sum()

    q, k = query.detach().numpy(), keys.detach().numpy()
    by_query = numeric_gradient(lambda moved: along_direction(moved, k), q)
    by_keys = numeric_gradient(lambda moved: along_direction(q, moved), k)
    np.testing.assert_allclose(query.grad.numpy(), by_query, rtol=0, atol=1e-10)
    np.testing.assert_allclose(keys.grad.numpy(), by_keys, rtol=0, atol=1e-10)


def test_chunks_of_one_word_are_monotonic_attention():
    model = chunkwise(chunk_size=1)
    query, keys = inputs()
    _, weights = model(query, model.prepare(keys, is_token=BOTH_SIDES))
    torch.testing.assert_close(weights, model.attention(query, model.attention.prepare(keys, is_token=BOTH_SIDES))[1])


def test_in_evaluation_softmax_reads_the_chunk_where_the_walk_stopped():
    model = chunkwise(chunk_size=3).eval()
    query, keys = inputs(scale=3.0)
    source = model.prepare(keys)
    _, weights = model(query, source)
    _, place = model.attention(query, source.place)
    energies = model.scorer(query, source.chunk)
    expected = torch.zeros(B, T, S, dtype=torch.double)
    for b, t, stop in place.nonzero().tolist():
        chunk = slice(max(0, stop - 2), stop + 1)
        expected[b, t, chunk] = energies[b, t, chunk].softmax(-1)
    torch.testing.assert_close(weights, expected)
    assert {0.0, 1.0} == set(place.sum(-1).flatten().tolist())  # some have run past the end, and read nothing


def test_the_scorer_of_chunks_may_remember_what_was_read():
    model = chunkwise(LocationAware(QUERY, KEY))
    query, keys = inputs()
    source = model.prepare(keys)
    _, weights, (_, of_chunk) = model(query[:, :1], source, model.start(source))
    assert torch.equal(of_chunk, weights)


def test_no_position_outside_the_window_is_read():
    """Of a window of one position, the chunk that ends there has that position alone."""
    torch.manual_seed(8)
    place = Attention(General(QUERY, KEY), Monotonic(noise=0), window=LocalM(QUERY, half_width=0))
    model = ChunkwiseAttention(place, Additive(QUERY, KEY), 3).double()
    query, keys = inputs()
    _, weights = model(query, model.prepare(keys))
    outside = ~torch.eye(T, S, dtype=torch.bool)
    assert (weights[:, outside] == 0).all()
    assert (weights[:, ~outside] > 0).all()
