"""Shuffled: the weights of softmax, each step on tokens drawn at random."""

import itertools

import torch

from seq2seq_attn.attention import Attention, General, Shuffled, Softmax

B, K, S = 2, 3, 5
IS_TOKEN = torch.tensor([[True, True, True, True, True], [False, True, True, True, False]])[:, None]


def taken_from(weights, own):
    """Of 3 distinct weights, the places where they stood before: a row of `weights` as a permutation."""
    return tuple((own[:, None] == weights).int().argmax(dim=0).tolist())


def rows_of(shuffled, scores, steps):
    """Weights (steps, S) of the same scores (S,) at every step."""
    history, rows = shuffled.start(scores[None, None]), []
    for _ in range(steps):
        rows.append(shuffled(scores[None, None], None, history)[0, 0])
        history = shuffled.advance(history, rows[-1][None, None])
    return torch.stack(rows)


def test_the_weights_are_those_of_softmax_on_other_tokens():
    scores = torch.randn(B, K, S)
    own = Softmax()(scores, IS_TOKEN)
    for training in (True, False):
        weights = Shuffled().train(training)(scores, IS_TOKEN)
        assert torch.equal(weights.sort(dim=-1).values, own.sort(dim=-1).values)
        assert not torch.equal(weights, own)


def test_every_order_is_as_likely_as_any_other():
    scores, steps = torch.tensor([0.0, 1, 3]), 500
    own, orders = Softmax()(scores), list(itertools.permutations(range(3)))
    for training in (True, False):
        torch.manual_seed(2)
        taken = [taken_from(row, own) for row in rows_of(Shuffled().train(training), scores, steps)]
        for order in orders:  # five standard deviations of a share of 1/6
            assert abs(taken.count(order) / steps - 1 / 6) < 5 * (5 / 36 / steps) ** 0.5
        again = sum(one == other for one, other in itertools.pairwise(taken)) / steps
        assert abs(again - 1 / 6) < 5 * (5 / 36 / steps) ** 0.5  # a step tells nothing of the next


def test_training_draws_from_the_generator_of_torch_and_evaluation_draws_nothing():
    shuffled, scores = Shuffled(), torch.randn(B, K, 40)
    torch.manual_seed(4)
    first, second = shuffled(scores), shuffled(scores)
    assert not torch.equal(first, second)
    torch.manual_seed(4)
    assert torch.equal(shuffled(scores), first)
    before = torch.random.get_rng_state()
    assert torch.equal(shuffled.eval()(scores), shuffled(scores))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_scorer_learns_by_the_weights_wherever_they_were_put():
    scores = torch.randn(1, 1, 3, requires_grad=True)
    own, weights = Softmax()(scores), Shuffled().eval()(scores)
    place = taken_from(weights[0, 0], own[0, 0])
    direction = torch.tensor([0.5, -1, 2])
    (of_shuffled,) = torch.autograd.grad((weights * direction).sum(), scores, retain_graph=True)
    (of_softmax,) = torch.autograd.grad((own[..., place] * direction).sum(), scores)
    torch.testing.assert_close(of_shuffled, of_softmax)


def test_steps_of_an_evaluation_are_the_same_at_once_and_one_by_one():
    attention = Attention(General(4, 6), Shuffled()).eval()
    query, source = torch.randn(B, K, 4), attention.prepare(torch.randn(B, S, 6), is_token=IS_TOKEN[:, 0])
    contexts, _ = attention(query, source)
    history = attention.start(source)
    for step in range(K):
        one, _, history = attention(query[:, step : step + 1], source, history)
        torch.testing.assert_close(one, contexts[:, step : step + 1])
