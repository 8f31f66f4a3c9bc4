"""Monotonic attention against every path that it could take, and its hard mode against a walk."""

import itertools

import numpy as np
import pytest
import torch
from finite_differences import numeric_gradient

from seq2seq_attn.attention import Attention, Dot, Monotonic, MonotonicSoftmax, NormalizedAdditive, each_tensor

B, T, S = 2, 3, 4
BOTH_SIDES = torch.tensor([[True, True, True, True], [False, True, True, False]])


def steps(normalizer, scores, is_token=None):
    """Weights (B, T, S) of scores (B, T, S), one step after another."""
    history, rows = normalizer.start(scores[:, :1]), []
    for one in scores.split(1, dim=1):
        rows.append(normalizer(one, is_token, history))
        history = normalizer.advance(history, rows[-1])
    return torch.cat(rows, dim=1)


def over_all_paths(p):
    """Probability (T, S) that step i stops at j: each way to stop at t_1 <= ... <= t_T, S being past the end."""
    steps, size = p.shape
    stops = np.zeros((steps, size))
    for path in itertools.product(range(size + 1), repeat=steps):
        probability, begin = 1.0, 0
        for i, stop in enumerate(path):
            if stop < begin:
                probability = 0.0
                break
            probability *= np.prod(1 - p[i, begin:stop]) * (p[i, stop] if stop < size else 1.0)
            begin = stop
        for i, stop in enumerate(path):
            if stop < size:
                stops[i, stop] += probability
    return stops


def walk(p):
    """Weights (T, S) of the walk that stops at the first p > 1/2 from where it stopped before."""
    weights, place = np.zeros(p.shape), 0
    for i, row in enumerate(p):
        while place < len(row) and row[place] <= 0.5:
            place += 1
        if place < len(row):
            weights[i, place] = 1
    return weights


