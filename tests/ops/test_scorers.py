"""Fused scorers equal the scorers that they replace."""

import pytest
import torch

from seq2seq_attn.attention import Additive, Attention, Concat, NegativeSquaredDistance, NormalizedAdditive
from seq2seq_attn.ops import fuse

SENTENCES, STEPS, POSITIONS, QUERY, KEY, HIDDEN = 5, 3, 4, 7, 6, 8


@pytest.fixture(params=[Additive, Concat, NormalizedAdditive])
def attention(request):
    return Attention(request.param(QUERY, KEY, HIDDEN))


def example():
    return torch.randn(SENTENCES, STEPS, QUERY, requires_grad=True), torch.randn(SENTENCES, POSITIONS, KEY)


def test_scores_and_gradients_equal_those_of_the_equation(attention, kernel_or_torch):
    query, keys = example()

    def outcome(scorer):
        scores = scorer(query, scorer.prepare(keys))
        return scores, *torch.autograd.grad(scores.sin().sum(), [query, *scorer.parameters()], allow_unused=True)

    scorer = fuse(attention).scorer
    found = outcome(scorer)
    torch.testing.assert_close(found, outcome(attention.scorer), atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(scorer(query, scorer.prepare(keys)), found[0].detach(), atol=1e-5, rtol=1e-4)


def test_scores_in_bf16_have_the_precision_of_their_inputs(attention, kernel_or_torch):
    query, keys = example()
    exact, scorer = attention.scorer(query, attention.scorer.prepare(keys)), fuse(attention).scorer
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = scorer(query, scorer.prepare(keys))
    torch.testing.assert_close(found.float(), exact, atol=0.05, rtol=0.05)


def test_a_squared_distance_by_one_product_equals_the_equation():
    standard = Attention(NegativeSquaredDistance(KEY, KEY, temperature=3))
    fused = fuse(standard)
    assert type(fused.scorer) is not type(standard.scorer)
    query, keys = torch.randn(SENTENCES, STEPS, KEY), 10 + torch.randn(SENTENCES, POSITIONS, KEY)
    torch.testing.assert_close(fused.scorer(query, keys), standard.scorer(query, keys), atol=1e-4, rtol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        found = fused.scorer(query.bfloat16(), keys.bfloat16())
    torch.testing.assert_close(found.float(), standard.scorer(query, keys), atol=1.0, rtol=0.02)


def test_a_distance_in_double_is_not_rounded():
    torch.manual_seed(2)
    scorer = NegativeSquaredDistance(KEY, KEY)
    query, keys = (1000 + torch.randn(2, size, KEY, dtype=torch.double) for size in (3, 4))
    found = fuse(Attention(scorer)).scorer
    expected = -((query[:, :, None] - keys[:, None]) ** 2).sum(dim=-1)
    torch.testing.assert_close(found(query, found.prepare(keys)), expected, rtol=1e-7, atol=1e-6)


def test_an_autocast_that_no_kernel_knows_runs_what_the_fused_module_stands_for():
    torch.manual_seed(2)
    attention = Attention(Additive(QUERY, KEY, hidden_size=5))
    query, keys = torch.randn(2, 3, QUERY), torch.randn(2, 4, KEY)
    with torch.autocast("cpu", torch.float16):
        for module in (attention, fuse(attention)):
            context, _ = module(query, module.prepare(keys))
            torch.testing.assert_close(context.float(), attention(query, attention.prepare(keys))[0].float())
