"""Cells against torch's own, with the same weights."""

import pytest
import torch
from torch import nn

from seq2seq_attn.models.recurrent.cells import CELLS, GRUCell

INPUT, HIDDEN, STEPS, BATCH = 3, 5, 4, 2


def torch_twin(name, cell, from_input):
    layer = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}[name](INPUT, HIDDEN).double()
    with torch.no_grad():
        layer.weight_ih_l0.copy_(from_input.weight)
        layer.bias_ih_l0.copy_(from_input.bias)
        layer.weight_hh_l0.copy_(cell.recurrent.weight)
        layer.bias_hh_l0.copy_(cell.recurrent.bias)
    return layer


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_run_over_all_steps_equals_the_layer_of_torch(name):
    cell = CELLS[name](HIDDEN).double()
    from_input = nn.Linear(INPUT, cell.gate_size).double()
    inputs = torch.randn(STEPS, BATCH, INPUT, dtype=torch.double)
    hidden = torch.randn(BATCH, HIDDEN, dtype=torch.double)
    states = cell.run(from_input(inputs), cell.initial(hidden))
    start = (hidden[None], torch.zeros(1, BATCH, HIDDEN).double()) if name == "lstm" else hidden[None]
    expected, _ = torch_twin(name, cell, from_input)(inputs, start)
    torch.testing.assert_close(cell.output(states), expected)


def test_a_gru_step_worked_by_hand():
    """One unit, all weights 1, biases 0, H = 0.5, inputs' share of r, z and n: 0, 0, 1."""
    cell = GRUCell(1).double()
    with torch.no_grad():
        cell.recurrent.weight.fill_(1)
        cell.recurrent.bias.fill_(0)
    new = cell(torch.tensor([[0.0, 0.0, 1.0]]).double(), torch.tensor([[0.5]]).double())
    # r = z = sigmoid(0.5) = 0.62245933; n = tanh(1 + r * 0.5) = tanh(1.31122967) = 0.864586
    # H' = (1 - z) n + z * 0.5 = 0.37754067 * 0.864586 + 0.31122967
    assert new.item() == pytest.approx(0.637646, abs=2e-6)


def test_with_layer_normalisation_the_scale_of_the_input_does_not_matter():
    cell = GRUCell(HIDDEN, layer_norm=True).double()
    gates, state = torch.randn(BATCH, 3 * HIDDEN).double(), torch.randn(BATCH, HIDDEN).double()
    torch.testing.assert_close(cell(gates * 1000, state), cell(gates * 2000, state), atol=1e-6, rtol=0)
    plain = GRUCell(HIDDEN).double()
    assert not torch.allclose(plain(gates, state), plain(gates * 2, state), atol=1e-3)
