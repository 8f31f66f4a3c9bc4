"""Windows around a scorer: local-m and local-p of Luong et al. 2015 and random tokens, written again in NumPy."""

from functools import partial

import numpy as np
import pytest
import torch
from finite_differences import numeric_gradient

from seq2seq_attn.attention import (
    Attention,
    General,
    LocalM,
    LocalP,
    LocationAware,
    RandomToken,
    each_tensor,
    window_classes,
)

B, T, S, QUERY, KEY, HIDDEN = 3, 5, 8, 4, 6, 7
IS_TOKEN = torch.tensor(
    [
        [True, True, True, True, True, True, True, True],
        [True, True, True, True, True, False, False, False],
        [False, False, False, True, True, True, True, False],
    ]
)
# Whatever the scorer, these read one token per step.
ONE_TOKEN = {"diagonal": partial(LocalM, QUERY, half_width=0), "random_token": partial(RandomToken, QUERY, seed=3)}
NARROW = {
    **{name: partial(cls, QUERY) for name, cls in window_classes().items()},
    **{cls.__name__: partial(cls, QUERY, half_width=1) for cls in (LocalM, LocalP)},
    **ONE_TOKEN,
}


@pytest.fixture
def query():
    torch.manual_seed(5)
    return torch.randn(B, T, QUERY, dtype=torch.double)


@pytest.fixture
def keys():
    torch.manual_seed(6)
    return torch.randn(B, S, KEY, dtype=torch.double)


def attention(window):
    torch.manual_seed(7)
    return Attention(General(QUERY, KEY), window=window).double()


def tokens(b):
    return IS_TOKEN[b].nonzero().flatten()


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def scores_of(model, query, keys, b, t):
    """Of the tokens alone, padding left out."""
    return keys[b, tokens(b)].numpy() @ model.scorer.key_layer.weight.detach().numpy().T @ query[b, t].numpy()


def test_local_m_reads_the_words_around_the_step(query, keys):
    model = attention(LocalM(QUERY, half_width=1))
    _, weights = model(query, model.prepare(keys, is_token=IS_TOKEN))
    for b, t in np.ndindex(B, T):
        scores = scores_of(model, query, keys, b, t)
        center = min(t, len(scores) - 1)
        near = [s for s in range(len(scores)) if abs(s - center) <= 1]
        expected = np.zeros(len(scores))
        expected[near] = softmax(scores[near])
        np.testing.assert_allclose(weights[b, t, tokens(b)].detach().numpy(), expected, rtol=0, atol=1e-10)
    assert (weights.masked_select(~IS_TOKEN[:, None]) == 0).all()


def one_of(name, step, tokens, seed=3):
    """The only token that a step reads."""
    if name == "diagonal":
        return min(step, tokens - 1)
    prime = 65_537
    drawn = ((40_503 * seed + 12_553 * tokens) ** 3 + 25_717 * step) ** 3 % prime
    return drawn * tokens // prime


@pytest.mark.parametrize("name", ONE_TOKEN)
def test_the_weights_of_a_window_of_one_token_are_one_there_whatever_the_scorer(query, keys, name):
    model = attention(ONE_TOKEN[name]())
    contexts, weights = model(query, model.prepare(keys, is_token=IS_TOKEN))
    expected = torch.zeros(B, T, S, dtype=torch.double)
    for b, t in np.ndindex(B, T):
        expected[b, t, tokens(b)[one_of(name, t, len(tokens(b)))]] = 1
    assert torch.equal(weights, expected)
    torch.testing.assert_close(contexts, expected @ keys)
    assert torch.equal(model(100 * query, model.prepare(keys, is_token=IS_TOKEN))[1], weights)


