"""From scores to weights: the contract of every registered normalizer, and properties specific to some."""

import pytest
import torch
from catalog import NORMALIZERS

from seq2seq_attn.attention import Entmax15, Gumbel, Hard, Normalizer, Softmax, Sparsemax

B, T, S = 2, 3, 5
IS_TOKEN = torch.tensor([[True, True, True, True, False], [False, True, True, False, False]])[:, None]
OF_ROWS = {name: make for name, make in NORMALIZERS.items() if not make().needs_history}  # whatever stands around them


@pytest.fixture(params=NORMALIZERS.values(), ids=NORMALIZERS.keys())
def normalizer(request):
    return request.param().eval()


def test_padding_gets_exactly_0_and_does_not_affect_the_rest(normalizer):
    scores = torch.randn(B, T, S)
    weights = normalizer(scores, IS_TOKEN)
    assert (weights.masked_select(~IS_TOKEN) == 0).all()
    torch.testing.assert_close(weights[:1, :, :4], normalizer(scores[:1, :, :4]))
    torch.testing.assert_close(weights[1:, :, 1:3], normalizer(scores[1:, :, 1:3]))


@pytest.mark.parametrize("training", [True, False])
def test_no_weight_is_negative_and_rows_sum_to_1_where_the_definition_says_so_and_only_there(normalizer, training):
    weights = normalizer.train(training)(torch.randn(B, T, S) - 5, IS_TOKEN)
    assert (weights >= 0).all()
    assert torch.allclose(weights.sum(dim=-1), torch.ones(B, T)) == normalizer.sums_to_one


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_no_nan_in_value_or_gradient_in_any_precision(normalizer, training, dtype, size):
    scores = size * torch.randn(B, T, S, dtype=dtype)
    scores[0, :, 1] = -torch.inf  # a position that the scorer itself excludes
    scores.requires_grad_()
    weights = normalizer.train(training)(scores, IS_TOKEN)
    assert weights.dtype == dtype
    assert weights.isfinite().all()
    assert (weights[0, :, 1] == 0).all()
    if weights.requires_grad:  # not those of a walk that was taken
        (weights * torch.randn(B, T, S, dtype=dtype)).sum().backward()
        assert scores.grad.isfinite().all()
        assert (scores.grad.masked_select(~IS_TOKEN) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_that_have_overflowed_half_precision_give_no_nan(normalizer, dtype):
    scores = torch.tensor([[[torch.inf, 1, torch.inf, -torch.inf, 1]]], dtype=dtype)
    weights = normalizer(scores)
    assert weights.isfinite().all()
    assert (weights[..., 3] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_and_rounded_once_at_the_end(dtype, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.normalizer._normalizers._classes", {})

    class StepByStep(Normalizer):  # torch.softmax alone would hide what precision it was given
        def normalize(self, scores):
            exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
            return exponentials / exponentials.sum(-1, keepdim=True)

    scores = torch.randn(B, T, 300).to(dtype)
    assert torch.equal(StepByStep()(scores), StepByStep()(scores.float()).to(dtype))


@pytest.mark.parametrize("make", OF_ROWS.values(), ids=OF_ROWS.keys())
def test_scores_of_any_number_of_dimensions_and_masks_that_broadcast(make):
    normalizer, scores = make().eval(), torch.randn(4, B, T, S)
    torch.testing.assert_close(normalizer(scores, IS_TOKEN)[2], normalizer(scores[2], IS_TOKEN))
    torch.testing.assert_close(normalizer(scores[0, 0, 0], IS_TOKEN[1, 0]), normalizer(scores[0], IS_TOKEN[1])[0, 0])


@pytest.mark.parametrize("normalizer", [Softmax(1e-6), Gumbel(1e-6)])
def test_the_lowest_temperature_reads_the_highest_score_without_nan(normalizer):
    scores = torch.tensor([3.0, -1e4, 3.001, 1e4, -torch.inf], dtype=torch.float16, requires_grad=True)
    weights = normalizer.eval()(scores)
    assert weights.tolist() == [0, 0, 0, 1, 0]
    weights[0].backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("normalizer", [Softmax(1e-46), Gumbel(1e-300)])
def test_a_temperature_below_the_numbers_of_the_scores_is_their_smallest(normalizer):
    assert normalizer.eval()(torch.tensor([1.0, 3.0, 2.0])).tolist() == [0, 1, 0]


def test_a_higher_temperature_spreads_the_weights():
    scores = torch.tensor([0.0, 1, 3])
    cold, plain, warm = (Softmax(temperature)(scores).max() for temperature in (0.5, 1, 2))
    assert cold > plain > warm


@pytest.mark.parametrize("cls", [Sparsemax, Entmax15])
def test_a_long_row_in_float32_sums_to_1_and_is_that_of_float64(cls):
    scores = torch.randn(3, 5000)
    weights = cls()(scores)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3))
    torch.testing.assert_close(weights.double(), cls()(scores.double()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("cls", [Sparsemax, Entmax15])
def test_equal_scores_get_equal_weights(cls):
    weights = cls()(torch.tensor([7.0, -3, 7, 7, -3]))
    torch.testing.assert_close(weights, torch.tensor([1 / 3, 0, 1 / 3, 1 / 3, 0]))


def test_hard_reads_one_token_with_the_gradient_of_softmax():
    scores = torch.tensor([[0.3, 2.0, 1.9, 5.0]], requires_grad=True)
    is_token, direction = torch.tensor([True, True, True, False]), torch.tensor([0.5, -1, 2, 4])
    weights = Hard()(scores, is_token)
    assert weights.tolist() == [[0, 1, 0, 0]]
    of_hard, of_softmax = (
        torch.autograd.grad((found * direction).sum(), scores) for found in (weights, Softmax()(scores, is_token))
    )
    torch.testing.assert_close(of_hard, of_softmax, rtol=0, atol=0)


@pytest.mark.parametrize("normalizer", [Hard(), Gumbel(hard=True)])
def test_what_is_hard_is_exactly_0_or_1(normalizer):
    weights = normalizer(torch.randn(500, S))
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.sum(dim=-1) == 1).all()


def test_gumbel_draws_tokens_as_softmax_weighs_them():
    scores = torch.tensor([0.0, 1, -1, 2])
    torch.manual_seed(7)
    drawn = Gumbel(temperature=0.5, hard=True)(scores.expand(20_000, -1))
    torch.testing.assert_close(drawn.mean(dim=0), torch.softmax(scores, dim=-1), rtol=0, atol=0.015)


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_has_noise_in_training_mode_only(hard):
    gumbel, scores = Gumbel(hard=hard), torch.randn(B, T, 40)
    assert not torch.equal(gumbel(scores), gumbel(scores))
    assert torch.equal(gumbel.eval()(scores), (Hard() if hard else Softmax())(scores))


def test_gumbel_under_vmap_draws_anew_for_each():
    scores = torch.zeros(4, B, S)
    drawn = torch.func.vmap(Gumbel(), randomness="different")(scores)
    assert len(drawn.flatten(1).unique(dim=0)) == 4
    torch.testing.assert_close(drawn.sum(dim=-1), torch.ones(4, B))
