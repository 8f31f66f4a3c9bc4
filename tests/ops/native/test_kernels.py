"""Every kernel equals, up to its precision, the reference implementation in double."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from seq2seq_attn.attention import Additive, Attention, Source
from seq2seq_attn.corpora.vocabulary import BOS, PAD
from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.ops.continuations import best_continuations
from seq2seq_attn.ops.decoders import DecoderWeights, decoder_sequence
from seq2seq_attn.ops.gru import gru_sequence, gru_update, step_forward
from seq2seq_attn.ops.loss import fused_loss
from seq2seq_attn.ops.native import declarations
from seq2seq_attn.ops.scorers import additive_scores, read_backward, read_forward

BATCH, SOURCE, TARGET, DECODER, VALUES, SCORES, WORDS = 5, 3, 4, 19, 23, 37, 131  # not multiples of a vector register


def drawn(dtype, *shape, scale=1.0):
    """Random numbers that the dtype represents exactly, so that both computations have the same inputs."""
    return (scale * torch.randn(*shape)).to(dtype).requires_grad_()


def doubled(tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def gradients(outputs, inputs):
    """The gradients of a weighted sum of all numbers of the outputs."""
    loss = sum((out.double() * torch.arange(out.numel()).view_as(out).sin()).sum() for out in outputs)
    return torch.autograd.grad(loss, inputs, allow_unused=True)


def test_a_gru_step_and_its_backward_pass_equal_the_reference(dtype, close):
    inputs = [drawn(dtype, BATCH, size) for size in (3 * DECODER, 3 * DECODER, DECODER)]
    exact = doubled(inputs)
    got, expected = gru_update(*inputs), GRUCell.update(*exact)
    close(got, expected)
    for ours, theirs in zip(gradients([got], inputs), gradients([expected], exact), strict=True):
        close(ours, theirs)


def test_a_gru_step_outside_autograd_is_the_same(dtype):
    inputs = [drawn(dtype, BATCH, size) for size in (3 * DECODER, 3 * DECODER, DECODER)]
    with torch.no_grad():
        assert torch.equal(gru_update(*inputs), gru_update(*(part.requires_grad_() for part in inputs)))
    with torch.inference_mode():
        assert torch.equal(gru_update(*inputs), gru_update(*inputs).clone())


def test_a_gru_step_reads_slices_of_wider_tensors(dtype):
    x, u = drawn(dtype, BATCH, 3 * DECODER + 2).detach(), drawn(dtype, BATCH, 3 * DECODER + 5).detach()
    before = drawn(dtype, BATCH, DECODER).detach()

    def outcome(x, u):
        gates, candidate = before.new_empty(BATCH, 2 * DECODER), torch.empty_like(before)
        state = torch.empty_like(before)
        step_forward(x, u, before, gates, candidate, state)
        return torch.cat((gates, candidate, state), dim=1)

    x, u = x[:, 1:-1], u[:, 2:-3]
    assert torch.equal(outcome(x, u), outcome(x.contiguous(), u.contiguous()))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_gru_over_sentences_of_different_length_equals_the_reference(dtype, close, reverse):
    counts = [5, 5, 2, 1]
    shapes = ((sum(counts), 3 * DECODER), (3 * DECODER, DECODER), (3 * DECODER,))
    inputs = [drawn(dtype, *shape, scale=0.5) for shape in shapes]
    exact = doubled(inputs)
    got, expected = (gru_sequence(x, counts, None, w, b, reverse) for x, w, b in (inputs, exact))
    close(got, expected)
    for ours, theirs in zip(gradients([got], inputs), gradients([expected], exact), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0.02, atol=1e-5 if dtype == torch.float32 else 0.15)


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("scores", ["additive", "dot product"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("read", [(0,), (1,), (2,), (0, 1, 2)], ids=["states", "contexts", "weights", "all"])
def test_a_decoder_under_teacher_forcing_equals_the_reference(dtype, padded, read, scores, cells):
    is_token = torch.tensor([[True] * 3, [True, True, False], [True, False, False], [True] * 3, [True] * 3])
    is_token = is_token[:, None] if padded else None
    size = SCORES if scores == "additive" else DECODER
    shapes = [
        *((TARGET, BATCH, 3 * DECODER), (BATCH, DECODER), (BATCH, SOURCE, size), (BATCH, SOURCE, VALUES)),
        *((3 * DECODER, VALUES), (3 * DECODER, DECODER), (3 * DECODER,)),
        *([(SCORES, DECODER), (SCORES,)] if scores == "additive" else []),
        *([(3 * DECODER, DECODER), (3 * DECODER,), (3 * DECODER,)] if cells == 2 else []),
    ]
    inputs = [drawn(dtype, *shape, scale=0.4) for shape in shapes]
    inputs[2] = inputs[2].detach().float().requires_grad_()  # scores have full precision
    exact = doubled(inputs)

    def outputs(x, initial, keys, values, *parameters):
        if scores == "dot product":
            parameters = *parameters[:3], None, None, *parameters[3:]
        results = decoder_sequence(x, initial, Source(keys, values, is_token), DecoderWeights(*parameters))
        return [results[part] for part in read]

    got, expected = outputs(*inputs), outputs(*exact)
    exactly = dtype == torch.float32
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5 if exactly else 0.02)
    ours, theirs = gradients(got, inputs), gradients(expected, exact)
    for our, their in zip(ours, theirs, strict=True):
        assert (our is None) == (their is None)
        if our is not None:
            torch.testing.assert_close(our.double(), their, rtol=1e-4, atol=2e-5 if exactly else 0.1)


@pytest.mark.parametrize("scores", ["additive", "dot product"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("read", [(0,), (1,), (2,), (0, 1, 2)], ids=["states", "contexts", "weights", "all"])
def test_input_feeding_under_teacher_forcing_follows_the_equations_of_the_paper(dtype, padded, read, scores):
    is_token = torch.tensor([[True] * 3, [True, True, False], [True, False, False], [True] * 3, [True] * 3])
    is_token = is_token[:, None] if padded else None
    additive = scores == "additive"
    shapes = [
        *((TARGET, BATCH, 3 * DECODER), (BATCH, DECODER), (BATCH, DECODER)),
        *((BATCH, SOURCE, SCORES if additive else DECODER), (BATCH, SOURCE, VALUES)),
        *((3 * DECODER, DECODER), (3 * DECODER, DECODER), (3 * DECODER,)),
        *((DECODER, VALUES + DECODER), (DECODER,)),
        *([(SCORES, DECODER), (SCORES,)] if additive else []),
    ]
    inputs = [drawn(dtype, *shape, scale=0.4) for shape in shapes]
    inputs[3] = inputs[3].detach().float().requires_grad_()  # scores have full precision
    exact = doubled(inputs)

    def by_kernels(x, state, fed, keys, values, feed, recurrent, bias, combine, combine_bias, *scoring):
        weights = DecoderWeights(feed, recurrent, bias, *scoring, combine=combine, combine_bias=combine_bias)
        return decoder_sequence(x, state, Source(keys, values, is_token), weights, fed)

    def by_equations(x, state, fed, keys, values, feed, recurrent, bias, combine, combine_bias, query=None, v=None):
        steps = []
        for gates in x:
            state = GRUCell.update(gates + fed @ feed.t(), state @ recurrent.t() + bias, state)
            if additive:
                scores = torch.tanh((state @ query.t())[:, None] + keys) @ v
            else:
                scores = (keys @ state[:, :, None]).squeeze(2)
            weights = (scores if is_token is None else scores.masked_fill(~is_token[:, 0], -torch.inf)).softmax(dim=1)
            context = (weights[:, None] @ values).squeeze(1)
            fed = torch.tanh(torch.cat((context, state), dim=1) @ combine.t() + combine_bias)
            steps.append((fed, context, weights))
        return [torch.stack(part) for part in zip(*steps, strict=True)]

    got, expected = ([outputs[part] for part in read] for outputs in (by_kernels(*inputs), by_equations(*exact)))
    exactly = dtype == torch.float32
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5 if exactly else 0.02)
    for our, their in zip(gradients(got, inputs), gradients(expected, exact), strict=True):
        their = torch.zeros_like(our).double() if their is None else their
        tolerance = {"rtol": 1e-4, "atol": 2e-5} if exactly else {"rtol": 0.05, "atol": 0.2}
        torch.testing.assert_close(our.double(), their, **tolerance)


def test_additive_scores_and_their_gradients_equal_the_equation(dtype, close):
    queries, keys, v = (
        drawn(dtype, BATCH, TARGET, SCORES),
        drawn(torch.float32, BATCH, SOURCE, SCORES),
        drawn(dtype, SCORES),
    )
    inputs = [queries, keys, v]
    exact = doubled(inputs)
    is_read = torch.arange(SOURCE) < torch.tensor([3, 1, 2, 3, 2])[:, None, None]  # the others have no gradient
    got = additive_scores(*inputs)
    expected = torch.tanh(exact[0][:, :, None] + exact[1][:, None]) @ exact[2]
    torch.testing.assert_close(got.double(), expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
    for ours, theirs in zip(gradients([got * is_read], inputs), gradients([expected * is_read], exact), strict=True):
        close(ours, theirs)
    with torch.no_grad():
        assert torch.equal(additive_scores(*inputs), got)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(additive_scores(*inputs).sum(), queries, create_graph=True)


def test_additive_scores_of_other_sizes_are_those_of_torch():
    """A kernel would read, and in the backward pass write, other memory."""
    standard = Additive(DECODER, VALUES, SCORES)
    fused, query, keys = fuse(standard), torch.randn(1, TARGET, DECODER), torch.randn(BATCH, SOURCE, SCORES)
    torch.testing.assert_close(*(each(query, keys[:1]) for each in (fused, standard)))
    with pytest.raises(RuntimeError, match="must match the size"):
        fused(query.expand(BATCH, -1, -1), keys[..., 1:])


def test_a_step_of_additive_attention_equals_the_attention_module(dtype, close):
    attention = Attention(Additive(DECODER, VALUES, SCORES)).double()
    query, keys = drawn(dtype, BATCH, DECODER), drawn(dtype, BATCH, SOURCE, VALUES)
    is_token = torch.arange(SOURCE) < torch.tensor([3, 1, 2, 3, 2])[:, None]
    weight, v = attention.scorer.query_layer.weight, attention.scorer.v
    source = attention.prepare(keys.double(), is_token=is_token)
    context, weights = attention(query.double()[:, None], source)
    projected = (query.double() @ weight.t()).to(dtype)
    written = query.new_empty(BATCH, SOURCE), query.new_empty(BATCH, VALUES)
    with torch.no_grad():
        read_forward(projected, source.prepared.float(), v.float(), source.is_token, keys, *written)
    close(written[0], weights.squeeze(1))
    close(written[1], context.squeeze(1))
    assert (written[0][~is_token] == 0).all()


def test_the_backward_pass_of_attention_is_the_same_without_a_kernel(dtype, close, no_kernels):
    query, grad_context = drawn(dtype, BATCH, SCORES).detach(), drawn(dtype, BATCH, VALUES).detach()
    keys, v = torch.randn(BATCH, SOURCE, SCORES), torch.randn(SCORES)
    values, grad_weights = drawn(dtype, BATCH, SOURCE, VALUES).detach(), drawn(dtype, BATCH, SOURCE).detach()
    weights = torch.randn(BATCH, SOURCE).softmax(dim=1).to(dtype)

    def outcome(*precise):
        query, keys, v, values, weights, grad_context, grad_weights = precise
        written = torch.empty_like(query), torch.ones_like(keys), torch.ones_like(query, dtype=keys.dtype)
        read_backward(query, keys, v, values, weights, grad_context, grad_weights, *written)
        return written

    inputs = query, keys, v, values, weights, grad_context, grad_weights
    by_kernel = outcome(*inputs)
    no_kernels()
    for ours, theirs in zip(by_kernel, outcome(*(part.double() for part in inputs)), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_over_the_vocabulary_equals_that_of_torch(dtype, smoothing):
    tokens, size = 29, 7
    features, targets = drawn(dtype, tokens, size), torch.randint(0, WORDS, (tokens,))
    output = nn.Linear(size, WORDS).to(dtype)
    exact = nn.Linear(size, WORDS).double()
    exact.load_state_dict(output.state_dict())
    (x,) = doubled([features])
    loss, negative = fused_loss(features, output.weight, output.bias, targets, smoothing)
    expected = F.cross_entropy(exact(x), targets, label_smoothing=smoothing, reduction="sum")
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.03}
    torch.testing.assert_close(loss.double(), expected, **tolerance)
    torch.testing.assert_close(negative.double(), F.cross_entropy(exact(x), targets, reduction="sum"), **tolerance)
    got = torch.autograd.grad(loss, [features, *output.parameters()])
    for ours, theirs in zip(got, torch.autograd.grad(expected, [x, *exact.parameters()]), strict=True):
        torch.testing.assert_close(ours.double(), theirs, **tolerance)


def read(scores, values, weights, contexts, /, **options):
    (sentences, queries, length), width = scores.shape, values.shape[2]
    sizes = {"sentences": sentences, "queries": queries, "length": length, "width": width}
    tensors = {"scores": scores, "is_token": None, "values": values, "weights": weights, "contexts": contexts}
    native.run("attention_read", scores.dtype, **sizes | tensors | options)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mask": None}, "declared with other arguments: mask"),
        ({"length": 2.0}, "length must be a"),
        ({"length": None}, "length must be a"),
        ({"values": 1}, "values must be a"),
        ({"values": torch.zeros(1, 2, 1, dtype=torch.double)}, "got a Tensor of torch.float64"),
        ({"is_token": torch.ones(2, dtype=torch.uint8)}, "is_token must be a torch.bool"),
        ({"values": torch.zeros(1, 2, 2)[..., :1]}, "not contiguous"),
        ({"values": torch.zeros(1, 2, 1, device="meta")}, "on meta"),
    ],
)
def test_arguments_that_differ_from_the_declaration_of_a_kernel_are_refused(options, what):
    """Otherwise it would read, or write, other memory."""
    if not native.has_kernels(torch.empty(0)):
        pytest.skip("no compiler here")
    scores, values, weights, contexts = torch.zeros(1, 1, 2), torch.zeros(1, 2, 1), torch.zeros(1, 1, 2), torch.zeros(1)
    with pytest.raises(TypeError, match=what):
        read(scores, values, weights, contexts, **options)


def test_a_declaration_has_a_number_of_threads_and_known_types():
    assert len(declarations()) > 10
    for name, parameters in declarations().items():
        *given, threads = parameters
        assert threads == ("threads", "Index", False), name
        assert {kind for _, kind, is_pointer in given if is_pointer} <= {"Number", "float", "bool", "Index"}, name
        assert {kind for _, kind, is_pointer in given if not is_pointer} <= {"Index", "double"}, name


def test_results_computed_by_hand(dtype, close):
    # Scores 0 and log 3 give the weights 1/4 and 3/4; with the values 8 and 4 the context is 2 + 3.
    scores = torch.tensor([[[0.0, math.log(3)]]]).to(dtype)
    weights, context = torch.empty_like(scores), scores.new_empty(1, 1, 1)
    values = torch.tensor([[[8.0], [4.0]]]).to(dtype)
    read(scores, values, weights, context)
    close(weights, torch.tensor([[[0.25, 0.75]]]).double())
    close(context, torch.tensor([[[5.0]]]).double())
    # A score of minus infinity gives a weight of exactly 0.
    scores = torch.tensor([[[0.0, -math.inf]]]).to(dtype)
    read(scores, values, weights, context)
    assert (weights.tolist(), context.tolist()) == ([[[1.0, 0.0]]], [[[8.0]]])
    # With pre-activations of 0, both gates are 1/2 and the candidate is 0: the state is halved.
    nothing, state = torch.zeros(1, 6).to(dtype), torch.tensor([[0.5, -2.0]]).to(dtype)
    close(gru_update(nothing, nothing, state), torch.tensor([[0.25, -1.0]]).double())


def test_ties_in_rounding_to_bf16_go_to_the_even_number():
    if not native.has_kernels(torch.empty(0, dtype=torch.bfloat16)):
        pytest.skip("no compiler here")
    unit = 2**-7  # the spacing of bf16 numbers from 1 to 2
    values = torch.tensor([[[1.0, 1 + unit], [1 + unit, 1 + 2 * unit]]]).bfloat16()
    context = values.new_empty(1, 1, 2)
    read(values.new_zeros(1, 1, 2), values, values.new_empty(1, 1, 2), context)
    assert context.flatten().tolist() == [1.0, 1 + 2 * unit]


def test_equal_continuations_keep_the_order_of_parents_and_tokens(dtype):
    logits = torch.zeros(2, 90).to(dtype)
    found = best_continuations(torch.zeros(1, 2), logits, 100, True)
    assert found.tokens.flatten().tolist() == [token for token in range(90) if token not in (PAD, BOS)] + [
        0,
        *range(3, 14),
    ]
    assert found.parents.flatten().tolist() == [0] * 88 + [1] * 12


def test_large_numbers_saturate_and_nan_propagates(dtype):
    x = torch.tensor([[1e30, 1e30, -1e30], [-1e30, -1e30, 1e30], [math.nan, 0, 0], [0, math.nan, 0], [0, 0, math.nan]])
    state = torch.full((5, 1), 0.5)
    updated = gru_update(x.to(dtype), torch.zeros(5, 3).to(dtype), state.to(dtype))
    assert updated[:2].flatten().tolist() == [0.5, 1.0]  # z = 1 keeps the state, z = 0 takes the candidate
    assert updated[3:].isnan().all()
    output = nn.Linear(2, 3).to(dtype)
    features = torch.tensor([[math.nan, 1.0]]).to(dtype)
    loss, negative = fused_loss(features, output.weight, output.bias, torch.tensor([1]), 0.0)
    assert loss.isnan()
    assert negative.isnan()


def test_results_do_not_depend_on_the_number_of_threads(dtype):
    def outcome(threads):
        torch.manual_seed(3)
        torch.set_num_threads(threads)
        features, output = drawn(dtype, 300, 8), nn.Linear(8, 200).to(dtype)
        loss, _ = fused_loss(features, output.weight, output.bias, torch.randint(0, 200, (300,)), 0.1)
        states = gru_update(*(drawn(dtype, 200, size) for size in (300, 300, 100)))
        return loss, *torch.autograd.grad(loss, output.bias), states

    before = torch.get_num_threads()
    try:
        for one, two in zip(outcome(1), outcome(2), strict=True):
            assert torch.equal(one, two)
    finally:
        torch.set_num_threads(before)


def test_there_are_no_kernels_for_other_dtypes_and_devices():
    assert not native.has_kernels(torch.empty(0, dtype=torch.double))
    assert not native.has_kernels(torch.empty(0, dtype=torch.float16))
    assert not native.has_kernels(torch.empty(0, device="meta"))
