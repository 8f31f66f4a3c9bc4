"""Self-attention over any scorer: against torch's own, causal, and step by step with a cache."""

import pytest
import torch
from torch import nn

from seq2seq_attn.attention import (
    Attention,
    General,
    KeyValueAttention,
    MultiHead,
    RelativeBias,
    Rotary,
    ScaledDot,
    SelfAttention,
    scorer_classes,
)

SIZE, HEADS, B, N = 8, 2, 3, 5
IS_TOKEN = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])
STATELESS = {name: cls for name, cls in scorer_classes().items() if not cls.needs_history}


def of_scorer(cls, causal=False, position=None):
    return SelfAttention(
        MultiHead(Attention(cls(4, 4)), HEADS, SIZE, SIZE, bias=True, position=position), causal
    ).double()


@pytest.mark.parametrize("causal", [False, True])
def test_with_scaled_dot_it_is_torchs_multi_head_attention(causal):
    torch.manual_seed(1)
    ours = of_scorer(ScaledDot, causal).float()
    theirs = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
    parts = [ours.attention.query_layer, ours.attention.key_layer, ours.attention.value_layer]
    with torch.no_grad():
        for part in (*parts, ours.attention.output_layer):
            part.bias.normal_()
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.weight.copy_(ours.attention.output_layer.weight)
        theirs.out_proj.bias.copy_(ours.attention.output_layer.bias)
    x = torch.randn(B, N, SIZE)
    mask = torch.ones(N, N, dtype=torch.bool).triu(1) if causal else None
    expected, weights = theirs(x, x, x, key_padding_mask=~IS_TOKEN, attn_mask=mask)
    for need_weights in (True, False):  # step by step, and by torch's scaled_dot_product_attention
        context, own = ours(x, IS_TOKEN, need_weights=need_weights)
        torch.testing.assert_close(context[IS_TOKEN], expected[IS_TOKEN], atol=1e-6, rtol=1e-5)
        assert own is None or torch.allclose(own[IS_TOKEN], weights[IS_TOKEN], atol=1e-6)


@pytest.mark.parametrize("name", STATELESS)
def test_a_state_depends_on_no_padding_and_if_causal_on_nothing_after_it(name):
    torch.manual_seed(2)
    x = torch.randn(B, N, SIZE, dtype=torch.float64)
    other = torch.where(IS_TOKEN[..., None], x, 7.0)
    model = of_scorer(STATELESS[name])
    torch.testing.assert_close(model(x, IS_TOKEN)[0][IS_TOKEN], model(other, IS_TOKEN)[0][IS_TOKEN])
    model = of_scorer(STATELESS[name], causal=True)
    changed = torch.cat((x[:, :3], torch.randn(B, 2, SIZE, dtype=torch.float64)), dim=1)
    contexts, weights = model(x)
    torch.testing.assert_close(contexts[:, :3], model(changed)[0][:, :3])
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("position", [None, RelativeBias, Rotary])
@pytest.mark.parametrize("scorer", ["additive", "cosine", "dot", "general", "scaled_dot"])
def test_steps_with_a_cache_are_the_same_as_all_at_once(scorer, position):
    torch.manual_seed(3)
    place = None if position is None else position(SIZE, HEADS)
    for parameter in [] if place is None else place.parameters():
        nn.init.normal_(parameter)
    model = of_scorer(STATELESS[scorer], causal=True, position=place)
    x = torch.randn(B, N, SIZE, dtype=torch.float64)
    expected, _ = model(x)
    cache, found = None, []
    for chunk in (x[:, :1], x[:, 1:2], x[:, 2:4], x[:, 4:]):
        contexts, cache = model.step(chunk, cache)
        found.append(contexts)
    torch.testing.assert_close(torch.cat(found, dim=1), expected, atol=1e-6, rtol=0)


def test_the_rows_of_a_cache_are_reordered_as_a_beam_reorders_its_hypotheses():
    model = of_scorer(General, causal=True)
    x = torch.randn(B, 2, SIZE, dtype=torch.float64)
    _, cache = model.step(x[:, :1], None)
    rows = torch.tensor([2, 2, 0])
    contexts, _ = model.step(x[rows][:, 1:], cache.select(rows))
    torch.testing.assert_close(contexts, model(x)[0][rows][:, 1:])


def test_it_reads_with_halves_of_the_states():
    halves = SelfAttention(KeyValueAttention(Attention(General(SIZE, SIZE // 2))), causal=True)
    x = torch.randn(B, N, SIZE)
    contexts, weights = halves(x)
    assert contexts.shape == (B, N, SIZE // 2)
    assert weights.triu(1).count_nonzero() == 0
    first, cache = halves.step(x[:, :2], None)
    second, _ = halves.step(x[:, 2:], cache)
    torch.testing.assert_close(torch.cat((first, second), dim=1), contexts)
