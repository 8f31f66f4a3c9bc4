"""int8 layers compute exact products of quantized numbers, which are close to those in fp32."""

import numpy as np
import pytest
import torch

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse, int8
from seq2seq_attn.ops.int8 import Int8Linear, quantized
from seq2seq_attn.ops.layers import Linear
from seq2seq_attn.search import SearchOptions, search

needs_int8 = pytest.mark.skipif(not int8.has_int8(), reason="no exact int8 products on this machine")


def layer_and_input(rows=7, bias=True):
    torch.manual_seed(rows)
    layer = Linear(37, 23, bias=bias)
    layer.weight.data.mul_(torch.rand(23, 1).exp2())  # rows of different scales
    return layer, torch.randn(rows, 37) * torch.rand(rows, 1).exp2()


def make(scale=3, **changes):
    torch.manual_seed(5)
    values = {
        "tie_embeddings": "none",
        "embedding_size": 13,
        "encoder": {"hidden_size": 9},
        "decoder": {"hidden_size": 19},
    }
    model = RecurrentConfig.model_validate(values | changes).build(17, 149, False)
    for parameter in model.parameters():
        parameter.data.mul_(scale)
    return model.eval()


def corpus(count):
    draw = torch.Generator().manual_seed(2)
    return [
        [*torch.randint(4, 17, (int(length),), generator=draw).tolist(), 3]
        for length in torch.randint(1, 8, (count,), generator=draw)
    ]


@needs_int8
@pytest.mark.parametrize("bias", [True, False])
def test_the_result_is_the_exact_product_of_the_quantized_numbers(bias):
    layer, x = layer_and_input(bias=bias)

    def rounded(rows):
        scales = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
        return np.rint(rows / scales).astype(np.int64), scales.astype(np.float64)

    (left, left_scales), (right, right_scales) = rounded(x.numpy()), rounded(layer.weight.detach().numpy())
    expected = (left @ right.T) * left_scales * right_scales.T
    if bias:
        expected += layer.bias.detach().numpy()
    with torch.inference_mode():
        np.testing.assert_allclose(Int8Linear.of(layer, {})(x), expected, rtol=1e-5, atol=1e-6)


@needs_int8
def test_the_error_is_bounded_by_half_a_quantization_step_of_every_factor():
    layer, x = layer_and_input()
    steps_x, steps_w = x.abs().amax(1, keepdim=True) / 127, layer.weight.abs().amax(1) / 127
    bound = steps_w / 2 * x.abs().sum(1, keepdim=True) + steps_x / 2 * layer.weight.abs().sum(1)
    bound = bound + 37 * steps_x * steps_w / 4
    with torch.inference_mode():
        error = (Int8Linear.of(layer, {})(x) - layer(x)).abs()
    assert (error <= bound + 1e-5).all()
    assert error.max() > 1e-4  # the layer does quantize


