"""The best continuations, found by blocks, are those that a sort of everything finds."""

import pytest
import torch

from seq2seq_attn.search.continuations import BLOCK, best_continuations, most_probable


@pytest.mark.parametrize("vocabulary", [2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 2])
@pytest.mark.parametrize("count", [1, 7, 5000])
def test_the_best_are_those_of_the_whole_sum_sorted(vocabulary, count):
    draw = torch.Generator().manual_seed(vocabulary)
    live, logits = torch.randn(4, 3, generator=draw), torch.randn(4 * 3, vocabulary, generator=draw)
    logits[:, 1] = -torch.inf
    found = best_continuations(live, logits, count)
    total = (live[:, :, None] + logits.view(4, 3, -1)).flatten(1)
    best, order = total.topk(min(count, 3 * vocabulary))
    assert torch.equal(found.scores, best)
    likely = best > -torch.inf
    assert torch.equal(found.parents[likely], (order // vocabulary)[likely])
    assert torch.equal(found.tokens[likely], (order % vocabulary)[likely])
    assert found.tokens.max() < vocabulary


def test_the_most_probable_token_is_the_lowest_id_among_equals():
    logits = torch.full((3, 2 * BLOCK + 5), -1.0)
    logits[0, [BLOCK + 3, 2 * BLOCK + 4]] = 2.0
    logits[1, [7, 9, BLOCK]] = 3.0
    logits[2, 2 * BLOCK + 4] = 0.5
    best, tokens = most_probable(logits)
    assert best.tolist() == [2.0, 3.0, 0.5]
    assert tokens.tolist() == [BLOCK + 3, 7, 2 * BLOCK + 4]