@pytest.mark.parametrize("name", ONE_TOKEN)
def test_training_and_steps_of_reordered_hypotheses_read_the_same_token(query, keys, name):
    model = attention(ONE_TOKEN[name]())
    source = model.prepare(keys, is_token=IS_TOKEN)
    at_once, history = model.train()(query, source)[1], model.eval().start(source)
    history = each_tensor(lambda tensor: tensor.expand(B, 2, *tensor.shape[2:]), history)
    for t in range(T):
        _, weights, history = model(torch.randn(B, 2, QUERY, dtype=torch.double), source, history)
        assert torch.equal(weights, at_once[:, [t, t]])
        history = each_tensor(lambda tensor: tensor.flip(1), history)


def test_random_tokens_are_uniform_and_tell_nothing_of_the_diagonal_or_the_next_token():
    steps, lengths = 400, range(2, 21)
    hits = {"first": 0, "again": 0, "diagonal": 0}
    for tokens in lengths:
        window, is_token = RandomToken(QUERY), torch.ones(1, 1, tokens, dtype=torch.bool)
        view = window(torch.zeros(1, steps, QUERY), is_token, torch.arange(steps)[None])
        read = view.is_open[0].int().argmax(dim=-1)
        # By chance each of these happens in a share of 1 / tokens of the steps.
        hits["first"] += (read == 0).double().mean().item() * tokens
        hits["again"] += (read[1:] == read[:-1]).double().mean().item() * tokens
        hits["diagonal"] += (read == torch.arange(steps) % tokens).double().mean().item() * tokens
    deviation = (sum(tokens - 1 for tokens in lengths) / steps) ** 0.5
    for name, sum_of_ratios in hits.items():
        assert abs(sum_of_ratios - len(lengths)) < 4 * deviation, name


def test_another_seed_or_length_draws_other_tokens():
    def read(seed, tokens):
        view = RandomToken(QUERY, seed)(
            torch.zeros(1, 60, QUERY), torch.ones(1, 1, tokens, dtype=torch.bool), torch.arange(60)[None]
        )
        return view.is_open[0].int().argmax(dim=-1)

    one = read(0, 10)
    for other in (read(1, 10), read(0, 11)):
        assert (one == other).double().mean() < 0.3  # a tenth by chance


def local_p(w, v, query, scores, half_width=2):
    """Eq. 9 and 10, and nothing outside of the window."""
    center = len(scores) / (1 + np.exp(-v @ np.tanh(w @ query)))
    s = np.arange(1, len(scores) + 1)
    near = np.abs(s - center) <= half_width
    weights = np.zeros(len(scores))
    weights[near] = softmax(scores[near]) * np.exp(-((s[near] - center) ** 2) / (2 * (half_width / 2) ** 2))
    return weights


def test_local_p_predicts_where_to_read_and_weighs_by_a_gaussian(query, keys):
    model = attention(LocalP(QUERY, half_width=2, hidden_size=HIDDEN))
    _, weights = model(query, model.prepare(keys, is_token=IS_TOKEN))
    w, v = model.window.hidden_layer.weight.detach().numpy(), model.window.v.weight[0].detach().numpy()
    for b, t in np.ndindex(B, T):
        expected = local_p(w, v, query[b, t].numpy(), scores_of(model, query, keys, b, t))
        np.testing.assert_allclose(weights[b, t, tokens(b)].detach().numpy(), expected, rtol=0, atol=1e-10)
    assert (weights.masked_select(~IS_TOKEN[:, None]) == 0).all()


