"""The best continuations are those that sorting everything finds."""

import pytest
import torch

from seq2seq_attn.corpora.vocabulary import BOS, EOS, PAD
from seq2seq_attn.ops.continuations import best_continuations

BLOCK = 64  # tokens that the kernel considers together

pytestmark = pytest.mark.usefixtures("kernel_or_torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocabulary", [5, BLOCK, 3 * BLOCK - 2])
@pytest.mark.parametrize("count", [1, 7, 5000])
@pytest.mark.parametrize("may_end", [True, False])
def test_the_best_continuations_equal_those_from_sorting_all_sums(vocabulary, count, may_end, dtype):
    draw = torch.Generator().manual_seed(vocabulary)
    live = torch.randn(4, 3, generator=draw)
    live[2, 1] = -torch.inf  # an impossible hypothesis
    logits = (9 * torch.randn(4 * 3, vocabulary, generator=draw)).to(dtype)
    found = best_continuations(live, logits, count, may_end)
    scores = torch.log_softmax(logits.double(), dim=1).view(4, 3, -1)
    scores[:, :, [PAD, BOS] if may_end else [PAD, BOS, EOS]] = -torch.inf
    best = (live[:, :, None] + scores).flatten(1).topk(min(count, 3 * vocabulary)).values
    torch.testing.assert_close(found.scores.double(), best, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(found.ends.double(), scores[:, :, EOS], rtol=1e-6, atol=1e-5)
    assert ((found.tokens >= 0) & (found.tokens < vocabulary)).all()
    sentences = torch.arange(4)[:, None]
    named = live.gather(1, found.parents) + scores[sentences, found.parents, found.tokens]
    likely = best > -torch.inf
    torch.testing.assert_close(named[likely], best[likely], rtol=1e-6, atol=1e-5)
    for row, is_likely in zip(found.parents * vocabulary + found.tokens, likely, strict=True):
        assert len(set(row[is_likely].tolist())) == is_likely.sum()


def test_ties_for_the_best_continuation_go_to_the_lowest_token():
    logits = torch.full((3, 2 * BLOCK + 5), -1.0)
    logits[0, [BLOCK + 3, 2 * BLOCK + 4]] = 2.0
    logits[1, [7, 9, BLOCK]] = 3.0
    logits[2, 2 * BLOCK + 4] = 0.5
    assert best_continuations(torch.zeros(3, 1), logits, 1, True).tokens.tolist() == [[BLOCK + 3], [7], [2 * BLOCK + 4]]


def test_probabilities_computed_by_hand():
    # Weights 1, 3 (<pad>), 2 (<s>), 4 (</s>), 2 and 8: the last token has p = 8 / 20, </s> has p = 4 / 20.
    logits = torch.tensor([[1.0, 3.0, 2.0, 4.0, 2.0, 8.0]]).log()
    found = best_continuations(torch.tensor([[-1.0]]), logits, 2, True)
    assert found.tokens.tolist() == [[5, EOS]]
    expected = torch.tensor([[8 / 20, 4 / 20]]).log() - 1
    torch.testing.assert_close(found.scores, expected)
    torch.testing.assert_close(found.ends, torch.tensor([[4 / 20]]).log())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_live_scores_of_another_dtype_are_read_as_what_they_are(dtype):
    live, logits = torch.tensor([[-1.5, -0.25]], dtype=dtype), torch.randn(2, 50)
    found, expected = best_continuations(live, logits, 3, True), best_continuations(live.float(), logits, 3, True)
    assert found.tokens.tolist() == expected.tokens.tolist()
    torch.testing.assert_close(found.scores.float(), expected.scores, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("logits", [torch.randn(2, 50), torch.randn(4, 1, 50), torch.randn(4, 2)])
def test_logits_of_other_sizes_are_refused(logits):
    """Of other hypotheses, with one dimension more, and of a vocabulary without `</s>`."""
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        best_continuations(torch.zeros(2, 2), logits, 3, True)


def test_the_default_device_of_torch_is_not_asked():
    live, logits = torch.zeros(2, 1), torch.randn(2, 50)
    expected = best_continuations(live, logits, 3, True)
    with torch.device("meta"):
        found = best_continuations(live, logits, 3, True)
    assert found.tokens.tolist() == expected.tokens.tolist()
