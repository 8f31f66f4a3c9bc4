"""The fused loss against `torch.nn.functional.cross_entropy`, values and gradients."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from seq2seq_attn.models.head import Read, SoftmaxHead
from seq2seq_attn.models.heads.pointer_generator import CopiedTokens, PointerGeneratorHead
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.ops import loss as loss_file
from seq2seq_attn.ops.loss import IGNORED, fused_loss, paired_loss

TOKENS, SIZE, WORDS = 7, 5, 13


@pytest.fixture(params=[(256, 1 << 20), (4, 1 << 20), (256, 30)], ids=["all at once", "4 tokens", "chunks of 2"])
def chunked(request, monkeypatch):
    for name, value in zip(("ROWS", "CHUNK_VALUES"), request.param, strict=True):
        monkeypatch.setattr(loss_file, name, value)


def example(dtype=torch.double, tokens=TOKENS, words=WORDS):
    torch.manual_seed(5)
    output = nn.Linear(SIZE, words).to(dtype)
    features = torch.randn(tokens, SIZE, dtype=dtype, requires_grad=True)
    return output, features, torch.randint(0, words, (tokens,))


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_values_and_gradients_equal_those_of_torch(smoothing):
    output, features, targets = example()
    parameters = [features, output.weight, output.bias]
    loss, negative = fused_loss(features, output.weight, output.bias, targets, smoothing)
    expected = F.cross_entropy(output(features), targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(negative, F.cross_entropy(output(features), targets, reduction="sum"))
    # A gradient other than 1 arrives at the loss, as from the division by the number of tokens.
    for got, wanted in zip(
        torch.autograd.grad(loss / 3, parameters), torch.autograd.grad(expected / 3, parameters), strict=True
    ):
        torch.testing.assert_close(got, wanted)


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("precision", ["double", "bf16"])
def test_rows_that_do_not_count_change_nothing(smoothing, precision):
    counted = torch.tensor([True, False, True, True, False, False, True])
    output, features, targets = example(torch.double if precision == "double" else torch.float)
    parameters = [features, output.weight, output.bias]
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        masked = targets.masked_fill(~counted, IGNORED)
        of_all = fused_loss(features, output.weight, output.bias, masked, smoothing)
        of_those = fused_loss(features[counted], output.weight, output.bias, targets[counted], smoothing)
    tolerances = {} if precision == "double" else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(of_all, of_those, **tolerances)
    gradients = (torch.autograd.grad(each[0], parameters) for each in (of_all, of_those))
    torch.testing.assert_close(*gradients, **tolerances)


@pytest.mark.parametrize("trained", [(0,), (1,), (2,), (0, 2)])
def test_any_part_can_be_trained_alone(trained):
    output, features, targets = example()
    parts = [features, output.weight, output.bias]
    inputs = [each.detach().requires_grad_(place in trained) for place, each in enumerate(parts)]
    wanted = F.cross_entropy(F.linear(*inputs), targets, label_smoothing=0.1, reduction="sum")
    chosen = [inputs[place] for place in trained]
    expected = torch.autograd.grad(wanted, chosen)
    found = torch.autograd.grad(fused_loss(*inputs, targets, 0.1)[0], chosen)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_features_without_targets_are_refused():
    output, features, targets = example()
    with pytest.raises(ValueError, match="7 rows of features need as many targets, got 6"):
        fused_loss(features, output.weight, output.bias, targets[:6], 0.1)


@pytest.mark.usefixtures("kernel_or_torch")
@pytest.mark.parametrize("tokens", [0, 256, 257, 600])  # none; and of the 256 that are computed at a time
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_many_tokens_by_kernel_or_torch_equal_the_same_in_double(tokens, precision, tolerance):
    output, features, targets = example(torch.float32, tokens, words=1031)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        loss, negative = fused_loss(features, output.weight, output.bias, targets, 0.1)
    gradients = torch.autograd.grad(loss, [features, output.weight, output.bias])
    inputs = [each.detach().double().requires_grad_() for each in (features, output.weight, output.bias)]
    logits = F.linear(*inputs)
    expected = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum")
    negatives = F.cross_entropy(logits, targets, reduction="sum")
    wanted = [expected, negatives, *torch.autograd.grad(expected, inputs)]
    for found, exact in zip([loss, negative, *gradients], wanted, strict=True):
        assert found.dtype == torch.float32
        largest = exact.detach().abs().max().item() if exact.numel() else 0.0
        torch.testing.assert_close(found.double(), exact.detach(), rtol=0, atol=tolerance * largest)


def r_drop(features, output, targets, smoothing=0.1):
    """Of the reference implementation: what `paired_loss` computes from the features of both dropout masks."""
    return SoftmaxHead(output).r_drop_loss(Read(features), targets, 3.0, None, smoothing)[:2]


def paired_loss_of(output, features, targets, alpha, smoothing):
    return paired_loss(features, output.weight, output.bias, targets, alpha, smoothing)


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_pairs_equals_r_drop_by_autograd(smoothing):
    output, features, targets = example(tokens=2 * TOKENS)
    found = paired_loss_of(output, features, targets[:TOKENS], 3.0, smoothing)
    wanted = r_drop(features, output, targets[:TOKENS], smoothing)
    torch.testing.assert_close(found, wanted)
    parameters = [features, output.weight, output.bias]
    torch.testing.assert_close(*(torch.autograd.grad(each[0] / 3, parameters) for each in (found, wanted)))


@pytest.mark.usefixtures("kernel_or_torch")
@pytest.mark.parametrize("tokens", [1, 300])
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_many_pairs_by_kernel_or_torch_equal_the_same_in_double(tokens, precision, tolerance):
    output, features, targets = example(torch.float32, 2 * tokens, words=1031)
    inputs = [features, output.weight, output.bias]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        found = paired_loss_of(output, features, targets[:tokens], 3.0, 0.1)
    exact = deepcopy(output).double()
    doubles = [features.detach().double().requires_grad_(), *exact.parameters()]
    wanted = r_drop(doubles[0], exact, targets[:tokens])
    for one, other in zip(
        [*found, *torch.autograd.grad(found[0], inputs)],
        [*wanted, *torch.autograd.grad(wanted[0], doubles)],
        strict=True,
    ):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other.detach(), rtol=0, atol=tolerance * other.abs().max().item())


def test_equal_pairs_have_the_loss_of_one_of_them():
    output, features, targets = example()
    twice = torch.cat([features, features])
    found = paired_loss_of(output, twice, targets, 5.0, 0.1)
    torch.testing.assert_close(found, fused_loss(features, output.weight, output.bias, targets, 0.1))


def test_only_the_loss_has_a_gradient_and_none_under_no_grad():
    output, features, targets = example()
    loss, negative = fused_loss(features, output.weight, output.bias, targets, 0.0)
    assert (loss.requires_grad, negative.requires_grad) == (True, False)
    with torch.no_grad():
        assert not fused_loss(features, output.weight, output.bias, targets, 0.0)[0].requires_grad


@pytest.mark.parametrize("magnitude", [1e4, 1e-4])
def test_large_and_small_logits_stay_finite(magnitude):
    output, features, targets = example()
    loss, _ = fused_loss(features * magnitude, output.weight, output.bias, targets, 0.1)
    (gradient,) = torch.autograd.grad(loss, features)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_under_autocast_products_are_in_bf16_and_everything_else_in_fp32():
    output, features, targets = example(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = fused_loss(features, output.weight, output.bias, targets, 0.0)
    exact = F.cross_entropy(output(features), targets, reduction="sum")
    assert loss.dtype == torch.float32
    assert 0 < abs(loss - exact) < 0.01 * exact


@pytest.mark.parametrize("hooked", [False, True])
def test_the_losses_of_a_fused_model_are_those_of_the_model_and_of_its_changed_output_layer(hooked):
    decoder = {"hidden_size": SIZE, "readout": "plain"}
    model = RecurrentConfig.model_validate({"embedding_size": 3, "decoder": decoder}).build(9, WORDS, False)
    _, features, targets = example(torch.float32, 6)
    read = Read(features)
    before = model.head.loss(read, targets)
    if hooked:
        model.head.projection.register_forward_hook(lambda layer, inputs, logits: 3 * logits)
    fused = fuse(model)
    for smoothing in (0.0, 0.1):
        found, wanted = (each.head.loss(read, targets, None, smoothing) for each in (fused, model))
        torch.testing.assert_close(found[:2], wanted[:2])
        found, wanted = (each.head.r_drop_loss(read, targets[:3], 2.0, None, smoothing) for each in (fused, model))
        torch.testing.assert_close(found[:2], wanted[:2])
    assert torch.allclose(fused.head.loss(read, targets).total, before.total) is not hooked
    rows = torch.tensor([4, 0, 7])
    torch.testing.assert_close(fused.with_outputs(rows).head(read, None), model.head.projection(features)[:, rows])


def numbers_saved(function):
    """What a function returns, and the largest tensor that autograd saves for its backward pass."""
    sizes = [0]

    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return function(), max(sizes)


@pytest.mark.parametrize("method", ["loss", "r_drop_loss"])
def test_a_head_that_copies_recomputes_its_logits_and_loses_as_much(monkeypatch, method):
    monkeypatch.setattr(loss_file, "MOST_LOGITS", 4 * WORDS)  # of 7 tokens, or of 14 in pairs
    torch.manual_seed(6)
    head = PointerGeneratorHead(nn.Linear(SIZE, WORDS), inputs_size=4, slots=2).double()
    rows, form = TOKENS if method == "loss" else 2 * TOKENS, fuse(head)
    features, inputs = torch.randn(rows, SIZE).double().requires_grad_(), torch.randn(rows, 4).double().requires_grad_()
    weights = torch.rand(rows, 3).double().requires_grad_()
    memory, targets = CopiedTokens(torch.randint(0, WORDS, (rows, 3))), torch.randint(0, WORDS - 2, (TOKENS,))
    wanted_arguments = (targets, memory, 0.1) if method == "loss" else (targets, 3.0, memory, 0.1)

    def found(head):
        return numbers_saved(lambda: getattr(head, method)(Read(features, weights, (inputs,)), *wanted_arguments))

    (chunked, saved), (whole, _) = found(form), found(head)
    torch.testing.assert_close(chunked, whole)
    assert saved < rows * WORDS / 2
    parts = [features, inputs, weights, *head.parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(each.total / 3, parts) for each in (chunked, whole)))
    head.projection.register_forward_hook(lambda layer, inputs, logits: None)
    assert fuse(head) is head


def test_the_fused_loss_saves_no_logits():
    output, features, targets = example(torch.float32, tokens=600, words=1031)
    (loss, _), saved = numbers_saved(lambda: fused_loss(features, output.weight, output.bias, targets, 0.1))
    assert saved <= output.weight.numel()
    assert loss.requires_grad
