"""Layer normalization in full precision, and only where nothing else was written."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from seq2seq_attn import ops
from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.ops.int8 import has_int8, quantized

needs_int8 = pytest.mark.skipif(not has_int8(), reason="no exact int8 products on this machine")


def gradients(normalize, norm, x):
    weights = 1 + torch.arange(x.numel()).view_as(x).sin()
    return torch.autograd.grad((normalize(x).double() * weights).sum(), [norm.weight, norm.bias])


def test_gradients_of_many_rows_in_bf16_are_summed_in_full_precision():
    norm, x = nn.LayerNorm(8), torch.randn(5000, 8).bfloat16()
    exact = nn.LayerNorm(8).double()
    for ours, theirs in zip(gradients(ops.fuse(norm), norm, x), gradients(exact, exact, x.double()), strict=True):
        assert (ours - theirs).norm() < 0.05 * theirs.norm()


@pytest.mark.parametrize(
    "cell", [GRUCell(4, layer_norm=True).bfloat16(), GRUCell(4, layer_norm=True)], ids=["bf16", "mixed"]
)
def test_gradients_of_many_steps_in_bf16_are_summed_in_full_precision(cell):
    exact = GRUCell(4, layer_norm=True).double()
    exact.load_state_dict(cell.state_dict())
    gates, state = torch.randn(300, 16, 12).bfloat16(), torch.randn(16, 4).bfloat16()

    def found(cell, dtype):
        states = cell.run(gates.to(dtype), state.to(dtype))
        loss = (states.double() * (1 + torch.arange(states.numel()).view_as(states).sin())).sum()
        return torch.autograd.grad(loss, [cell.input_norm.weight, cell.recurrent_norm.weight, cell.recurrent_norm.bias])

    assert ops.reasons(cell) == {}
    for ours, theirs in zip(found(ops.fuse(cell), torch.bfloat16), found(exact, torch.double), strict=True):
        assert (ours - theirs).norm() < 0.05 * theirs.norm()


def test_a_module_that_a_user_changed_is_called_as_it_is():
    x = torch.randn(3, 4).bfloat16()
    hooked, own = nn.LayerNorm(4), type("Own", (nn.LayerNorm,), {"forward": lambda self, x: x + 1})(4)
    hooked.register_forward_hook(lambda module, inputs, output: output + 1)
    assert ops.fuse(hooked.bfloat16()) is hooked
    assert ops.fuse(own) is own
    assert torch.equal(ops.fuse(nn.Sequential(own, nn.Identity()))(x), x + 1)


def test_without_gain_or_bias_it_is_what_torch_computes():
    x = torch.randn(3, 4)
    for norm in (nn.LayerNorm(4, bias=False), nn.LayerNorm(4, elementwise_affine=False), nn.LayerNorm((3, 4))):
        torch.testing.assert_close(ops.fuse(norm)(x), norm(x))


@pytest.mark.parametrize(
    "change",
    [
        lambda cell: cell.recurrent_norm.bfloat16(),
        lambda cell: weight_norm(cell.recurrent_norm),
        lambda cell: cell.input_norm.register_forward_hook(lambda module, inputs, output: output),
        pytest.param(quantized, marks=needs_int8),
    ],
    ids=["dtype", "parametrization", "hook", "int8"],
)
def test_a_changed_cell_runs_step_by_step(change):
    cell = GRUCell(64, layer_norm=True)
    assert ops.reasons(cell) == {}
    changed = change(cell)
    cell = changed if isinstance(changed, GRUCell) else cell
    assert "" in ops.reasons(cell)
