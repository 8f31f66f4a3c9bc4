"""Fused additive scores are those of the scorers that they stand in for."""

import pytest
import torch

from seq2seq_attn.attention import Additive, Attention, Concat, NegativeSquaredDistance, NormalisedAdditive
from seq2seq_attn.ops import fused_scorers, reference
from seq2seq_attn.ops.replace import use_fused_modules

SENTENCES, STEPS, POSITIONS, QUERY, KEY, HIDDEN = 5, 3, 4, 7, 6, 8


@pytest.fixture(params=[Additive, Concat, NormalisedAdditive])
def attention(request):
    attention = Attention(request.param(QUERY, KEY, HIDDEN))
    use_fused_modules(attention)
    return attention


def example():
    return torch.randn(SENTENCES, STEPS, QUERY, requires_grad=True), torch.randn(SENTENCES, POSITIONS, KEY)


def test_scores_and_gradients_are_those_of_the_equation(attention, kernel_or_torch):
    query, keys = example()
    scorer = attention.scorer

    def outcome():
        scores = scorer(query, scorer.prepare(keys))
        return scores, *torch.autograd.grad(scores.sin().sum(), [query, *scorer.parameters()], allow_unused=True)

    fused = outcome()
    with reference():
        torch.testing.assert_close(fused, outcome(), atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(scorer(query, scorer.prepare(keys)), fused[0].detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("numbers", [1, 2 * STEPS * POSITIONS * HIDDEN])
def test_a_search_scores_a_few_sentences_at_a_time_as_all_at_once(attention, numbers, monkeypatch):
    monkeypatch.setattr(fused_scorers.native, "has_kernels", lambda tensor: False)
    query, keys = example()
    scores = attention.scorer(query, attention.scorer.prepare(keys)).detach()
    monkeypatch.setattr(fused_scorers, "CACHE_NUMBERS", numbers)  # one sentence, two sentences
    with torch.inference_mode():
        found = attention.scorer(query, attention.scorer.prepare(keys))
    torch.testing.assert_close(found.clone(), scores)


def test_half_precision_is_as_exact_as_its_inputs(attention, kernel_or_torch):
    query, keys = example()
    exact = attention.scorer(query, attention.scorer.prepare(keys))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = attention.scorer(query, attention.scorer.prepare(keys))
    torch.testing.assert_close(found.float(), exact, atol=0.05, rtol=0.05)


def test_a_squared_distance_by_one_product_is_that_of_the_equation():
    plain, fused = (Attention(NegativeSquaredDistance(KEY, KEY, temperature=3)) for _ in range(2))
    use_fused_modules(fused)
    assert type(fused.scorer) is not type(plain.scorer)
    query, keys = torch.randn(SENTENCES, STEPS, KEY), 10 + torch.randn(SENTENCES, POSITIONS, KEY)
    torch.testing.assert_close(fused.scorer(query, keys), plain.scorer(query, keys), atol=1e-4, rtol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        found = fused.scorer(query.bfloat16(), keys.bfloat16())
    torch.testing.assert_close(found.float(), plain.scorer(query, keys), atol=1.0, rtol=0.02)