def test_in_training_weights_are_the_expectation_over_all_paths():
    scores = torch.randn(B, T, S, dtype=torch.double)
    weights = steps(Monotonic(noise=0), scores)
    for b in range(B):
        expected = over_all_paths(scores[b].sigmoid().numpy())
        np.testing.assert_allclose(weights[b].numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", [True, False])
def test_padding_on_either_side_is_passed_over(mode):
    normalizer = Monotonic(noise=0).train(mode)
    scores = torch.randn(B, T, S)
    weights = steps(normalizer, scores, BOTH_SIDES[:, None])
    assert (weights[1, :, [0, 3]] == 0).all()
    torch.testing.assert_close(weights[1:, :, 1:3], steps(normalizer, scores[1:, :, 1:3]))


def test_gradients_through_all_steps_are_finite_differences_of_the_expectation():
    scores, direction = torch.randn(2, 1, T, S, dtype=torch.double)
    (steps(Monotonic(noise=0), scores.requires_grad_()) * direction).sum().backward()

    def along_direction(scores):
        return (over_all_paths(1 / (1 + np.exp(-scores))) * direction[0].numpy()).sum()

    expected = numeric_gradient(along_direction, scores[0].detach().numpy())
    np.testing.assert_allclose(scores.grad[0].numpy(), expected, rtol=0, atol=1e-10)


def test_in_evaluation_the_walk_is_taken():
    scores = 2 * torch.randn(200, T, S) - 1
    weights = steps(Monotonic().eval(), scores)
    expected = np.stack([walk(row) for row in scores.sigmoid().numpy()])
    assert (weights.numpy() == expected).all()
    assert {0, 1} == set(weights.sum(dim=-1).flatten().tolist())  # some run past the end


def test_both_modes_agree_where_every_choice_is_certain():
    scores = 1e4 * torch.randn(200, T, S).sign()
    assert torch.equal(steps(Monotonic(noise=0), scores), steps(Monotonic().eval(), scores))


def test_a_walk_past_the_end_stays_there():
    scores = torch.tensor([[[-1.0, -1, -1], [1, 1, 1]]])
    assert (steps(Monotonic().eval(), scores) == 0).all()


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_long_sources_are_as_exact_as_short_ones(size):
    """A closed form that divides by the product of 1 - p is NaN here."""
    scores = (size * torch.randn(1, 5, 3001)).requires_grad_()
    weights = steps(Monotonic(noise=0), scores)
    expected = steps_one_position_at_a_time(scores.detach().double())
    torch.testing.assert_close(weights.double(), expected, rtol=1e-4, atol=1e-12)
    (weights * torch.randn(1, 5, 3001)).sum().backward()
    assert scores.grad.isfinite().all()


def steps_one_position_at_a_time(scores):
    """Eq. 13 and 14 as they stand."""
    before, rows = np.eye(scores.shape[-1])[0], []
    for p, go_on in zip(scores[0].sigmoid().numpy(), (-scores[0]).sigmoid().numpy(), strict=True):
        q, row = 0.0, []
        for j, arrived in enumerate(before):
            q = (go_on[j - 1] * q if j else 0.0) + arrived
            row.append(p[j] * q)
        before = np.array(row)
        rows.append(before)
    return torch.tensor(np.stack(rows))[None]


def test_noise_is_added_in_training_alone():
    scores, noisy = torch.randn(B, T, S), Monotonic(noise=0.5)
    torch.manual_seed(3)
    weights = noisy(scores)
    torch.manual_seed(3)
    assert torch.equal(weights, Monotonic(noise=0)(scores + 0.5 * torch.randn(B, T, S)))
    assert torch.equal(noisy.eval()(scores), Monotonic().eval()(scores))


def test_an_offset_below_0_lets_the_weights_begin_spread_out():
    """The remedy of Raffel et al. 2017, eq. 16, where every token would be stopped at as likely as not."""
    torch.manual_seed(2)
    query, keys = torch.randn(1, 1, 5), torch.randn(1, 60, 7)

    def weight_of_the_first_five(offset):
        attention = Attention(NormalizedAdditive(5, 7, initial_offset=offset), Monotonic(noise=0))
        return attention(query, attention.prepare(keys))[1][..., :5].sum().item()

    assert weight_of_the_first_five(0.0) > 0.9
    assert weight_of_the_first_five(-4.0) < 0.3


def over_all_chains(scores, log_likelihood):
    """p(position i = j | results before i) (T, S) of a softmax over what has not been passed, chain by chain."""
    steps, size = scores.shape
    rows = np.zeros((steps, size))
    for i in range(steps):
        for chain in itertools.product(range(size), repeat=i + 1):
            p, before = 1.0, 0
            for k, position in enumerate(chain):
                p *= np.exp(scores[k, position]) / np.exp(scores[k, before:]).sum() if position >= before else 0.0
                p *= np.exp(log_likelihood[k, position]) if k < i else 1.0
                before = position
            rows[i, chain[-1]] += p
    return rows / rows.sum(axis=1, keepdims=True)


def conditioned_steps(scores, log_likelihood, is_token=None):
    normalizer = MonotonicSoftmax()
    history, rows = normalizer.start(scores[:, :1]), []
    for one, likely in zip(scores.split(1, dim=1), log_likelihood.split(1, dim=1), strict=True):
        rows.append(normalizer(one, is_token, history))
        history = normalizer.condition(normalizer.advance(history, rows[-1]), likely)
    return torch.cat(rows, dim=1)


@pytest.mark.parametrize("size", [0.0, 3.0])
def test_softmax_that_never_goes_back_is_the_sum_over_all_chains_given_what_came_of_them(size):
    scores = 2 * torch.randn(B, T, S, dtype=torch.double)
    likely = size * torch.randn(B, T, S, dtype=torch.double)
    weights = conditioned_steps(scores, likely)
    for b in range(B):
        expected = over_all_chains(scores[b].numpy(), likely[b].numpy())
        np.testing.assert_allclose(weights[b].numpy(), expected, rtol=0, atol=1e-12)
    if size == 0:
        torch.testing.assert_close(weights, steps(MonotonicSoftmax(), scores))


def test_softmax_that_never_goes_back_passes_over_padding_and_scores_of_any_size():
    scores, likely = (1e4 * torch.randn(B, 6, S)).requires_grad_(), 1e4 * torch.randn(B, 6, S)
    weights = conditioned_steps(scores, likely, BOTH_SIDES[:, None])
    assert (weights[1, :, [0, 3]] == 0).all()
    torch.testing.assert_close(weights[1:, :, 1:3], conditioned_steps(scores[1:, :, 1:3], likely[1:, :, 1:3]))
    (weights * torch.randn(B, 6, S)).sum().backward()
    assert scores.grad.isfinite().all()


def test_where_all_that_was_not_passed_is_closed_the_last_open_position_is_read():
    scores, normalizer = torch.zeros(1, 1, S), MonotonicSoftmax()
    history = torch.tensor([[[0.0, 0.25, 0.25, 0.5]]])
    is_open = torch.tensor([[[True, True, False, False]]])
    torch.testing.assert_close(normalizer(scores, is_open, history), torch.tensor([[[0.0, 1, 0, 0]]]))


def test_each_hypothesis_has_its_own_walk():
    attention = Attention(Dot(4, 4), Monotonic()).eval()
    source = attention.prepare(torch.eye(4)[None])
    query = torch.tensor([[[-1.0, 1, -1, 1], [-1, -1, 1, 1]]])  # stops at 1, at 2
    history = each_tensor(lambda tensor: tensor.expand(1, 2, *tensor.shape[2:]), attention.start(source))
    _, weights, history = attention(query, source, history)
    assert weights.argmax(-1).tolist() == [[1, 2]]
    swapped = each_tensor(lambda tensor: tensor[:, [1, 0]], history)
    _, weights, _ = attention(query[:, :1].expand(1, 2, 4), source, swapped)
    assert weights.argmax(-1).tolist() == [[3, 1]]