def test_local_p_learns_where_to_read(query, keys):
    model = attention(LocalP(QUERY, half_width=2, hidden_size=HIDDEN))
    source = model.prepare(keys, is_token=IS_TOKEN)
    direction = torch.randn(T, S, dtype=torch.double)
    (model(query, source)[1][1] * direction).sum().backward()
    layers = {"W": model.window.hidden_layer.weight, "v": model.window.v.weight}

    for name, parameter in layers.items():

        def along_direction(moved, name=name):
            now = {other: layer.detach().numpy() for other, layer in layers.items()} | {name: moved}
            rows = [
                local_p(now["W"], now["v"][0], query[1, t].numpy(), scores_of(model, query, keys, 1, t))
                for t in range(T)
            ]
            return (np.array(rows) * direction[:, tokens(1)].numpy()).sum()

        expected = numeric_gradient(along_direction, parameter.detach().numpy())
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(parameter.grad.numpy(), expected, rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("make", NARROW.values(), ids=NARROW.keys())
def test_something_is_always_open_however_far_the_step_and_narrow_the_window(make):
    model = attention(make())
    query = 100 * torch.randn(B, 3 * S, QUERY, dtype=torch.double)
    _, weights = model(query, model.prepare(torch.randn(B, S, KEY, dtype=torch.double), is_token=IS_TOKEN))
    assert weights.isfinite().all()
    assert (weights.sum(dim=-1) > 0).all()


def test_one_token_is_read_whatever_the_window(query, keys):
    is_token = torch.zeros(B, S, dtype=torch.bool)
    is_token[:, 3] = True
    for make in NARROW.values():
        model = attention(make())
        _, weights = model(query, model.prepare(keys, is_token=is_token))
        assert (weights[:, :, 3] > 0).all()
        assert (weights.sum(dim=-1) == weights[:, :, 3]).all()


def test_hypotheses_after_different_numbers_of_steps_have_windows_of_their_own(query, keys):
    model = attention(LocalM(QUERY, half_width=1))
    source = model.prepare(keys)
    late, early = model.start(source), model.start(source)
    for t in range(4):
        _, _, late = model(query[:, t : t + 1], source, late)
    together = each_pair(late, early)
    one = query[:, :1]
    _, weights, _ = model(one.expand(B, 2, QUERY), source, together)
    torch.testing.assert_close(weights[:, :1], model(one, source, late)[1])
    torch.testing.assert_close(weights[:, 1:], model(one, source, early)[1])
    assert (weights[:, 0] > 0).sum(dim=-1).tolist() == [3] * B  # words 3 to 5
    assert (weights[:, 1] > 0).sum(dim=-1).tolist() == [2] * B  # words 0 and 1


def each_pair(one, other):
    """Two histories side by side, as two hypotheses."""
    if isinstance(one, tuple):
        return tuple(each_pair(*parts) for parts in zip(one, other, strict=True))
    return torch.cat((one, other), dim=1)


def test_all_steps_under_a_window_are_one_call(query, keys):
    model = attention(LocalM(QUERY, half_width=2))
    calls = []
    model.scorer.register_forward_hook(lambda *call: calls.append(call))
    source = model.prepare(keys, is_token=IS_TOKEN)
    at_once = model(query, source)[1]
    assert len(calls) == 1
    history = model.start(source)
    for t in range(T):
        _, weights, history = model(query[:, t : t + 1], source, history)
        torch.testing.assert_close(weights, at_once[:, t : t + 1])


def test_what_a_scorer_remembers_was_read_through_the_window(query, keys):
    model = Attention(LocationAware(QUERY, KEY), window=LocalM(QUERY, half_width=1)).double()
    source = model.prepare(keys)
    _, weights, (of_scorer, _, taken) = model(query[:, :1], source, model.start(source))
    assert torch.equal(of_scorer, weights)
    assert (of_scorer[:, :, 2:] == 0).all()
    assert taken.tolist() == [[1]] * B


def test_a_window_in_bfloat16_distinguishes_far_positions():
    window = LocalP(QUERY, half_width=1).bfloat16()
    torch.nn.init.zeros_(window.v.weight)  # the middle: 301 of 602
    view = window(
        torch.zeros(1, 1, QUERY).bfloat16(), torch.ones(1, 1, 602, dtype=torch.bool), torch.zeros(1, 1).long()
    )
    assert view.is_open.nonzero()[:, 2].tolist() == [299, 300, 301]
    assert view.factor[0, 0, 300] == 1
