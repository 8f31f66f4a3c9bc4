"""Every kernel equals, up to its precision, the reference implementation in double."""

import math

import pytest
import torch
from torch import nn

from seq2seq_attn.attention import Additive, Attention, AttentionSource
from seq2seq_attn.corpora.vocabulary import BOS, PAD
from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.ops.continuations import best_continuations
from seq2seq_attn.ops.decoders import DecoderWeights, decoder_sequence
from seq2seq_attn.ops.gru import gru_sequence, step_forward
from seq2seq_attn.ops.loss import fused_loss
from seq2seq_attn.ops.native import declarations
from seq2seq_attn.ops.scorers import additive_scores, read_backward, read_forward

BATCH, SOURCE, TARGET, DECODER, VALUES, SCORES, WORDS = 5, 3, 4, 19, 23, 37, 131  # not multiples of a vector register


def drawn(dtype, *shape, scale=1.0):
    """Random numbers that the dtype represents exactly, so that both computations have the same inputs."""
    return (scale * torch.randn(*shape)).to(dtype).requires_grad_()


def doubled(tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def gru_step(x, u, state):
    size = state.shape[1]
    gates, candidate, updated = state.new_empty(len(state), 2 * size), torch.empty_like(state), torch.empty_like(state)
    step_forward(x, u, state, gates, candidate, updated)
    return updated


def gradients(outputs, inputs):
    """The gradients of a weighted sum of all numbers of the outputs."""
    loss = sum((out.double() * torch.arange(out.numel()).view_as(out).sin()).sum() for out in outputs)
    return torch.autograd.grad(loss, list(inputs), allow_unused=True)


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


ADDITIVE = {"query": (SCORES, DECODER), "v": (SCORES,)}
FIRST_CELL = {"first": (3 * DECODER, DECODER), "first_bias": (3 * DECODER,), "gates_bias": (3 * DECODER,)}
FEEDING = {"feed": (BATCH, DECODER), "combine": (DECODER, VALUES + DECODER), "combine_bias": (DECODER,)}


def shapes_of(scores, more):
    width = DECODER if "feed" in more else VALUES  # of what is added to the gates
    return {
        "inputs": (TARGET, BATCH, 3 * DECODER),
        "initial": (BATCH, DECODER),
        "keys": (BATCH, SOURCE, SCORES if scores else DECODER),
        "values": (BATCH, SOURCE, VALUES),
        "to_gates": (3 * DECODER, width),
        "recurrent": (3 * DECODER, DECODER),
        "recurrent_bias": (3 * DECODER,),
        **scores,
        **more,
    }


def by_equations(
    is_token, inputs, initial, keys, values, to_gates, recurrent, recurrent_bias, query=None, v=None, first=None,
    first_bias=None, gates_bias=None, feed=None, combine=None, combine_bias=None,
):  # fmt: skip
    """The states, contexts and weights of a decoder, in the words of the papers."""

    def read(state):
        if query is None:
            scores = (keys @ state[:, :, None]).squeeze(2)
        else:
            scores = torch.tanh((state @ query.t())[:, None] + keys) @ v
        weights = (scores if is_token is None else scores.masked_fill(~is_token[:, 0], -torch.inf)).softmax(dim=1)
        return (weights[:, None] @ values).squeeze(1), weights

    state, steps = initial, []
    for gates in inputs:
        if first is not None:
            state, gates = GRUCell.update(gates, state @ first.t() + first_bias, state), gates_bias
        if feed is None:
            context, weights = read(state)
        fed = context if feed is None else feed
        state = GRUCell.update(gates + fed @ to_gates.t(), state @ recurrent.t() + recurrent_bias, state)
        if feed is not None:
            context, weights = read(state)
            feed = torch.tanh(torch.cat((context, state), dim=1) @ combine.t() + combine_bias)
        steps.append((state if feed is None else feed, context, weights))
    return [torch.stack(part) for part in zip(*steps, strict=True)]


@pytest.mark.parametrize("more", [{}, FIRST_CELL, FEEDING], ids=["one cell", "two cells", "input feeding"])
@pytest.mark.parametrize("scores", [ADDITIVE, {}], ids=["additive", "dot product"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("read", [(0,), (1,), (2,), (0, 1, 2)], ids=["states", "contexts", "weights", "all"])
def test_a_decoder_under_teacher_forcing_follows_the_equations_of_the_papers(dtype, padded, read, scores, more):
    is_token = torch.tensor([[True] * 3, [True, True, False], [True, False, False], [True] * 3, [True] * 3])
    is_token = is_token[:, None] if padded else None
    inputs = {name: drawn(dtype, *shape, scale=0.4) for name, shape in shapes_of(scores, more).items()}
    inputs["keys"] = inputs["keys"].detach().float().requires_grad_()  # scores have full precision
    exact = dict(zip(inputs, doubled(inputs.values()), strict=True))

    def by_kernels(inputs, initial, keys, values, feed=None, **weights):
        return decoder_sequence(
            inputs, initial, AttentionSource(keys, values, is_token), DecoderWeights(**weights), feed
        )

    got, expected = (
        [found[part] for part in read] for found in (by_kernels(**inputs), by_equations(is_token, **exact))
    )
    exactly = dtype == torch.float32
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5 if exactly else 0.02)
    ours, theirs = gradients(got, inputs.values()), gradients(expected, exact.values())
    tolerance = {"rtol": 1e-4, "atol": 2e-5} if exactly else {"rtol": 0.05, "atol": 0.2}
    for our, their in zip(ours, theirs, strict=True):
        if our is None:
            assert their is None
        else:
            their = torch.zeros_like(our).double() if their is None else their
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
    close(gru_step(nothing, nothing, state), torch.tensor([[0.25, -1.0]]).double())


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
    updated = gru_step(x.to(dtype), torch.zeros(5, 3).to(dtype), state.to(dtype))
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
        states = gru_step(*(drawn(dtype, 200, size).detach() for size in (300, 300, 100)))
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
