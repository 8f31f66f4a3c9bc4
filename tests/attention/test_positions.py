"""Positions against their equations, in NumPy and by hand, and what self-attention knows with and without them."""

import math

import numpy as np
import pytest
import torch

from seq2seq_attn.attention import (
    Attention,
    MultiHead,
    RelativeBias,
    Rotary,
    ScaledDot,
    SelfAttention,
    Sinusoidal,
    position_class,
    position_classes,
)

SIZE, HEADS = 8, 2
MAKE = {name: lambda cls=cls: cls(SIZE, HEADS) for name, cls in position_classes().items()}
IN_ATTENTION = [name for name, cls in position_classes().items() if cls.in_attention]


def self_attention(position=None, causal=False):
    heads = MultiHead(Attention(ScaledDot(4, 4)), HEADS, SIZE, SIZE, position=position)
    return SelfAttention(heads.double(), causal)


def with_positions(position, attention, vectors, start=0):
    return attention(vectors if position.in_attention else position.add(vectors, start))[0]


def random_tables(position):
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position.double()


def test_the_kinds_of_position():
    assert list(position_classes()) == ["learned", "relative_bias", "rotary", "sinusoidal"]
    with pytest.raises(ValueError, match=r"there is no position 'rotery'; did you mean 'rotary'\?"):
        position_class("rotery")


def test_sinusoids_by_hand():
    encoded = Sinusoidal(4).add(torch.zeros(1, 3, 4, dtype=torch.float64))[0]
    expected = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(3)]
    torch.testing.assert_close(encoded, torch.tensor(expected, dtype=torch.float64), atol=1e-15, rtol=0)


# Rounding of the result alone: an angle of 3,000 in float32 would be off by up to 2e-4.
ROUNDING = {torch.float64: 1e-11, torch.float32: 6e-8, torch.bfloat16: 4e-3}


def angles_of(positions, size, base=10000):
    p, i = np.meshgrid(positions, np.arange(size // 2), indexing="ij")
    return p / base ** (2 * i / size)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_sinusoids_as_the_paper_defines_them_far_from_the_start(dtype):
    angles = angles_of(np.arange(2970, 3000), SIZE)
    expected = np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(30, SIZE)
    encoded = Sinusoidal(SIZE).add(torch.zeros(2, 30, SIZE, dtype=dtype), start=2970)[1]
    assert encoded.dtype == dtype
    torch.testing.assert_close(encoded.double(), torch.from_numpy(expected), atol=ROUNDING[dtype], rtol=0)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_rotations_as_the_paper_defines_them_far_from_the_start(dtype):
    # As complex numbers: the pair (x, y) is x + iy, and its rotation the product with e^(i angle).
    angles = angles_of(np.arange(2970, 3000), 4, base=500)
    expected = np.exp(1j * angles)
    rotated = Rotary(SIZE, HEADS, base=500).rotate(torch.tensor([1.0, 0, 1, 0], dtype=dtype).expand(30, 4), start=2970)
    assert rotated.dtype == dtype
    parts = torch.from_numpy(np.stack((expected.real, expected.imag), axis=-1).reshape(30, 4))
    torch.testing.assert_close(rotated.double(), parts, atol=ROUNDING[dtype], rtol=0)


def test_a_rotation_by_hand():
    # Size 2: one pair, rotated by p. (1, 0) at p becomes (cos p, sin p).
    rotated = Rotary(4, 2).rotate(torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]), start=3)[0]
    expected = [[math.cos(3), math.sin(3)], [math.cos(4), math.sin(4)], [-math.sin(5), math.cos(5)]]
    torch.testing.assert_close(rotated, torch.tensor(expected))


def test_rotated_products_depend_on_the_distance_alone():
    torch.manual_seed(1)
    query, key = torch.randn(2, 1, 1, SIZE, dtype=torch.float64)
    rotary = Rotary(SIZE, 1)

    def product(i, j):
        return (rotary.rotate(query, i) * rotary.rotate(key, j)).sum().item()

    assert product(3, 5) == pytest.approx(product(2940, 2942), abs=1e-11)
    assert abs(product(3, 5) - product(3, 6)) > 1e-3
    assert product(7, 7) == pytest.approx((query * key).sum().item(), abs=1e-11)


def test_the_bias_of_a_distance_is_clipped_and_each_head_has_its_own():
    position = RelativeBias(SIZE, HEADS, max_distance=1)
    position.table.data = torch.tensor([[1.0, 2, 3], [10, 20, 30]])  # distances -1 or less, 0, 1 or more
    first, second = position.bias(3, 3)
    assert first.tolist() == [[2, 3, 3], [1, 2, 3], [1, 1, 2]]
    torch.testing.assert_close(second, 10 * first)
    assert position.bias(1, 3)[0].tolist() == [[1, 1, 2]]  # the last query of three


def test_the_bias_is_added_to_the_scores_of_its_head():
    torch.manual_seed(2)
    position = random_tables(RelativeBias(SIZE, HEADS))
    attention = self_attention(position).attention
    vectors = torch.randn(2, 5, SIZE, dtype=torch.float64)
    query, key = (
        np.stack(np.split((vectors @ layer.weight.T).detach().numpy(), HEADS, axis=-1), axis=1)
        for layer in (attention.query_layer, attention.key_layer)
    )
    scores = query @ key.transpose(0, 1, 3, 2) / 2 + position.bias(5, 5).detach().numpy()
    expected = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    weights = attention.head_weights(vectors, attention.prepare(vectors))
    np.testing.assert_allclose(weights.detach(), expected, atol=1e-12)
    bias = torch.randn(5, 5, dtype=torch.float64)
    both = attention.head_weights(vectors, attention.prepare(vectors), bias=bias)
    expected = np.exp(scores + bias.numpy())
    np.testing.assert_allclose(both.detach(), expected / expected.sum(axis=-1, keepdims=True), atol=1e-12)


def test_without_positions_a_permuted_sequence_has_the_same_states_permuted():
    torch.manual_seed(3)
    attention, vectors, order = self_attention(), torch.randn(1, 6, SIZE, dtype=torch.float64), torch.randperm(6)
    torch.testing.assert_close(attention(vectors[:, order])[0], attention(vectors)[0][:, order])


@pytest.mark.parametrize("name", MAKE)
def test_with_positions_the_order_has_an_effect(name):
    torch.manual_seed(4)
    position = random_tables(MAKE[name]())
    attention = self_attention(position if name in IN_ATTENTION else None)
    vectors, order = torch.randn(1, 6, SIZE, dtype=torch.float64), torch.tensor([1, 0, 2, 3, 5, 4])
    permuted = with_positions(position, attention, vectors[:, order])
    assert (permuted - with_positions(position, attention, vectors)[:, order]).abs().max() > 0.01


@pytest.mark.parametrize("name", IN_ATTENTION)
def test_positions_within_attention_know_distances_only(name):
    """Tokens after a prefix that they may not read have the same contexts wherever they begin."""
    torch.manual_seed(5)
    attention = self_attention(random_tables(MAKE[name]()))
    vectors = torch.randn(1, 4, SIZE, dtype=torch.float64)
    alone = attention(vectors)[0]
    shifted = torch.cat((torch.randn(1, 3, SIZE, dtype=torch.float64), vectors), dim=1)
    is_token = torch.tensor([[False] * 3 + [True] * 4])
    torch.testing.assert_close(attention(shifted, is_token)[0][:, 3:], alone, atol=1e-12, rtol=0)
