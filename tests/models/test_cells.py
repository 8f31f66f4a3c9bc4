"""Cells and stacks of cells equal torch's layers with the same weights."""

import pytest
import torch
from torch import nn

from seq2seq_attn.models.recurrent.cells import CELLS, GRUCell, RNNCell, StackedCell

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


def test_a_gru_step_computed_by_hand():
    """One unit, all weights 1, biases 0, H = 0.5, the inputs of r, z and n: 0, 0, 1."""
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


def stack(name, layers, **options):
    torch.manual_seed(4)
    return StackedCell([CELLS[name](HIDDEN) for _ in range(layers)], **options).double().eval()


@pytest.mark.parametrize("name", CELLS)
def test_a_stack_equals_the_layers_of_torch(name):
    cell, from_input = stack(name, 3), nn.Linear(INPUT, CELLS[name].gates * HIDDEN).double()
    layer = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}[name](INPUT, HIDDEN, num_layers=3).double()
    with torch.no_grad():
        for level, (own, below) in enumerate(zip(cell.cells, [from_input, *cell.input_layers], strict=True)):
            for kind, linear in (("ih", below), ("hh", own.recurrent)):
                getattr(layer, f"weight_{kind}_l{level}").copy_(linear.weight)
                getattr(layer, f"bias_{kind}_l{level}").copy_(linear.bias)
    inputs, hidden = torch.randn(STEPS, BATCH, INPUT).double(), torch.randn(BATCH, HIDDEN).double()
    start = hidden.expand(3, -1, -1).contiguous()
    expected, _ = layer(inputs, (start, torch.zeros_like(start)) if name == "lstm" else start)
    torch.testing.assert_close(cell.output(cell.run(from_input(inputs), cell.initial(hidden))), expected)


def test_residual_connections_lead_to_the_next_layer_and_not_to_the_next_step():
    """Two RNN cells of one unit without recurrent weights: m^1 = tanh(g), m^2 = tanh(3 m^1 + 1), x^2 = m^2 + m^1."""
    cell = StackedCell([RNNCell(1), RNNCell(1)], residual=True).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.input_layers[0].weight.fill_(3)
        cell.input_layers[0].bias.fill_(1)
    state = cell(torch.tensor([[0.5]]).double(), cell.initial(torch.tensor([[0.2]]).double()))
    # tanh(0.5) = 0.46211716, tanh(3 * 0.46211716 + 1) = tanh(2.38635147) = 0.98322688
    assert state.tolist() == [pytest.approx([0.46211716, 0.98322688], abs=1e-7)]
    assert cell.output(state).item() == pytest.approx(1.44534404, abs=1e-7)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("residual", [False, True])
def test_a_stack_feeds_the_output_of_each_cell_to_the_next(name, residual):
    cell = stack(name, 3, residual=residual)
    gates, hidden = torch.randn(BATCH, cell.gate_size).double(), torch.randn(BATCH, HIDDEN).double()
    states = [each.initial(hidden) for each in cell.cells]
    torch.testing.assert_close(cell.initial(hidden), torch.cat(states, dim=-1))
    states[0] = cell.cells[0](gates, states[0])
    below = CELLS[name].output(states[0])
    for level in (1, 2):
        states[level] = cell.cells[level](cell.input_layers[level - 1](below), states[level])
        below = CELLS[name].output(states[level]) + (below if residual else 0)
    state = cell(gates, cell.initial(hidden))
    torch.testing.assert_close(state, torch.cat(states, dim=-1))
    torch.testing.assert_close(cell.output(state), below)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("residual", [False, True])
def test_running_a_stack_layer_by_layer_equals_running_it_step_by_step(name, residual):
    cell = stack(name, 2, residual=residual)
    inputs = torch.randn(STEPS, BATCH, cell.gate_size).double()
    state = cell.initial(torch.randn(BATCH, HIDDEN).double())
    states = cell.run(inputs, state)
    for step, gates in enumerate(inputs):
        state = cell(gates, state)
        torch.testing.assert_close(states[step], state)


def test_a_stack_applies_dropout_between_its_cells():
    cell = stack("gru", 2, dropout=0.5).train()
    gates, state = torch.randn(BATCH, cell.gate_size).double(), torch.randn(BATCH, cell.state_size).double()
    (lower, upper), (lower_again, upper_again) = (cell(gates, state).split(HIDDEN, dim=-1) for _ in range(2))
    assert torch.equal(lower, lower_again)
    assert not torch.equal(upper, upper_again)
    assert torch.equal(cell.eval()(gates, state), cell(gates, state))


def test_cells_of_different_sizes_cannot_be_stacked():
    with pytest.raises(ValueError, match=r"StackedCell needs cells of one hidden_size, got \[5, 6\]"):
        StackedCell([GRUCell(5), GRUCell(6)])
