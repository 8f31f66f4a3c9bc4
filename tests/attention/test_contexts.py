"""All contexts: the common contract, and the properties specific to each."""

import copy
import itertools

import pytest
import torch

from seq2seq_attn.attention import (
    Additive,
    Attention,
    ChunkwiseAttention,
    FixedContext,
    General,
    LastState,
    LearnedPool,
    LinguisticCoverage,
    LocalM,
    LocalP,
    LocationAware,
    MeanContext,
    MeanState,
    Monotonic,
    MultiHead,
    NeuralCoverage,
    NoContext,
    Normalizer,
    Relative,
    ScaledDot,
    Softmax,
    each_tensor,
)

B, T, S, QUERY, KEY, VALUE = 2, 3, 4, 5, 7, 6
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])

CONTEXTS = {
    "attention": lambda: Attention(Additive(QUERY, KEY, hidden_size=11), value_size=VALUE),
    "fixed_last": lambda: FixedContext(LastState(directions=2), VALUE),
    "fixed_mean": lambda: FixedContext(MeanState(), VALUE),
    "fixed_learned_pool": lambda: FixedContext(LearnedPool(VALUE), VALUE),
    "none": NoContext,
    "mean": lambda: MeanContext(VALUE),
    "location_aware": lambda: Attention(LocationAware(QUERY, KEY), value_size=VALUE),
    "linguistic_coverage": lambda: Attention(LinguisticCoverage(QUERY, KEY), value_size=VALUE),
    "neural_coverage": lambda: Attention(NeuralCoverage(QUERY, KEY), value_size=VALUE),
    "relative": lambda: relative(),
    "local_m": lambda: Attention(General(QUERY, KEY), window=LocalM(QUERY, half_width=1), value_size=VALUE),
    "local_p": lambda: Attention(General(QUERY, KEY), window=LocalP(QUERY, half_width=2), value_size=VALUE),
    "monotonic": lambda: Attention(General(QUERY, KEY), Monotonic(noise=0), value_size=VALUE),
    "chunkwise": lambda: chunkwise(QUERY, KEY, VALUE),
    "multi_head": lambda: MultiHead(Attention(ScaledDot(8, 8)), 3, QUERY, KEY, VALUE),
    "multi_head_chunkwise": lambda: MultiHead(chunkwise(8, 9, 10), 3, QUERY, KEY, VALUE),
}


def relative():
    scorer = Relative(QUERY, KEY, max_distance=2)
    torch.nn.init.normal_(scorer.bias)  # 0 at first
    return Attention(scorer, value_size=VALUE)


def chunkwise(query_size, key_size, value_size):
    place = Attention(General(query_size, key_size), Monotonic(noise=0), value_size=value_size)
    return ChunkwiseAttention(place, LocationAware(query_size, key_size), chunk_size=2)


@pytest.fixture(params=CONTEXTS.values(), ids=CONTEXTS.keys())
def context(request):
    torch.manual_seed(4)
    return request.param()


@pytest.fixture
def query():
    return torch.randn(B, T, QUERY)


@pytest.fixture
def keys():
    return torch.randn(B, S, KEY)


@pytest.fixture
def values():
    return torch.randn(B, S, VALUE)


def assert_same(ours, expected):
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other)


def assert_same_history(ours, expected):
    if isinstance(ours, tuple):
        for one, other in zip(ours, expected, strict=True):
            assert_same_history(one, other)
    else:
        assert torch.equal(ours, expected)


def test_a_context_has_its_value_size_and_weights_a_source(context, query, keys, values):
    seen, weights = context(query, context.prepare(keys, values, IS_TOKEN))
    assert seen.shape == (B, T, context.value_size)
    assert weights.shape == (B, T, S)
    assert (weights[1, :, 2:] == 0).all()


@pytest.mark.parametrize("training", [True, False])
def test_queries_at_once_equal_queries_step_by_step(context, query, keys, values, training):
    context.train(training)
    source = context.prepare(keys, values, IS_TOKEN)
    at_once = context(query, source)
    history = context.start(source)
    for t in range(T):
        *seen, history = context(query[:, t : t + 1], source, history)
        assert_same(seen, [part[:, t : t + 1] for part in at_once])


def test_steps_depend_on_earlier_steps_exactly_if_needs_history(context, query, keys, values):
    source = context.prepare(keys, values, IS_TOKEN)
    again = query[:, :1].expand(B, T, QUERY)
    seen = context(again, source)[0]
    assert torch.allclose(seen, seen[:, :1]) != context.needs_history


