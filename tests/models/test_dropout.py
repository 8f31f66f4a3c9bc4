"""Dropout: how many fall, what the rest becomes, and when nothing happens."""

import pytest
import torch

from seq2seq_attn.models.dropout import Dropout

COUNT = 200_003  # no multiple of the decisions that a draw makes


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_a_share_p_of_the_numbers_falls_and_the_others_are_scaled_by_1_over_1_minus_p(p):
    torch.manual_seed(1)
    dropped = Dropout(p).train()(torch.full((COUNT,), 2.0))
    share = (dropped == 0).double().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / COUNT) ** 0.5  # five standard deviations
    torch.testing.assert_close(dropped[dropped != 0].unique(), torch.tensor([2 / (1 - p)]), rtol=2e-4, atol=0)


def test_neighbours_fall_independently():
    """Four decisions come from one draw: their correlation is that of chance."""
    torch.manual_seed(1)
    kept = (Dropout(0.5).train()(torch.ones(4 * 50_000)) > 0).double().view(-1, 4)
    correlation = torch.corrcoef(kept.t()) - torch.eye(4)
    assert correlation.abs().max() < 5 / 50_000**0.5


def test_the_gradient_passes_where_the_number_did():
    torch.manual_seed(1)
    x = torch.ones(7, 5, dtype=torch.double, requires_grad=True)
    dropped = Dropout(0.25).train()(x)
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, dropped.detach())
    assert 0 < (gradient == 0).sum() < gradient.numel()


def test_the_seed_decides():
    dropout, x = Dropout(0.3).train(), torch.ones(3, 11)
    torch.manual_seed(1)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("p", "training"), [(0.3, False), (0.0, True)])
def test_nothing_falls_outside_of_training_or_at_0(p, training):
    x = torch.randn(3, 5)
    assert torch.equal(Dropout(p).train(training)(x), x)


def test_everything_falls_at_1():
    assert torch.equal(Dropout(1.0).train()(torch.ones(3, 5)), torch.zeros(3, 5))
