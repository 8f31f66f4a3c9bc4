"""A source that grows position by position is the one that is prepared at once: a cache of keys and values."""

import pytest
import torch
from catalog import AROUND_ATTENTION, ATTENTIONS, KEY, QUERY

from seq2seq_attn.attention import (
    Attention,
    General,
    KeyValueAttention,
    attend,
)

B, S = 2, 4
IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])
KEEPS_EVERY_POSITION = {
    "linguistic_coverage", "location_aware", "neural_coverage", "general, monotonic", "general, monotonic_softmax",
    "multi-head, chunkwise",
}  # fmt: skip
CONTEXTS = ATTENTIONS | AROUND_ATTENTION


@pytest.fixture(params=[name for name in CONTEXTS if name not in KEEPS_EVERY_POSITION])
def attention(request):
    torch.manual_seed(4)
    return CONTEXTS[request.param]().eval()


def grown(attention, keys, is_token=None, upto=S):
    """A source that began with its first position and got the others one by one."""

    def mask(s):
        return None if is_token is None else is_token[:, s : s + 1]

    source = attention.prepare(keys[:, :1], is_token=mask(0))
    for s in range(1, upto):
        source = attention.extend(source, keys[:, s : s + 1], is_token=mask(s))
    return source


@pytest.mark.parametrize("is_token", [None, IS_TOKEN])
def test_positions_one_by_one_are_read_as_those_prepared_at_once(attention, is_token):
    query, keys = torch.randn(B, 3, attention.query_size), torch.randn(B, S, KEY)
    found, expected = attention(query, grown(attention, keys, is_token)), attend(attention, query, keys, None, is_token)
    torch.testing.assert_close(found, expected)


def test_causal_attention_is_decoding_with_a_source_that_grows(attention):
    query, keys = torch.randn(B, S, attention.query_size), torch.randn(B, S, KEY)
    source, history = attention.prepare(keys[:, :1]), None
    history, seen = attention.start(source), []
    for t in range(S):
        source = source if t == 0 else attention.extend(source, keys[:, t : t + 1])
        context, weights, history = attention(query[:, t : t + 1], source, history)
        seen.append((context, torch.nn.functional.pad(weights, (0, S - t - 1))))
    expected = [torch.cat(part, dim=1) for part in zip(*seen, strict=True)]
    torch.testing.assert_close(list(attend(attention, query, keys, causal=True)), expected)


def test_new_queries_on_a_cache_are_the_last_rows_of_causal_attention(attention):
    if attention.needs_history:
        pytest.skip("its queries are steps from the first one on")
    query, keys = torch.randn(B, S, attention.query_size), torch.randn(B, S, KEY)
    cache = attention.extend(attention.prepare(keys[:, :1]), keys[:, 1:])
    expected = [each[:, -2:] for each in attend(attention, query, keys, causal=True)]
    torch.testing.assert_close(list(attention(query[:, -2:], cache, causal=True)), expected)


def test_the_shorter_source_stays_and_a_mask_begins_where_one_is_given():
    attention, keys = Attention(General(QUERY, KEY)), torch.randn(B, S, KEY)
    short = attention.prepare(keys[:, :2])
    before = [each.clone() for each in short if each is not None]
    longer = attention.extend(short, keys[:, 2:], is_token=IS_TOKEN[:, 2:])
    assert short.is_token is None
    assert all(map(torch.equal, before, [each for each in short if each is not None]))
    assert torch.equal(longer.is_token, torch.tensor([[[True] * 4], [[True, True, False, False]]]))
    assert torch.equal(attention.extend(longer, keys[:, :1]).is_token[:, :, -1], torch.tensor([[True]] * B))
    assert attention.extend(short, keys[:, 2:]).is_token is None


def test_values_of_their_own_and_halves_of_states_are_appended():
    attention = Attention(General(QUERY, 3), value_size=2)
    query, keys, values = torch.randn(B, 1, QUERY), torch.randn(B, S, 3), torch.randn(B, S, 2)
    source = attention.extend(attention.prepare(keys[:, :3], values[:, :3]), keys[:, 3:], values[:, 3:])
    torch.testing.assert_close(attention(query, source), attend(attention, query, keys, values))
    halves, states = KeyValueAttention(Attention(General(QUERY, 3))), torch.randn(B, S, 6)
    source = halves.extend(halves.prepare(states[:, :3]), states[:, 3:])
    torch.testing.assert_close(halves(query, source), attend(halves, query, states))


@pytest.mark.parametrize("name", sorted(KEEPS_EVERY_POSITION))
def test_a_part_with_an_entry_per_position_is_refused(name):
    attention, keys = CONTEXTS[name](), torch.randn(B, S, KEY)
    with pytest.raises(ValueError, match=r"^\w+ cannot append to a source: .*; prepare the longer source at once$"):
        attention.extend(attention.prepare(keys), keys)
