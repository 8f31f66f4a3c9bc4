"""What no size, mask, precision or magnitude may break, of any attention."""

import pytest
import torch
from catalog import ATTENTIONS, KEY
from hypothesis import example, given, settings
from hypothesis import strategies as st

SUM_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-5, torch.float64: 1e-12}
VALUE = 3


def first_token(positions):
    return torch.arange(positions) == 0


def last_token(positions):
    return torch.arange(positions) == positions - 1


def all_tokens(positions):
    return torch.ones(positions, dtype=torch.bool)


def every_other_token(positions):
    return torch.arange(positions) % 2 == 0


masks = st.sampled_from([first_token, last_token, all_tokens, every_other_token])
HARDEST = {"magnitude": 1e4, "sentence_masks": [last_token, all_tokens, first_token], "queries": 2, "positions": 9}


@pytest.mark.parametrize("name", ATTENTIONS)
@settings(max_examples=15)
@given(
    training=st.booleans(),
    dtype=st.sampled_from(list(SUM_TOLERANCE)),
    magnitude=st.sampled_from([0.0, 1e-4, 1.0, 30.0, 1e4]),
    sentence_masks=st.lists(masks, min_size=1, max_size=3),
    queries=st.integers(1, 4),
    positions=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@example(training=True, dtype=torch.float16, seed=0, **HARDEST)
@example(training=False, dtype=torch.float16, seed=1, **HARDEST)
@example(training=True, dtype=torch.float32, seed=2, **HARDEST)
@example(training=True, dtype=torch.float64, seed=3, **(HARDEST | {"magnitude": 0.0}))
def test_nothing_is_nan_and_padding_is_never_read(
    name, training, dtype, magnitude, sentence_masks, queries, positions, seed
):
    torch.manual_seed(seed)
    attention = ATTENTIONS[name]().to(dtype).train(training)
    is_token = torch.stack([mask(positions) for mask in sentence_masks])

    def uniform(*shape, up_to=magnitude):
        return (up_to * (2 * torch.rand(len(sentence_masks), *shape) - 1)).to(dtype).requires_grad_()

    query, keys = uniform(queries, attention.scorer.query_size), uniform(positions, KEY)
    values = uniform(positions, VALUE, up_to=1)
    contexts, weights = attention(query, attention.prepare(keys, values, is_token))
    assert contexts.isfinite().all()
    assert (weights >= 0).all()  # nor are they NaN
    assert (weights.masked_select(~is_token[:, None]) == 0).all()
    sums = weights.double().sum(dim=-1)
    if attention.normalizer.sums_to_one and attention.window is None:
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=SUM_TOLERANCE[dtype])

    contexts.sum().backward()
    for tensor in (query, keys, values, *attention.parameters()):
        if tensor.grad is not None:
            assert not tensor.grad.isnan().any()
            assert tensor.grad.isfinite().all() or dtype == torch.float16  # in which a product may be too large
    assert (values.grad[~is_token] == 0).all()
