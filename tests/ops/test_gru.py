"""Fused forms equal their reference implementations, with their gradients."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq_attn.models.recurrent.cells import CELLS
from seq2seq_attn.models.recurrent.encoder import LAYERS
from seq2seq_attn.ops.gru import FusedGRUUpdate, gru_update, reference_gru_update, run_packed

BATCH, HIDDEN, INPUT = 4, 5, 3


def test_the_fused_gru_update_equals_the_reference_implementation():
    inputs = [torch.randn(BATCH, size, dtype=torch.double, requires_grad=True) for size in (15, 15, 5)]
    torch.testing.assert_close(FusedGRUUpdate.apply(*inputs), reference_gru_update(*inputs))
    assert torch.autograd.gradcheck(FusedGRUUpdate.apply, inputs)


def test_the_gru_update_in_bf16_has_the_precision_of_bf16():
    inputs = [torch.randn(BATCH, size, dtype=torch.bfloat16) for size in (15, 15, 5)]
    exact = reference_gru_update(*(part.double() for part in inputs))
    torch.testing.assert_close(gru_update(*inputs).double(), exact, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_outputs_and_gradients_of_a_packed_layer_equal_those_of_torch(name, bidirectional):
    layer = LAYERS[name](INPUT, HIDDEN, bidirectional=bidirectional, batch_first=True)
    sentences = torch.randn(BATCH, 6, INPUT, requires_grad=True)
    lengths = torch.tensor([2, 6, 6, 3])

    def outcome(run):
        packed = pack_padded_sequence(sentences, lengths, batch_first=True, enforce_sorted=False)
        states = pad_packed_sequence(run(packed), batch_first=True)[0]
        loss = (states * torch.arange(states.numel()).view_as(states).sin()).sum()
        return states, *torch.autograd.grad(loss, [sentences, *layer.parameters()])

    expected = outcome(lambda packed: layer(packed)[0])
    for got, wanted in zip(
        outcome(lambda packed: run_packed(layer, packed, CELLS[name].update, CELLS[name].states)),
        expected,
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)
