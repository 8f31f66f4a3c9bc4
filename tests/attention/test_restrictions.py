"""What each query may read: masks per query, causality, a bias on the scores, and calls without weights."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from catalog import AROUND_ATTENTION, ATTENTIONS, KEY, QUERY, chunkwise

from seq2seq_attn.attention import (
    Additive,
    Attention,
    Dot,
    FixedContext,
    General,
    KeyValueAttention,
    LocalM,
    LocationAware,
    MeanContext,
    MeanState,
    MultiHead,
    ScaledDot,
    Softmax,
    Sparsemax,
    attend,
)
from seq2seq_attn.ops import fuse

B, T, S, HEADS, SIZE = 2, 3, 4, 6, 5
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, True, False]])
MAY_READ = torch.tensor(
    [
        [[True, False, True, True], [False, True, False, False], [True, True, False, True]],
        [[False, False, True, True], [True, True, True, False], [True, False, True, True]],
    ]
)
CONTEXTS = ATTENTIONS | AROUND_ATTENTION


@pytest.fixture(params=CONTEXTS.values(), ids=CONTEXTS.keys())
def attention(request):
    torch.manual_seed(4)
    return request.param().eval()


def example(attention, queries=T):
    return torch.randn(B, queries, attention.query_size), torch.randn(B, S, KEY)


def assert_same(one, other, **tolerance):
    for ours, expected in zip(one, other, strict=True):
        torch.testing.assert_close(ours, expected, **tolerance)


def test_a_mask_per_query_is_a_loop_over_queries_with_that_mask_as_padding(attention):
    query, keys = example(attention)
    seen, history = [], attention.start(attention.prepare(keys))
    for t in range(T):
        source = attention.prepare(keys, is_token=IS_TOKEN & MAY_READ[:, t])
        *step, history = attention(query[:, t : t + 1], source, history)
        seen.append(step)
    expected = [torch.cat(part, dim=1) for part in zip(*seen, strict=True)]
    assert_same(attend(attention, query, keys, is_token=IS_TOKEN, may_read=MAY_READ), expected)


def test_a_step_of_hypotheses_takes_one_mask_per_hypothesis(attention):
    query, keys = example(attention)
    source = attention.prepare(keys, is_token=IS_TOKEN)
    history = attention.start(source)
    several = [attention(query[:, k : k + 1], source, history, may_read=MAY_READ[:, k : k + 1])[:2] for k in range(T)]
    repeated = torch.utils._pytree.tree_map(lambda each: each.repeat_interleave(T, dim=1), history)
    at_once = attention(query, source, repeated, may_read=MAY_READ)[:2]
    assert_same(at_once, [torch.cat(part, dim=1) for part in zip(*several, strict=True)])


def test_causal_queries_are_the_last_of_the_source(attention):
    query, keys = example(attention)
    last = torch.ones(T, S, dtype=torch.bool).tril(diagonal=S - T)
    expected = attend(attention, query, keys, may_read=last)
    assert_same(attend(attention, query, keys, causal=True), expected, rtol=0, atol=0)
    assert (expected[1].masked_select(~last) == 0).all()


def test_a_bias_of_minus_infinity_is_a_mask_and_one_of_0_is_nothing(attention):
    if not isinstance(attention, Attention) and not isinstance(getattr(attention, "attention", None), Attention):
        pytest.skip("has two scores")
    query, keys = example(attention)
    bias = torch.zeros(B, T, S).masked_fill(~MAY_READ, -torch.inf)
    expected = attend(attention, query, keys, is_token=IS_TOKEN, may_read=MAY_READ)
    assert_same(attend(attention, query, keys, is_token=IS_TOKEN, bias=bias), expected)


def test_contexts_are_the_same_without_weights(attention):
    query, keys = example(attention)
    options = {"is_token": IS_TOKEN, "may_read": MAY_READ}
    expected, _ = attend(attention, query, keys, **options)
    contexts, weights = attend(attention, query, keys, **options, need_weights=False)
    assert weights is None
    torch.testing.assert_close(contexts, expected)
    source = attention.prepare(keys, is_token=IS_TOKEN)
    step = attention(query[:, :1], source, attention.start(source), may_read=MAY_READ[:, :1], need_weights=False)
    assert step[1] is None
    torch.testing.assert_close(step[0], expected[:, :1])


@pytest.mark.parametrize("shape", [(B, T, S), (1, T, S), (T, S), (B, 1, S), (S,)])
def test_weights_are_a_softmax_of_scores_and_bias_in_numpy(shape):
    torch.manual_seed(5)
    attention = Attention(General(QUERY, KEY)).double()
    query, keys, bias = torch.randn(B, T, QUERY).double(), torch.randn(B, S, KEY).double(), torch.randn(shape).double()
    q, k, w = query.numpy(), keys.numpy(), attention.scorer.key_layer.weight.detach().numpy()
    scores = np.einsum("btq,qk,bsk->bts", q, w, k) + bias.numpy()
    unnormalized = np.exp(scores) * (IS_TOKEN[:, None] & MAY_READ).numpy()
    expected = unnormalized / unnormalized.sum(-1, keepdims=True)
    context, weights = attend(attention, query, keys, is_token=IS_TOKEN, may_read=MAY_READ, bias=bias)
    np.testing.assert_allclose(weights.detach(), expected, atol=1e-12)
    np.testing.assert_allclose(context.detach(), expected @ k, atol=1e-12)


def test_a_large_bias_in_half_precision_keeps_its_digits():
    """ALiBi reaches hundreds, where bfloat16 cannot represent 257."""
    attention = Attention(Dot(KEY, KEY))
    query, keys, bias = torch.zeros(B, T, KEY), torch.randn(B, S, KEY), -torch.arange(256.0, 256.0 + S).expand(T, S)
    _, weights = attend(attention, query.bfloat16(), keys.bfloat16(), bias=bias)
    assert weights.dtype == torch.bfloat16
    torch.testing.assert_close(weights.float(), bias.softmax(-1).expand(B, -1, -1), atol=0.01, rtol=0)


@pytest.mark.parametrize("shape", [(1,), (T, 1), (B, 1, 1)])
@pytest.mark.parametrize("argument", ["bias", "may_read"])
@pytest.mark.parametrize("prepare", [lambda each: each, partial(fuse, constant=True)], ids=["as written", "fused"])
def test_what_is_alike_for_all_positions_leaves_the_window_as_it_is(shape, argument, prepare):
    attention = Attention(General(QUERY, KEY), window=LocalM(QUERY, half_width=1))
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    value = torch.full(shape, -1.0) if argument == "bias" else torch.ones(shape, dtype=torch.bool)
    with torch.inference_mode():
        expected, plain = attend(attention, query, keys)
        context, weights = attend(prepare(attention), query, keys, **{argument: value})
    torch.testing.assert_close(weights, plain)
    torch.testing.assert_close(context, expected)
    assert (weights == 0).any()


@pytest.mark.parametrize("make", [lambda: General(QUERY, KEY), lambda: Additive(QUERY, KEY, hidden_size=11)])
def test_gradients_with_masks_and_bias_are_the_derivatives(make):
    torch.manual_seed(6)
    attention = Attention(make()).double()
    inputs = [torch.randn(shape).double().requires_grad_() for shape in ((B, T, QUERY), (B, S, KEY), (T, S))]

    def read(query, keys, bias):
        return attend(attention, query, keys, is_token=IS_TOKEN, may_read=MAY_READ, bias=bias)

    assert torch.autograd.gradcheck(read, inputs, fast_mode=True)


# torch's own operation


def scaled_dot(queries=T, dtype=torch.float32, **options):
    torch.manual_seed(7)
    attention = Attention(ScaledDot(SIZE, SIZE), value_size=KEY, **options).to(dtype)
    query, keys, values = torch.randn(B, queries, SIZE), torch.randn(B, S, SIZE), torch.randn(B, S, KEY)
    return attention, [each.to(dtype).requires_grad_() for each in (query, keys, values)]


@pytest.fixture
def calls(monkeypatch):
    """The options of every call of torch's operation."""
    seen, original = [], F.scaled_dot_product_attention

    def recorded(*tensors, **options):
        seen.append(options)
        return original(*tensors, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", recorded)
    return seen


RESTRICTIONS = {
    "nothing": {},
    "tokens": {"is_token": IS_TOKEN},
    "mask": {"is_token": IS_TOKEN, "may_read": MAY_READ},
    "causal": {"causal": True},
    "causal tokens": {"causal": True, "is_token": IS_TOKEN},
    "bias": {"bias": torch.linspace(-2, 2, T * S).view(T, S)},
    "bias and mask": {"bias": torch.linspace(-2, 2, T * S).view(1, T, S), "may_read": MAY_READ, "is_token": IS_TOKEN},
}


@pytest.mark.parametrize("restriction", RESTRICTIONS.values(), ids=RESTRICTIONS.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_softmax_of_scaled_dots_is_torchs_sdpa_with_its_gradients(restriction, dtype, calls, fused):
    attention, inputs = scaled_dot(dtype=dtype)
    expected, weights = attend(attention, *inputs, **restriction)
    assert weights is not None
    assert not calls
    contexts, weights = attend(fuse(attention), *inputs, **restriction, need_weights=False)
    assert weights is None
    assert len(calls) == 1
    tolerance = {"atol": 0.04, "rtol": 0.02} if dtype == torch.bfloat16 else {"atol": 1e-6, "rtol": 1e-5}
    torch.testing.assert_close(contexts, expected, **tolerance)
    grads, expected_grads = (torch.autograd.grad(each.square().sum(), inputs) for each in (contexts, expected))
    torch.testing.assert_close(grads, expected_grads, **{**tolerance, "atol": 3 * tolerance["atol"]})


def test_a_learned_bias_gets_the_same_gradient_from_torchs_operation(calls, fused):
    attention, inputs = scaled_dot()
    bias = torch.randn(1, T, S, requires_grad=True)
    grads = [
        torch.autograd.grad(attend(each, *inputs, bias=bias, need_weights=False)[0].square().sum(), bias)
        for each in (attention, fuse(attention))
    ]
    assert len(calls) == 1
    torch.testing.assert_close(*grads)


def test_causal_self_attention_passes_no_mask_to_torch(calls, fused):
    attention, inputs = scaled_dot(queries=S)
    expected = attend(attention, *inputs, causal=True)[0]
    torch.testing.assert_close(attend(fuse(attention), *inputs, causal=True, need_weights=False)[0], expected)
    assert calls[0]["is_causal"]
    assert calls[0]["attn_mask"] is None


class MyScaledDot(ScaledDot, registered=False):
    def forward(self, query, prepared):
        return 2 * super().forward(query, prepared)


def hooked(part):
    part.register_forward_hook(lambda module, given, returned: 2 * returned)
    return part


def patched(part):
    original = part.forward
    part.forward = lambda *given: 2 * original(*given)
    return part


OTHERS = {
    "a subclass": lambda: Attention(MyScaledDot(SIZE, SIZE)),
    "another scorer": lambda: Attention(Dot(SIZE, SIZE)),
    "another normalizer": lambda: Attention(ScaledDot(SIZE, SIZE), Sparsemax()),
    "a temperature": lambda: Attention(ScaledDot(SIZE, SIZE), Softmax(0.5)),
    "a window": lambda: Attention(ScaledDot(SIZE, SIZE), window=LocalM(SIZE, half_width=1)),
    "a hook on the scorer": lambda: Attention(hooked(ScaledDot(SIZE, SIZE))),
    "a hook on the normalizer": lambda: Attention(ScaledDot(SIZE, SIZE), hooked(Softmax())),
    "a method of its own": lambda: Attention(patched(ScaledDot(SIZE, SIZE))),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS.keys())
def test_modified_modules_run_their_own_code(make, calls):
    attention, (query, keys, _) = make(), scaled_dot()[1]
    expected, _ = attend(attention, query, keys, is_token=IS_TOKEN)
    contexts, weights = attend(fuse(attention), query, keys, is_token=IS_TOKEN, need_weights=False)
    assert not calls
    assert weights is None
    assert torch.equal(contexts, expected)


def test_attention_itself_works_under_transforms():
    attention, inputs = scaled_dot()
    seen = torch.func.vmap(lambda q: attend(attention, q, *inputs[1:], need_weights=False)[0])(inputs[0][None])
    torch.testing.assert_close(seen[0], attend(attention, *inputs)[0])


# Dropout


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_is_drawn_in_training_mode_alone_and_is_right_in_expectation(need_weights):
    attention, inputs = scaled_dot(dropout=0.3)
    expected, _ = attend(attention.eval(), *inputs, is_token=IS_TOKEN, need_weights=need_weights)
    exact, _ = attend(scaled_dot()[0], *inputs, is_token=IS_TOKEN)
    torch.testing.assert_close(expected, exact)
    many = [each[:, None].expand(-1, 1000, -1, -1).flatten(0, 1) for each in inputs]
    is_token = IS_TOKEN.repeat_interleave(1000, dim=0)
    contexts, _ = attend(attention.train(), *many, is_token=is_token, need_weights=need_weights)
    assert contexts.unflatten(0, (B, -1)).std(dim=1).max() > 0.1
    torch.testing.assert_close(contexts.unflatten(0, (B, -1)).mean(dim=1), exact, atol=0.15, rtol=0)


def test_the_weights_returned_are_those_of_the_sum_and_come_from_torchs_generator():
    attention, (query, keys, values) = scaled_dot(dropout=0.5)
    _, exact = attend(attention.eval(), query, keys, values)
    attention.train()
    torch.manual_seed(8)
    context, weights = attend(attention, query, keys, values)
    torch.testing.assert_close(context, weights @ values)
    dropped = weights == 0
    assert 0 < dropped.sum() < dropped.numel()
    torch.testing.assert_close(weights, torch.where(dropped, 0, 2 * exact))
    torch.manual_seed(8)
    assert torch.equal(attend(attention, query, keys, values)[1], weights)


def test_a_history_keeps_the_weights_before_dropout():
    attention = Attention(LocationAware(QUERY, KEY), dropout=0.5)
    query, keys = torch.randn(B, 1, QUERY), torch.randn(B, S, KEY)
    source = attention.prepare(keys)
    _, exact, history = attention.eval()(query, source, attention.start(source))
    _, weights, dropped_history = attention.train()(query, source, attention.start(source))
    assert not torch.equal(weights, exact)
    assert torch.equal(dropped_history[0], history[0])


def test_chunks_are_dropped_as_their_attention_says():
    attention = chunkwise(QUERY, KEY)
    attention.attention.dropout = 0.5
    torch.manual_seed(9)
    keys = torch.randn(B, S, KEY)
    context, weights = attend(attention.train(), torch.randn(B, 20, QUERY), keys)
    torch.testing.assert_close(context, weights @ keys)
    assert 0.3 < (weights[:, 0] == 0).float().mean() < 0.8  # later the path has left the first positions


# Heads, halves, and what cannot be restricted


def heads():
    torch.manual_seed(10)
    return MultiHead(Attention(ScaledDot(SIZE, SIZE)), HEADS, QUERY, KEY)


def test_heads_may_have_masks_and_biases_of_their_own():
    model, query, keys = heads(), torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    may_read = torch.rand(B, HEADS, T, S) < 0.6
    may_read[..., 0] = True
    slopes = 2.0 ** -torch.arange(1.0, HEADS + 1)
    alibi = -slopes[:, None, None] * (torch.arange(T)[:, None] - torch.arange(S)).abs()
    source = model.prepare(keys, is_token=IS_TOKEN)
    found = model.head_weights(query, source, may_read=may_read, bias=alibi[None])
    for m in range(HEADS):
        one = model.head_weights(query, source, may_read=may_read[:, m], bias=alibi[m])
        torch.testing.assert_close(found[:, m], one[:, m])
    context, weights = model(query, source, may_read=may_read, bias=alibi[None])
    torch.testing.assert_close(weights, found.mean(dim=1))
    without = model(query, source, may_read=may_read, bias=alibi[None], need_weights=False)
    assert without[1] is None
    torch.testing.assert_close(without[0], context)


def test_halves_of_states_are_restricted_as_their_attention_is():
    inner = Attention(General(QUERY, 3))
    states, query = torch.randn(B, S, 6), torch.randn(B, T, QUERY)
    ours = attend(KeyValueAttention(inner), query, states, may_read=MAY_READ, bias=torch.ones(T, S))
    expected = attend(inner, query, states[..., :3], states[..., 3:], may_read=MAY_READ, bias=torch.ones(T, S))
    assert_same(ours, expected, rtol=0, atol=0)


@pytest.mark.parametrize("make", [lambda: MeanContext(KEY), lambda: FixedContext(MeanState(), KEY)])
def test_a_context_without_queries_gives_no_weights_where_none_are_needed(make):
    query, keys = torch.randn(B, T, QUERY), torch.randn(B, S, KEY)
    assert attend(make(), query, keys, need_weights=False)[1] is None
