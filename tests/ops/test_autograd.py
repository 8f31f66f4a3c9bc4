"""What all operations with a backward pass of their own have in common."""

import pytest
import torch

from seq2seq_attn.ops.gru import gru_sequence
from seq2seq_attn.ops.layers import Dropout
from seq2seq_attn.ops.loss import fused_loss
from seq2seq_attn.ops.recurrent import scan

OPERATIONS = {
    "scan": lambda x: scan(x, x, [2, 1]),
    "gru": lambda x: gru_sequence(x, [2, 1], None, torch.ones(6, 2), torch.ones(6)),
    "dropout": lambda x: Dropout(0.5)(x) + x,
    "loss": lambda x: fused_loss(x, torch.ones(4, 6), torch.zeros(4), torch.tensor([1, 2, 3]), 0.0)[0],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_second_derivatives_are_refused_with_the_way_out(name):
    x = torch.randn(3, 6, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"within seq2seq_attn\.ops\.reference\(\)"):
        torch.autograd.grad(OPERATIONS[name](x).sum(), x, create_graph=True)