@needs_int8
@pytest.mark.parametrize("rows", [3, 21, 300])
def test_a_row_is_bitwise_independent_of_the_rest_of_the_batch(rows):
    layer, x = layer_and_input(rows)
    layer = Int8Linear.of(layer, {})
    with torch.inference_mode():
        together = layer(x)
        assert all(torch.equal(layer(x[row : row + 1])[0], together[row]) for row in range(0, rows, 10))
        assert torch.equal(layer(x.view(3, rows // 3, 37)).view(rows, 23), together)


@needs_int8
def test_rows_of_zeros_do_not_divide_by_zero():
    layer, x = layer_and_input()
    layer.weight.data[4], x[2] = 0, 0
    with torch.inference_mode():
        found = Int8Linear.of(layer, {})(x)
    torch.testing.assert_close(found[2], layer.bias.data)
    torch.testing.assert_close(found[:, 4], layer.bias.data[4].expand(7))


@needs_int8
def test_quantized_weights_are_constant_and_parameters_are_shared():
    model = make()
    still = quantized(model)
    assert {id(parameter) for parameter in still.parameters()} == {id(parameter) for parameter in model.parameters()}
    features = torch.randn(4, 13)
    with torch.no_grad():
        before = still.head.projection(features)
        model.head.projection.weight.add_(1)
        model.head.projection.bias.add_(1)
        assert torch.equal(still.head.projection(features), before)
    assert quantized(still) is still

    class Own(torch.nn.Linear):
        def forward(self, input):
            return -super().forward(input)

    own = torch.nn.Sequential(Own(3, 2))
    assert quantized(own) is own


@needs_int8
@pytest.mark.parametrize("kind", ["bahdanau", "luong", "conditional"])
def test_a_known_target_is_decoded_in_int8_as_well(kind):
    near = quantized(make(decoder={"hidden_size": 19, "kind": kind}))
    source, target = pad(corpus(5)), pad(corpus(5))
    memory = near.encode(source)
    state, steps = near.start(memory), []
    for step in near.decoder_inputs(target).t():
        output = near.step(step, state, memory)
        state = output.state
        steps.append(output.logits)
    torch.testing.assert_close(
        near.head.projection(near.decode(near.decoder_inputs(target), memory).features), torch.stack(steps, 1)
    )


@needs_int8
def test_teacher_forcing_in_int8_equals_its_own_steps():
    exact = GRUCell(64).eval()
    cell = fuse(quantized(exact))
    gates, state = torch.randn(3, 5, 192), torch.randn(5, 64)
    with torch.no_grad():
        states = cell.run(gates, state)
        assert torch.equal(states[0], cell(gates[0], state))
        assert torch.equal(states[1], cell(gates[1], states[0]))
        torch.testing.assert_close(states[0], quantized(exact)(gates[0], state), rtol=1e-4, atol=1e-5)


@needs_int8
@pytest.mark.parametrize(
    ("decoder", "encoder_cell", "scale"),
    [
        ({"kind": "bahdanau"}, "gru", 3),
        ({"kind": "luong"}, "gru", 3),
        ({"kind": "conditional", "cell": "lstm"}, "gru", 3),
        # No tanh bounds their states: three times larger weights amplify every rounding.
        ({"kind": "luong", "cell": "mingru"}, "mingru", 1),
        ({"kind": "bahdanau", "cell": "sru"}, "sru", 1),
    ],
)
@pytest.mark.parametrize("context", [{"scorer": "general"}, {"kind": "none"}])
def test_logits_in_int8_are_close_to_those_of_the_model(decoder, encoder_cell, scale, context):
    encoder = {"hidden_size": 9, "cell": encoder_cell}
    model = make(scale, decoder={"hidden_size": 19, **decoder}, encoder=encoder, context=context)
    source, tokens = pad(corpus(5)), torch.randint(4, 149, (6, 5))

    def logits(model):
        memory = model.encode(source)
        state, found = model.start(memory), []
        for step in tokens:
            output = model.step(step, state, memory)
            state = output.state
            found.append(output.logits)
        return torch.stack(found)

    with torch.inference_mode():
        exact, near = logits(model), logits(quantized(model))
    assert 0 < (near - exact).abs().max() < 0.1 * exact.std()


@needs_int8
@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_search_in_int8_mostly_finds_the_same_translations(beam_size):
    model, sources = make(), corpus(40)
    limits = {"beam_size": beam_size, "n_best": min(2, beam_size), "max_length": 5, "batch_size": 16}
    exact = search(model, sources, SearchOptions(**limits))
    near = search(model, sources, SearchOptions(**limits, precision="int8"))
    pairs = [(theirs[0], ours[0]) for theirs, ours in zip(exact, near, strict=True)]
    same = [(theirs, ours) for theirs, ours in pairs if theirs.tokens == ours.tokens]
    assert len(same) >= 32
    assert all(ours.log_probability == pytest.approx(theirs.log_probability, abs=0.2) for theirs, ours in same)
    assert any(ours.log_probability != theirs.log_probability for theirs, ours in same)
    assert search(quantized(model), sources, SearchOptions(**limits)) == near
    assert search(model, sources, SearchOptions(**limits)) == exact  # the search in int8 did not change it


@needs_int8
def test_a_translation_in_int8_does_not_depend_on_its_batch():
    model, sources = make(), corpus(12)
    together, alone = (
        search(model, sources, SearchOptions(precision="int8", max_length=5, batch_size=size)) for size in (12, 1)
    )
    assert [found[0].tokens for found in together] == [found[0].tokens for found in alone]


def test_without_int8_products_the_error_names_a_solution(monkeypatch):
    with pytest.raises(UserError, match="int8 needs a model on the CPU, but this one is on meta; use bf16"):
        search(make().to("meta"), [[4, 3]], SearchOptions(precision="int8"))
    monkeypatch.setattr(int8, "has_int8", lambda: False)
    with pytest.raises(UserError, match=r"int8 needs oneDNN and VNNI.*use fp32"):
        search(make(), [[4, 3]], SearchOptions(precision="int8"))
