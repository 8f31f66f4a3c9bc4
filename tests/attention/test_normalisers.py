"""From scores to weights, for every normaliser of the registry."""

import pytest
import torch

from seq2seq_attn.attention import Normaliser, Softmax, normaliser_classes

B, T, S = 2, 3, 5
IS_TOKEN = torch.tensor([[True, True, True, True, False], [False, True, True, False, False]])[:, None]


@pytest.fixture(params=normaliser_classes().values(), ids=normaliser_classes().keys())
def normaliser(request):
    return request.param()


def test_padding_gets_exactly_0_and_the_rest_is_as_if_it_were_not_there(normaliser):
    scores = torch.randn(B, T, S)
    weights = normaliser(scores, IS_TOKEN)
    assert (weights.masked_select(~IS_TOKEN) == 0).all()
    torch.testing.assert_close(weights[0, :, :4], normaliser(scores[0, :, :4]))
    torch.testing.assert_close(weights[1, :, 1:3], normaliser(scores[1, :, 1:3]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_no_nan_in_value_or_gradient_in_any_precision(normaliser, dtype, size):
    scores = size * torch.randn(B, T, S, dtype=dtype)
    scores[0, :, 1] = -torch.inf  # a position that the scorer itself excludes
    scores.requires_grad_()
    weights = normaliser(scores, IS_TOKEN)
    assert weights.dtype == dtype
    assert weights.isfinite().all()
    assert (weights[0, :, 1] == 0).all()
    (weights * torch.randn(B, T, S, dtype=dtype)).sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad.masked_select(~IS_TOKEN) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_and_rounded_once_at_the_end(dtype, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.normaliser._normalisers._classes", {})

    class StepByStep(Normaliser):  # torch.softmax alone would hide what precision it was given
        def normalise(self, scores):
            exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
            return exponentials / exponentials.sum(-1, keepdim=True)

    scores = torch.randn(B, T, 300).to(dtype)
    assert torch.equal(StepByStep()(scores), StepByStep()(scores.float()).to(dtype))


def test_scores_of_any_number_of_dimensions_and_masks_that_broadcast(normaliser):
    scores = torch.randn(4, B, T, S)
    assert torch.equal(normaliser(scores, IS_TOKEN)[2], normaliser(scores[2], IS_TOKEN))
    assert torch.equal(normaliser(scores[0, 0, 0], IS_TOKEN[1, 0]), normaliser(scores[0], IS_TOKEN[1])[0, 0])


def test_softmax_by_hand():
    scores = torch.tensor([0.0, 1, 5, 2], dtype=torch.double)
    weights = Softmax()(scores, torch.tensor([True, True, False, True]))
    expected = torch.tensor([0.09003057, 0.24472847, 0, 0.66524096], dtype=torch.double)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-8)


def test_softmax_gradient_is_that_of_finite_differences():
    scores = torch.randn(B, T, S, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scores: Softmax()(scores, IS_TOKEN), scores)
