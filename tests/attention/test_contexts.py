"""All contexts: the common contract, and the properties specific to each."""

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


def test_a_mask_on_a_device_is_never_read(context, query, keys, values):
    source = context.to("meta").prepare(keys.to("meta"), values.to("meta"), IS_TOKEN.to("meta"))
    assert context(query.to("meta"), source)[1].shape == (B, T, S)  # tensors on `meta` have no contents


def test_attention_is_the_sum_of_values_under_its_weights(query, keys, values):
    attention = Attention(General(QUERY, KEY), value_size=VALUE)
    seen, weights = attention(query, attention.prepare(keys, values, IS_TOKEN))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, T))
    torch.testing.assert_close(seen, torch.einsum("bts,bsv->btv", weights, values))


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