def test_a_step_does_not_modify_its_history(context, query, keys, values):
    source = context.prepare(keys, values, IS_TOKEN)
    history = context.start(source)
    for _ in range(2):
        before = each_tensor(torch.clone, history)
        *seen, after = context(query[:, :1], source, history)
        *again, _ = context(query[:, :1], source, history)
        assert_same(again, seen)
        assert_same_history(history, before)
        history = after


def test_hypotheses_of_a_beam_equal_each_one_alone(context, keys, values):
    """Two hypotheses a sentence; at every step both go on, change places, or one is continued twice."""
    context.eval()
    source = context.prepare(keys, values, IS_TOKEN)
    parents = torch.tensor([[[0, 0], [1, 0], [1, 1]], [[0, 0], [0, 1], [1, 0]]])  # of sentence b at step t
    queries = torch.randn(B, T, 2, QUERY)
    history, asked = context.start(source), [[[], []], [[], []]]
    for t in range(T):
        rows = [[parents[b, t, k] for k in range(2)] for b in range(B)]
        history = each_tensor(lambda tensor, rows=rows: torch.stack([tensor[b, rows[b]] for b in range(B)]), history)
        asked = [[[*asked[b][parents[b, t, k]], queries[b, t, k]] for k in range(2)] for b in range(B)]
        *seen, history = context(queries[:, t], source, history)
        for b, k in itertools.product(range(B), range(2)):
            alone = context(torch.stack(asked[b][k])[None], source.select(torch.tensor([b])))
            assert_same([part[b, k] for part in seen], [part[0, -1] for part in alone])


def test_the_query_matters_exactly_if_reads_query(context, query, keys, values):
    source = context.prepare(keys, values, IS_TOKEN)
    seen, other = context(query, source)[0], context(query + 1, source)[0]
    assert torch.equal(seen, other) != context.reads_query


def test_more_padding_with_any_content_changes_nothing(context, query, keys, values):
    seen, weights = context(query, context.prepare(keys, values, IS_TOKEN))
    longer = context.prepare(
        torch.cat((keys, 1e3 * torch.randn(B, 2, KEY)), dim=1),
        torch.cat((values, 1e3 * torch.randn(B, 2, VALUE)), dim=1),
        torch.nn.functional.pad(IS_TOKEN, (0, 2)),
    )
    assert_same(context(query, longer), (seen, torch.nn.functional.pad(weights, (0, 2))))


def test_rows_of_a_source_can_be_selected_and_repeated(context, query, keys, values):
    rows = torch.tensor([1, 0, 1])
    selected = context.prepare(keys, values, IS_TOKEN).select(rows)
    expected = context.prepare(keys[rows], values[rows], IS_TOKEN[rows])
    assert_same(context(query[rows], selected), context(query[rows], expected))


def test_no_mask_means_that_all_are_tokens(context, query, keys, values):
    all_tokens = torch.ones(B, S, dtype=torch.bool)
    assert_same(
        context(query, context.prepare(keys, values)),
        context(query, context.prepare(keys, values, all_tokens)),
    )
    rows = torch.tensor([1])
    selected = context.prepare(keys, values).select(rows)
    assert_same(context(query[rows], selected), context(query[rows], context.prepare(keys[rows], values[rows])))


def test_a_source_is_immutable(context, keys, values):
    source = context.prepare(keys, values)
    with pytest.raises(AttributeError):
        setattr(source, source._fields[0], keys)


def test_a_sentence_without_a_token_is_refused(context, keys, values):
    is_token = IS_TOKEN.clone()
    is_token[1] = False
    with pytest.raises(ValueError, match=r"no token in row\(s\) \[1\] of the source; keep at least `</s>`"):
        context.prepare(keys, values, is_token)
    with pytest.raises(ValueError, match="the source has no positions"):
        context.prepare(keys[:, :0], values[:, :0])


def test_a_mask_on_a_device_is_never_read(context, query, keys, values):
    source = context.to("meta").prepare(keys.to("meta"), values.to("meta"), IS_TOKEN.to("meta"))
    assert context(query.to("meta"), source)[1].shape == (B, T, S)  # tensors on `meta` have no contents


def test_gradients_of_a_context_are_those_of_finite_differences(context, query, keys, values):
    context = context.double()
    inputs = [tensor.double().requires_grad_() for tensor in (query, keys, values)]

    def read(query, keys, values, *parameters):  # the context's own, which gradcheck moves in place
        return context(query, context.prepare(keys, values, IS_TOKEN))[0]

    if context.value_size > 0:
        assert torch.autograd.gradcheck(read, (*inputs, *context.parameters()), fast_mode=True)


