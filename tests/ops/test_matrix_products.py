"""Products by oneDNN and their gradients equal torch's, and so do those with a weight packed in panels."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.attention import Additive, Attention
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.ops import layers as products
from seq2seq_attn.ops.layers import Linear, add_product, linear, panel_linear, panels, product, weight_gradient

ROWS, INPUTS, OUTPUTS = 33, 129, 257  # at least `MIN_MULTIPLICATIONS`


@pytest.fixture(params=["default", "oneDNN"])
def library(request, monkeypatch):
    """The library that the processor would use, and oneDNN on any processor."""
    if request.param == "oneDNN":
        if not torch.backends.mkldnn.is_available():
            pytest.skip("this torch has no oneDNN")
        monkeypatch.setattr(products, "onednn_is_faster", lambda dtype: dtype == torch.float32)
    return request.param


def matrices(*shapes):
    torch.manual_seed(1)
    return [torch.randn(shape, dtype=torch.double) for shape in shapes]


@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_gradients_equal_those_of_torch(library, with_bias):
    exact = matrices((3, ROWS // 3, INPUTS), (OUTPUTS, INPUTS), (OUTPUTS,))[: 3 if with_bias else 2]
    (direction,) = matrices((3, ROWS // 3, OUTPUTS))
    ours = [part.float().requires_grad_() for part in exact]
    standard = [part.requires_grad_() for part in exact]
    result, expected = linear(*ours), F.linear(*standard)
    torch.testing.assert_close(result.double(), expected, atol=1e-4, rtol=1e-5)
    found = torch.autograd.grad(result, ours, direction.float())
    for gradient, reference in zip(found, torch.autograd.grad(expected, standard, direction), strict=True):
        torch.testing.assert_close(gradient.double(), reference, atol=1e-4, rtol=1e-5)


def test_products_outside_autograd_take_transposed_matrices(library):
    x, weight, addend = matrices((ROWS, INPUTS), (OUTPUTS, INPUTS), (ROWS, OUTPUTS))
    expected = x @ weight.t()
    transposed = x.float().t().contiguous().t(), weight.float().t().contiguous().t()
    for left, right in [(x.float(), weight.float()), transposed]:
        torch.testing.assert_close(product(left, right).double(), expected, atol=1e-4, rtol=1e-5)
        sums = add_product(addend.float(), left, right).double()
        torch.testing.assert_close(sums, addend + expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("narrow", "wide"), [(OUTPUTS, INPUTS), (INPUTS, OUTPUTS)])
@pytest.mark.parametrize("as_slices", [False, True])
def test_a_weight_gradient_does_not_depend_on_shapes_and_strides(library, dtype, narrow, wide, as_slices):
    left, right = (part.to(dtype) for part in matrices((5 * ROWS, narrow), (5 * ROWS, wide)))
    expected = left.double().t() @ right.double()
    if as_slices:
        left, right = (torch.cat([part, part], dim=1)[:, : part.shape[1]] for part in (left, right))
    close = {"atol": 1e-4, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.3, "rtol": 0.02}
    torch.testing.assert_close(weight_gradient(left, right).double(), expected, **close)


def test_only_tensors_that_require_a_gradient_get_one(library):
    x, weight = (part.float() for part in matrices((ROWS, INPUTS), (OUTPUTS, INPUTS)))
    assert not linear(x, weight).requires_grad
    linear(x, weight.requires_grad_()).sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(dim=0).expand(OUTPUTS, -1), atol=1e-4, rtol=1e-5)


def test_autocast_determines_the_dtype(library):
    x, weight = (part.float() for part in matrices((ROWS, INPUTS), (OUTPUTS, INPUTS)))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16


def test_small_products_and_those_in_double_are_computed_by_torch(library):
    for dtype, rows in [(torch.float32, 2), (torch.double, ROWS)]:
        x, weight = (part.to(dtype) for part in matrices((rows, INPUTS), (OUTPUTS, INPUTS)))
        assert torch.equal(product(x, weight), F.linear(x, weight))


def test_the_linear_module_equals_that_of_torch(library):
    torch.manual_seed(1)
    standard = nn.Linear(INPUTS, OUTPUTS)
    ours = fuse(standard)
    x = torch.randn(ROWS, INPUTS)
    torch.testing.assert_close(ours(x), standard(x), atol=1e-5, rtol=1e-5)


def test_attention_gets_fused_linear_layers_with_its_own_parameters():
    torch.manual_seed(1)
    standard = Attention(Additive(INPUTS, INPUTS, OUTPUTS))
    ours = fuse(standard)
    assert {type(layer) for layer in ours.modules() if isinstance(layer, nn.Linear)} == {Linear}
    assert ours.state_dict().keys() == standard.state_dict().keys()
    query, keys = torch.randn(2, 3, INPUTS), torch.randn(2, 5, INPUTS)
    ours_seen, seen = (attention(query, attention.prepare(keys)) for attention in (ours, standard))
    torch.testing.assert_close(ours_seen, seen, atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(not native.has_kernels(torch.empty(0)), reason="no compiler here")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("outputs", [5, 31, 32, 33, OUTPUTS])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_product_with_panels_is_exact_and_a_row_does_not_depend_on_the_others(threads, outputs, with_bias):
    torch.manual_seed(2)
    layer, before = nn.Linear(INPUTS, outputs, bias=with_bias), torch.get_num_threads()
    rows = torch.randn(2 * INPUTS, 131).t()  # more than a block of them, and not contiguous
    packed = [part.detach() for part in panels([layer])]
    torch.set_num_threads(threads)
    try:
        found = panel_linear(rows[:, :INPUTS], *packed, outputs)
        alone = [panel_linear(row[None, :INPUTS], *packed, outputs) for row in rows]
    finally:
        torch.set_num_threads(before)
    exact = F.linear(
        rows[:, :INPUTS].double(), layer.weight.double(), None if layer.bias is None else layer.bias.double()
    )
    torch.testing.assert_close(found.double(), exact.detach(), atol=1e-5, rtol=1e-5)
    assert torch.equal(found, torch.cat(alone))
    shaped = panel_linear(rows[:130, :INPUTS].reshape(2, 65, INPUTS), *packed, outputs)
    assert torch.equal(shaped.flatten(0, 1), found[:130])
    assert panel_linear(rows[:0, :INPUTS], *packed, outputs).shape == (0, outputs)
