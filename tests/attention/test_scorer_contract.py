"""The contract of every scorer. The scorers come from the registry, so new ones are covered automatically."""

import pytest
import torch
from catalog import KEY, SCORERS

from seq2seq_attn.attention import Attention, HistoryScorer, Sigmoid, scorer_class
from seq2seq_attn.attention.registry import config_name

B, T, S = 2, 3, 4
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])


@pytest.fixture(params=SCORERS.values(), ids=SCORERS.keys())
def scorer(request):
    torch.manual_seed(3)
    return request.param()


@pytest.fixture
def query(scorer):
    return torch.randn(B, T, scorer.query_size)


@pytest.fixture
def keys():
    return torch.randn(B, S, KEY)


def read(scorer, query, keys, is_token=IS_TOKEN, normalizer=None):
    attention = Attention(scorer, normalizer)
    return attention(query, attention.prepare(keys, is_token=is_token))


def test_scores_are_batch_by_query_by_position(scorer, query, keys):
    scores = scorer(query, scorer.prepare(keys))
    assert scores.shape == (B, T, S)
    assert scores.dtype == keys.dtype


def test_queries_at_once_score_as_one_by_one(scorer, query, keys):
    prepared = scorer.prepare(keys)
    one_by_one = [scorer(query[:, t : t + 1], prepared) for t in range(T)]
    torch.testing.assert_close(scorer(query, prepared), torch.cat(one_by_one, dim=1))


def test_a_call_leaves_no_state_behind(scorer, query, keys):
    before = query.clone(), keys.clone()
    first = scorer(query, scorer.prepare(keys))
    scorer(-query, scorer.prepare(-keys))
    assert torch.equal(scorer(query, scorer.prepare(keys)), first)
    assert torch.equal(query, before[0])
    assert torch.equal(keys, before[1])


def test_more_padding_changes_nothing(scorer, query, keys):
    context, weights = read(scorer, query, keys)
    longer = torch.cat((keys, torch.randn(B, 2, KEY)), dim=1)
    context_longer, weights_longer = read(scorer, query, longer, torch.nn.functional.pad(IS_TOKEN, (0, 2)))
    torch.testing.assert_close(context_longer, context)
    torch.testing.assert_close(weights_longer[:, :, :S], weights)
    assert (weights_longer[:, :, S:] == 0).all()
    assert (weights[1, :, 2:] == 0).all()


def test_the_content_of_padding_changes_nothing(scorer, query, keys):
    context, _ = read(scorer, query, keys)
    other = torch.where(IS_TOKEN[:, :, None], keys, 1e4)
    torch.testing.assert_close(read(scorer, query, other)[0], context)


def test_permuting_the_batch_permutes_the_output(scorer, query, keys):
    rows = torch.tensor([1, 0])
    for permuted, output in zip(
        read(scorer, query[rows], keys[rows], IS_TOKEN[rows]), read(scorer, query, keys), strict=True
    ):
        torch.testing.assert_close(permuted, output[rows])


def test_selecting_rows_of_a_source_is_preparing_those_rows(scorer, query, keys):
    rows = torch.tensor([1, 1, 0])
    attention = Attention(scorer)
    selected = attention.prepare(keys, is_token=IS_TOKEN).select(rows)
    context, weights = attention(query[rows], selected)
    expected_context, expected_weights = read(scorer, query[rows], keys[rows], IS_TOKEN[rows])
    torch.testing.assert_close(context, expected_context)
    torch.testing.assert_close(weights, expected_weights)


def test_rows_of_weights_sum_to_1(scorer, query, keys):
    torch.testing.assert_close(read(scorer, query, keys)[1].sum(dim=-1), torch.ones(B, T))


def test_gradients_are_those_of_finite_differences(scorer, query, keys):
    scorer = scorer.double()
    inputs = (query.double().requires_grad_(), keys.double().requires_grad_())

    def score(query, keys, *parameters):  # the scorer's own, which gradcheck moves in place
        return scorer(query, scorer.prepare(keys))

    assert torch.autograd.gradcheck(score, (*inputs, *scorer.parameters()))


def test_every_parameter_gets_a_gradient(scorer, query, keys):
    # Under softmax, what adds the same to all scores of a row would get none.
    read(scorer, query, keys.requires_grad_(), normalizer=Sigmoid())[0].sum().backward()
    for name, parameter in scorer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("only_token", [0, S - 1])
@pytest.mark.parametrize("size", [0.0, 1e4])
def test_no_nan_with_one_token_and_vectors_however_large(scorer, query, keys, only_token, size):
    is_token = torch.zeros(B, S, dtype=torch.bool)
    is_token[:, only_token] = True
    query, keys = (size * query).requires_grad_(), (size * keys).requires_grad_()
    context, weights = read(scorer, query, keys, is_token)
    assert torch.equal(weights, is_token[:, None].expand(B, T, S).float())
    context.sum().backward()
    for tensor in (query, keys, *scorer.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()


def test_a_scorer_says_what_it_is(scorer):
    cls = type(scorer)
    assert scorer_class(config_name(cls)) is cls
    assert cls.equation
    assert cls.source
    assert cls.__doc__
    assert cls.needs_history == issubclass(cls, HistoryScorer)