def test_a_context_survives_its_state_dict_and_a_deep_copy(context, query, keys, values):
    source = context.prepare(keys, values, IS_TOKEN)
    expected = context(query, source)
    twin = copy.deepcopy(context)
    with torch.no_grad():
        for parameter in context.parameters():
            parameter.fill_(0.25)
    assert_same(twin(query, twin.prepare(keys, values, IS_TOKEN)), expected)
    context.load_state_dict(twin.state_dict())
    assert_same(context(query, context.prepare(keys, values, IS_TOKEN)), expected)


@pytest.mark.parametrize("size", [0.0, 1e4])
@pytest.mark.parametrize("only_token", [0, S - 1])
def test_no_nan_with_one_token_and_vectors_however_large(context, query, keys, values, size, only_token):
    is_token = torch.zeros(B, S, dtype=torch.bool)
    is_token[:, only_token] = True
    query, keys = (size * query).requires_grad_(), (size * keys).requires_grad_()
    values.requires_grad_()
    seen, weights = context(query, context.prepare(keys, values, is_token))
    assert (weights[:, :, torch.arange(S) != only_token] == 0).all()
    (seen.sum() + 0 * query.sum()).backward()  # nothing is seen of no context
    for tensor in (query, keys, values, *context.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()


def test_bfloat16_autocast_sees_nearly_the_same(context, query, keys, values):
    expected, _ = context(query, context.prepare(keys, values, IS_TOKEN))
    with torch.autocast("cpu", torch.bfloat16):
        seen, weights = context(query, context.prepare(keys, values, IS_TOKEN))
    torch.testing.assert_close(seen.float(), expected, rtol=0, atol=0.1)
    assert (weights[1, :, 2:] == 0).all()


def test_attention_is_the_sum_of_values_under_its_weights(query, keys, values):
    attention = Attention(General(QUERY, KEY), value_size=VALUE)
    seen, weights = attention(query, attention.prepare(keys, values, IS_TOKEN))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, T))
    torch.testing.assert_close(seen, torch.einsum("bts,bsv->btv", weights, values))


def test_values_default_to_the_keys(query, keys):
    attention = Attention(General(QUERY, KEY))
    assert attention.value_size == KEY
    assert_same(attention(query, attention.prepare(keys)), attention(query, attention.prepare(keys, values=keys)))


def test_attention_normalizes_with_softmax_unless_given_another(query, keys, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.normalizer._normalizers._classes", {})

    class FirstToken(Normalizer):
        def normalize(self, scores):
            return torch.nn.functional.one_hot((scores > -torch.inf).int().argmax(-1), S).to(scores)

    assert isinstance(Attention(General(QUERY, KEY)).normalizer, Softmax)
    first = Attention(General(QUERY, KEY), FirstToken())
    is_token = torch.tensor([[False, True, True, True], [False, False, False, True]])
    seen, _ = first(query, first.prepare(keys, is_token=is_token))
    assert torch.equal(seen, torch.stack((keys[0, 1], keys[1, 3]))[:, None].expand(B, T, KEY))


def test_mean_context_is_the_mean_of_the_tokens(query, keys):
    mean = MeanContext(KEY)
    seen, weights = mean(query, mean.prepare(keys, is_token=IS_TOKEN))
    expected = torch.stack((keys[0].mean(dim=0), keys[1, :2].mean(dim=0)))[:, None].expand(B, T, KEY)
    torch.testing.assert_close(seen, expected)
    assert weights[0].tolist() == [[0.25, 0.25, 0.25, 0.25]] * T
    assert weights[1].tolist() == [[0.5, 0.5, 0.0, 0.0]] * T


@pytest.mark.parametrize("summary", [LastState(), MeanState(), LearnedPool(KEY)])
def test_fixed_context_is_its_summary_at_every_step_and_reads_nothing(summary, query, keys):
    fixed = FixedContext(summary, KEY)
    seen, weights = fixed(query, fixed.prepare(keys, is_token=IS_TOKEN))
    torch.testing.assert_close(seen, summary(keys, IS_TOKEN)[:, None].expand(B, T, KEY))
    assert (weights == 0).all()


def test_no_context_has_width_0_and_reads_nothing(query, keys):
    nothing = NoContext()
    seen, weights = nothing(query, nothing.prepare(keys, is_token=IS_TOKEN))
    assert nothing.value_size == 0
    assert seen.shape == (B, T, 0)
    assert (weights == 0).all()


@pytest.mark.parametrize("name", ["fixed_mean", "none", "mean"])
def test_a_context_that_ignores_the_query_copies_nothing_in_a_step(name, query, keys, values):
    context = CONTEXTS[name]()
    source = context.prepare(keys, values, IS_TOKEN)
    seen, weights = context(query, source)
    assert seen.data_ptr() == source.context.data_ptr()
    assert weights.data_ptr() == source.weights.data_ptr()
