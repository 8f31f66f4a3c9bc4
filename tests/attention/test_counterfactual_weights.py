"""Changes of weights: what each of them puts where."""

from functools import partial

import pytest
import torch

from seq2seq_attn.attention import Sigmoid, Softmax
from seq2seq_attn.attention.contexts import counterfactual as changes

B, T, S = 4, 3, 5
LENGTHS = [5, 2, 4, 1]
IS_TOKEN = (torch.arange(S) < torch.tensor(LENGTHS)[:, None])[:, None]


def generator(seed=3):
    return torch.Generator().manual_seed(seed)


def all_changes(seed=3):
    return {
        "uniform": changes.uniform,
        "permuted": partial(changes.permuted, generator=generator(seed)),
        "of_another_sentence": changes.of_another_sentence,
        "without_the_most_read": changes.without_the_most_read,
        "without_another": partial(changes.without_another, generator=generator(seed)),
    }


def weights_of(normalizer=Softmax):
    scores = torch.randn(B, T, S, dtype=torch.double, generator=generator())
    return normalizer()(scores, IS_TOKEN)


@pytest.mark.parametrize("normalizer", [Softmax, Sigmoid])
@pytest.mark.parametrize("name", all_changes())
def test_padding_is_never_read_and_a_row_keeps_its_sum_unless_nothing_is_left(name, normalizer):
    weights = weights_of(normalizer)
    before = weights.clone()
    changed = all_changes()[name](weights, IS_TOKEN)
    assert torch.equal(weights, before)
    assert (changed >= 0).all()
    assert (changed.masked_select(~IS_TOKEN) == 0).all()
    expected = weights.sum(dim=-1)
    if name == "without_the_most_read":
        expected[3] = 0  # its only token
    torch.testing.assert_close(changed.sum(dim=-1), expected)


def test_uniform_weights_are_shared_by_the_tokens_alone():
    changed = changes.uniform(weights_of(), IS_TOKEN)
    for row, length in zip(changed, LENGTHS, strict=True):
        expected = torch.tensor([1 / length] * length + [0.0] * (S - length), dtype=torch.double)
        torch.testing.assert_close(row, expected.expand(T, S))


def test_permuted_weights_are_the_same_ones_in_orders_that_the_seed_draws():
    weights = weights_of()
    changed = all_changes()["permuted"](weights, IS_TOKEN)
    torch.testing.assert_close(changed.sort(dim=-1).values, weights.sort(dim=-1).values, rtol=0, atol=0)
    assert not torch.equal(changed, weights)
    assert torch.equal(all_changes()["permuted"](weights, IS_TOKEN), changed)
    assert not torch.equal(all_changes(seed=4)["permuted"](weights, IS_TOKEN), changed)


def test_the_weights_of_another_sentence_are_cut_or_continued_by_0():
    weights = torch.tensor(
        [[[0.1, 0.2, 0.3, 0.25, 0.15]], [[0.6, 0.4, 0, 0, 0]], [[0.2, 0.3, 0, 0.5, 0]], [[1.0, 0, 0, 0, 0]]]
    )
    changed = changes.of_another_sentence(weights, IS_TOKEN)
    expected = [
        [0.2, 0.3, 0, 0.5, 0],
        [1.0, 0, 0, 0, 0],
        [0.1 / 0.85, 0.2 / 0.85, 0.3 / 0.85, 0.25 / 0.85, 0],
        [1.0, 0, 0, 0, 0],
    ]
    torch.testing.assert_close(changed[:, 0], torch.tensor(expected))


def test_where_nothing_of_the_other_sentence_is_left_all_tokens_are_read_alike():
    weights = torch.tensor([[[0.0, 0.0, 1.0]], [[0.3, 0.7, 0.0]]])
    is_token = torch.tensor([[[True, True, True]], [[True, True, False]]])
    assert changes.of_another_sentence(weights, is_token).tolist()[1] == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("sentences", [2, 3, 5])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_another_sentence_is_never_a_head_of_the_same_one(sentences, heads):
    own = torch.arange(sentences).repeat_interleave(heads)
    weights = torch.nn.functional.one_hot(own, sentences)[:, None].double()
    changed = changes.of_another_sentence(weights, torch.ones(len(own), 1, sentences, dtype=torch.bool))
    assert (changed * weights).sum() == 0


def test_to_erase_the_most_read_token_is_to_mask_its_key():
    scores = torch.randn(B, T, S, dtype=torch.double, generator=generator())
    scores[3, :, 1] = 0.0
    is_token = IS_TOKEN | (torch.arange(S) == 1)  # a sentence of one token has nothing else to read
    weights = Softmax()(scores, is_token)
    masked = scores.scatter(-1, weights.argmax(dim=-1, keepdim=True), -torch.inf)
    expected = torch.softmax(masked.masked_fill(~is_token, -torch.inf), dim=-1)
    torch.testing.assert_close(changes.without_the_most_read(weights, is_token), expected)


def test_the_other_token_that_is_erased_is_any_but_the_most_read():
    weights = torch.tensor([0.2, 0.1, 0.4, 0.3, 0.0]).expand(1, 600, S)
    is_token = torch.tensor([[[True, True, True, True, False]]])
    erased = (all_changes()["without_another"](weights, is_token)[0] == 0)[:, :4]
    assert (erased.sum(dim=-1) == 1).all()
    shares = erased.double().mean(dim=0)
    assert shares[2] == 0
    torch.testing.assert_close(shares[[0, 1, 3]], torch.full((3,), 1 / 3).double(), rtol=0, atol=0.08)
    alone = torch.ones(1, 1, 1)
    assert torch.equal(all_changes()["without_another"](alone, alone > 0), alone)
