"""Dropout: how many elements are dropped, how the others are scaled, and that decisions are independent."""

import pytest
import torch
from torch import nn

from seq2seq_attn.models.transformer.layers import Residual
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.ops.layers import Dropout

COUNT = 200_003  # not a multiple of the number of decisions per draw


pytestmark = pytest.mark.skipif(not native.has_kernels(torch.empty(0)), reason="no compiler here")


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_a_fraction_p_is_dropped_and_the_rest_is_scaled_by_1_over_1_minus_p(p):
    torch.manual_seed(1)
    dropped = Dropout(p).train()(torch.full((COUNT,), 2.0))
    share = (dropped == 0).double().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / COUNT) ** 0.5  # five standard deviations
    torch.testing.assert_close(dropped[dropped != 0].unique(), torch.tensor([2 / (1 - p)]), rtol=2e-4, atol=0)


@pytest.mark.parametrize(("row", "rows"), [(4, 30_000), (512, 4_000)])
def test_elements_of_a_row_are_dropped_independently(row, rows):
    """Rows are as long as those of real tensors."""
    torch.manual_seed(1)
    kept = (Dropout(0.5).train()(torch.ones(row * rows)) > 0).double().view(rows, row)
    correlation = torch.corrcoef(kept.t()) - torch.eye(row)
    assert correlation.abs().max() < 6 / rows**0.5


def test_successive_masks_are_independent():
    torch.manual_seed(1)
    dropout, ones = Dropout(0.5).train(), torch.ones(30_000)
    kept = torch.stack([dropout(ones) > 0 for _ in range(40)]).double()
    assert (torch.corrcoef(kept) - torch.eye(40)).abs().max() < 6 / 30_000**0.5
    # The number of dropped elements has the variance of independent draws.
    assert 0.4 < kept.sum(dim=1).var() / (30_000 / 4) < 2.1


@pytest.mark.parametrize("dtype", [torch.double, torch.float32, torch.bfloat16])
def test_the_gradient_has_the_same_mask(dtype):
    torch.manual_seed(1)
    x = torch.ones(5, 7, dtype=dtype, requires_grad=True).t()
    dropped = Dropout(0.25).train()(x)
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, dropped.detach())
    assert dropped.dtype == dtype
    assert 0 < (gradient == 0).sum() < gradient.numel()


def test_a_dropout_that_a_user_changed_is_called():
    class Half(nn.Module):
        def forward(self, y):
            return y / 2

    hooked = nn.Dropout(0.5)
    hooked.register_forward_hook(lambda module, inputs, output: output * 0)
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    for dropout, expected in ((Half(), x + y / 2), (hooked, x)):
        residual = Residual(5, "pre").train()
        residual.dropout = dropout
        assert torch.equal(fuse(residual).after(x, y), expected)


@pytest.mark.parametrize("count", [20, 30_001])
def test_the_halves_of_a_tensor_are_dropped_independently(count):
    """In the kernel, one hash decides on an element of each half."""
    torch.manual_seed(1)
    dropout, draws = Dropout(0.5).train(), 60_000 // count
    kept = torch.stack([dropout(torch.ones(count)) > 0 for _ in range(draws)]).double()
    halves = torch.stack([kept[:, : count // 2].flatten(), kept[:, count // 2 : count // 2 * 2].flatten()])
    assert torch.corrcoef(halves)[0, 1].abs() < 5 / halves.shape[1] ** 0.5


def test_the_seed_determines_the_mask():
    dropout, x = Dropout(0.3).train(), torch.ones(3, 11)
    torch.manual_seed(1)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("p", "training", "kept"), [(0.3, False, 1), (0.0, True, 1), (1.0, True, 0)])
def test_nothing_or_everything_is_dropped(p, training, kept):
    x = torch.randn(3, 5)
    assert torch.equal(Dropout(p).train(training)(x), kept * x)
