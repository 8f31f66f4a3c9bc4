"""Cells and stacks of cells equal torch's layers with the same weights, or else the equations of their papers."""

import numpy as np
import pytest
import torch
from torch import nn

from seq2seq_attn import ops
from seq2seq_attn.models.recurrent.cells import CELLS, GRUCell, MinGRUCell, RNNCell, SRUCell, StackedCell
from seq2seq_attn.models.recurrent.encoder import LAYERS

INPUT, HIDDEN, STEPS, BATCH = 3, 5, 4, 2


def torch_twin(name, cell, from_input):
    layer = LAYERS[name](INPUT, HIDDEN).double()
    with torch.no_grad():
        layer.weight_ih_l0.copy_(from_input.weight)
        layer.bias_ih_l0.copy_(from_input.bias)
        layer.weight_hh_l0.copy_(cell.recurrent.weight)
        layer.bias_hh_l0.copy_(cell.recurrent.bias)
    return layer


@pytest.mark.parametrize("name", LAYERS)
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


def test_with_layer_normalization_the_scale_of_the_input_does_not_matter():
    cell = GRUCell(HIDDEN, layer_norm=True).double()
    gates, state = torch.randn(BATCH, 3 * HIDDEN).double(), torch.randn(BATCH, HIDDEN).double()
    torch.testing.assert_close(cell(gates * 1000, state), cell(gates * 2000, state), atol=1e-6, rtol=0)
    plain = GRUCell(HIDDEN).double()
    assert not torch.allclose(plain(gates, state), plain(gates * 2, state), atol=1e-3)


SCANS = ["mingru", "sru"]


def mingru_step(gates, state):
    """Feng et al. 2024, sec. 3.1: the update gate z, then the candidate."""
    z, candidate = np.split(gates, 2, axis=-1)
    z = 1 / (1 + np.exp(-z))
    return (1 - z) * state + z * candidate


def sru_step(gates, state):
    """Lei et al. 2018, eq. 1-4 without v: W x, the forget gate, the reset gate, x; the state is [h; c]."""
    w_x, f, r, x = np.split(gates, 4, axis=-1)
    f, r = 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(-r))
    c = f * np.split(state, 2, axis=-1)[1] + (1 - f) * w_x
    return np.concatenate((r * c + (1 - r) * x, c), axis=-1)


@pytest.mark.parametrize(("name", "step"), [("mingru", mingru_step), ("sru", sru_step)])
def test_cells_without_a_recurrent_product_follow_their_papers_at_every_step(name, step):
    cell = CELLS[name](HIDDEN)
    gates, state = torch.randn(STEPS, BATCH, cell.gate_size).double(), torch.randn(BATCH, cell.state_size).double()
    expected = [state.numpy()]
    for g in gates.numpy():
        expected.append(step(g, expected[-1]))
    torch.testing.assert_close(cell(gates[0], state), torch.from_numpy(expected[1]))
    torch.testing.assert_close(cell.run(gates, state), torch.from_numpy(np.stack(expected[1:])))


def test_a_mingru_and_an_sru_step_computed_by_hand():
    # z = sigmoid(ln 3) = 3/4: H' = 1/4 * 8 + 3/4 * -4 = -1
    ln3 = float(np.log(3))
    assert MinGRUCell(1)(torch.tensor([[ln3, -4.0]]), torch.tensor([[8.0]])).item() == pytest.approx(-1)
    # f = 3/4, r = 1/4: c' = 3/4 * 8 + 1/4 * -4 = 5;  H' = 1/4 * 5 + 3/4 * 3 = 3.5.  The previous H, 100, is not read.
    state = SRUCell(1)(torch.tensor([[-4.0, ln3, -ln3, 3.0]]), torch.tensor([[100.0, 8.0]]))
    assert state.tolist() == [pytest.approx([3.5, 5])]


@pytest.mark.parametrize("name", CELLS)
def test_the_first_state_has_the_output_that_sets_it_and_an_influence_on_the_next(name):
    cell, hidden = CELLS[name](HIDDEN), torch.randn(BATCH, HIDDEN)
    gates = torch.randn(BATCH, cell.gate_size)
    assert torch.equal(cell.output(cell.initial(hidden)), hidden)
    assert not torch.allclose(*(cell.output(cell(gates, cell.initial(first))) for first in (hidden, hidden + 1)))


@pytest.mark.parametrize("name", SCANS)
def test_cells_without_a_recurrent_product_have_parameters_for_layer_normalization_only(name):
    assert list(CELLS[name](HIDDEN).parameters()) == []
    cell = CELLS[name](HIDDEN, layer_norm=True).double()
    assert {parameter_name for parameter_name, _ in cell.named_parameters()} == {"input_norm.weight", "input_norm.bias"}
    gates, state = torch.randn(STEPS, BATCH, cell.gate_size).double(), torch.randn(BATCH, cell.state_size).double()
    normalized = (gates - gates.mean(-1, keepdim=True)) / gates.std(-1, correction=0, keepdim=True)
    expected = CELLS[name](HIDDEN).run(normalized, state)
    torch.testing.assert_close(cell.run(gates, state), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(cell(gates[0], state), expected[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", SCANS)
def test_in_half_precision_a_small_gate_still_forgets(name):
    """1 - z is 0.9990 for g_z = -6.9 and rounds to 1 in bf16: 1,000 steps would then forget nothing."""
    cell = CELLS[name](1)
    gates = torch.full((1000, 1, cell.gate_size), 0.0)
    gates[..., 0 if name == "mingru" else 1] = -6.9 if name == "mingru" else 6.9
    states = cell.run(gates.bfloat16(), cell.initial(torch.ones(1, 1)))
    assert states.dtype == torch.bfloat16
    kept = (1 / (1 + np.exp(-6.90625))) ** 1000  # 6.90625 is 6.9 in bf16
    assert states[-1, 0, -1].item() == pytest.approx(kept, rel=0.01)


@pytest.mark.parametrize("name", SCANS)
def test_a_hooked_cell_runs_step_by_step_and_says_so(name):
    cell = CELLS[name](HIDDEN)
    gates, state = torch.randn(STEPS, BATCH, cell.gate_size), torch.randn(BATCH, cell.state_size)
    assert ops.reasons(cell) == {}
    cell.register_forward_hook(lambda module, arguments, result: 2 * result)
    assert f"{type(cell).__name__} has hooks" in ops.reasons(cell).values()
    states = cell.run(gates, state)
    torch.testing.assert_close(states[1], cell(gates[1], cell(gates[0], state)))


def stack(name, layers, **options):
    torch.manual_seed(4)
    return StackedCell([CELLS[name](HIDDEN) for _ in range(layers)], **options).double().eval()


@pytest.mark.parametrize("name", LAYERS)
def test_a_stack_equals_the_layers_of_torch(name):
    cell, from_input = stack(name, 3), nn.Linear(INPUT, CELLS[name].gates * HIDDEN).double()
    layer = LAYERS[name](INPUT, HIDDEN, num_layers=3).double()
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
