"""Multi-head attention against torch's own and against its heads one by one; states cut into keys and values."""

import pytest
import torch
from torch import nn

from seq2seq_attn.attention import (
    Additive,
    Attention,
    ChunkwiseAttention,
    General,
    KeyValueAttention,
    LocalM,
    LocationAware,
    Monotonic,
    MultiHead,
    ScaledDot,
)

B, T, S, HEADS, SIZE, QUERY, KEY, VALUE = 2, 3, 4, 6, 5, 30, 7, 11
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])


def test_with_scaled_dot_it_is_torchs_multi_head_attention():
    torch.manual_seed(1)
    ours = MultiHead(Attention(ScaledDot(SIZE, SIZE)), HEADS, QUERY, KEY, value_size=QUERY).double()
    theirs = nn.MultiheadAttention(QUERY, HEADS, bias=False, kdim=KEY, vdim=QUERY, batch_first=True).double()
    pairs = {
        "q_proj_weight": ours.query_layer, "k_proj_weight": ours.key_layer, "v_proj_weight": ours.value_layer,
        "out_proj.weight": ours.output_layer,
    }  # fmt: skip
    theirs.load_state_dict({name: layer.weight.detach() for name, layer in pairs.items()})
    query, keys, values = (torch.randn(B, n, size).double() for n, size in ((T, QUERY), (S, KEY), (S, QUERY)))

    context, weights = ours(query, ours.prepare(keys, values, IS_TOKEN))
    expected, mean = theirs(query, keys, values, key_padding_mask=~IS_TOKEN)
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(weights, mean)
    _, of_heads = theirs(query, keys, values, key_padding_mask=~IS_TOKEN, average_attn_weights=False)
    torch.testing.assert_close(ours.head_weights(query, ours.prepare(keys, values, IS_TOKEN)), of_heads)

    direction = torch.randn_like(context)
    (context * direction).sum().backward()
    (expected * direction).sum().backward()
    gradients = dict(theirs.named_parameters())
    for name, layer in pairs.items():
        torch.testing.assert_close(layer.weight.grad, gradients[name].grad, msg=name)


OF_ONE_HEAD = {
    "additive": lambda: Attention(Additive(SIZE, SIZE)),
    "general_of_two_sizes": lambda: Attention(General(SIZE, 3), value_size=2),
    "location_aware": lambda: Attention(LocationAware(SIZE, SIZE)),
    "monotonic_in_a_window": lambda: Attention(ScaledDot(SIZE, SIZE), Monotonic(noise=0), LocalM(SIZE, half_width=2)),
    "chunkwise": lambda: ChunkwiseAttention(
        Attention(General(SIZE, SIZE), Monotonic(noise=0)), Additive(SIZE, SIZE), 2
    ),
}


@pytest.mark.parametrize("make", OF_ONE_HEAD.values(), ids=OF_ONE_HEAD.keys())
def test_each_head_is_the_attention_on_its_own_projections(make):
    torch.manual_seed(2)
    model = MultiHead(make(), HEADS, QUERY, KEY, VALUE).double()
    query, keys, values = (torch.randn(B, n, size).double() for n, size in ((T, QUERY), (S, KEY), (S, VALUE)))
    source = model.prepare(keys, values, IS_TOKEN)
    context, weights = model(query, source)

    projected = [
        layer(vectors).chunk(HEADS, dim=-1)
        for layer, vectors in ((model.query_layer, query), (model.key_layer, keys), (model.value_layer, values))
    ]
    alone = [model.attention(q, model.attention.prepare(k, v, IS_TOKEN)) for q, k, v in zip(*projected, strict=True)]
    torch.testing.assert_close(context, model.output_layer(torch.cat([seen for seen, _ in alone], dim=-1)))
    torch.testing.assert_close(weights, torch.stack([row for _, row in alone]).mean(dim=0))
    torch.testing.assert_close(model.head_weights(query, source), torch.stack([row for _, row in alone], dim=1))


def test_half_of_a_state_is_compared_and_the_other_half_is_read():
    inner = Attention(General(QUERY, 3))
    states, query = torch.randn(B, S, 6), torch.randn(B, T, QUERY)
    model = KeyValueAttention(inner)
    ours = model(query, model.prepare(states, is_token=IS_TOKEN))
    expected = inner(query, inner.prepare(states[..., :3], states[..., 3:], IS_TOKEN))
    assert model.value_size == 3
    assert all(torch.equal(one, other) for one, other in zip(ours, expected, strict=True))


def test_each_direction_of_a_state_is_halved():
    states = torch.arange(8.0)[None, None]
    keys, values = KeyValueAttention(Attention(General(QUERY, 4)), directions=2).halves(states)
    assert keys.tolist() == [[[0, 1, 4, 5]]]
    assert values.tolist() == [[[2, 3, 6, 7]]]
