"""R-Drop against values by hand, torch's KL divergence, and a model's predictions pair by pair."""

import math

import pytest
import torch
import torch.nn.functional as F
from plain_recipe import NO_DROPOUT

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.head import GivenLogits, Read
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loss import refuse_r_drop_without_dropout, training_loss

TOKENS, WORDS = 5, 7


def r_drop_loss(logits, targets, alpha, smoothing=0.0):
    """The losses of logits (2, M, V)."""
    total, negative, tokens = GivenLogits().r_drop_loss(Read(logits.flatten(0, 1)), targets, alpha, None, smoothing)
    assert tokens == len(targets)
    return total, negative


def test_one_token_by_hand():
    """p_1 = (1/2, 1/2) and p_2 = (1/4, 3/4): KL(p_1 ‖ p_2) + KL(p_2 ‖ p_1) = 1/4 log 2 + 1/4 log 3/2 = 1/4 log 3."""
    log_p = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]], dtype=torch.double).log()
    loss, negative = r_drop_loss(log_p, torch.tensor([1]), alpha=3.0)
    assert negative.item() == pytest.approx(-0.5 * math.log(1 / 2 * 3 / 4))
    assert loss.item() == pytest.approx(negative.item() + 3 / 2 * 1 / 2 * 1 / 4 * math.log(3))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_value_and_gradient_equal_cross_entropy_and_kl_divergence_of_torch(smoothing):
    torch.manual_seed(3)
    logits = torch.randn(2, TOKENS, WORDS, dtype=torch.double, requires_grad=True)
    targets = torch.randint(0, WORDS, (TOKENS,))
    loss, negative = r_drop_loss(logits.log_softmax(-1), targets, 4.0, smoothing)
    first, second = logits.log_softmax(-1)
    kl = [F.kl_div(q, p, log_target=True, reduction="sum") for p, q in ((first, second), (second, first))]
    options = {"label_smoothing": smoothing, "reduction": "sum"}
    expected = sum(F.cross_entropy(each, targets, **options) for each in logits) / 2 + 4.0 / 2 * sum(kl) / 2
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (loss, expected)))
    plain = sum(F.cross_entropy(each, targets, reduction="sum") for each in logits) / 2
    torch.testing.assert_close(negative, plain.detach())
    assert not negative.requires_grad


def small_model(**dropout):
    torch.manual_seed(1)
    sizes = {"embedding_size": 6, "encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 8}}
    return RecurrentConfig.model_validate(sizes | {"dropout": NO_DROPOUT | dropout}).build(11, WORDS, joint=False)


BATCH = Batch(pad([[4, 5, 6, 3], [7, 3], [8, 9, 3]]), pad([[4, 3], [5, 4, 6, 5, 3], [6, 5, 3]]))


def test_a_training_step_compares_each_token_with_itself_under_another_mask():
    """The model's logits of the batch and its copy, compared token by token; padding has no part in the loss."""
    model = small_model(embedding=0.3, readout=0.5)
    torch.manual_seed(2)
    logits = model(BATCH.twice().source, BATCH.twice().target)
    losses = []
    for sentence, length in enumerate(BATCH.target.lengths.tolist()):
        for position in range(length):
            pair = logits[[sentence, 3 + sentence], position].log_softmax(-1).unsqueeze(1)
            losses.append(r_drop_loss(pair, BATCH.target.tokens[sentence, position, None], 3.0, 0.1)[0])
    torch.manual_seed(2)
    loss, _, count = training_loss(model, BATCH, TrainingConfig(r_drop=3.0, label_smoothing=0.1))
    assert count == 10
    torch.testing.assert_close(loss, sum(losses))


def test_a_model_without_dropout_is_refused_in_one_line():
    with pytest.raises(
        UserError, match=r"training\.r_drop=3\.0 needs a model with dropout.*model\.dropout\.readout=0\.3"
    ):
        refuse_r_drop_without_dropout(small_model(), BATCH, 3.0)
