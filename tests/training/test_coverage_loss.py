"""The coverage loss: what attention reads again costs."""

import numpy as np
import pytest
import torch
from plain_recipe import NO_DROPOUT, constant

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loss import coverage_loss, training_loss

BATCH = Batch(pad([[4, 5, 6, 3], [7, 3]]), pad([[4, 5, 6, 5, 3], [6, 5, 3]]))


def numpy_coverage(weights, lengths):
    """Sum over i and j of min(a_ij, c_ij), with c_i the sum of the weights of earlier steps, pair by pair."""
    total = 0.0
    for pair, length in zip(weights, lengths, strict=True):
        covered = np.zeros(pair.shape[1])
        for row in pair[:length]:
            total += np.minimum(row, covered).sum()
            covered += row
    return total


def test_it_equals_numpy_and_ignores_padding():
    torch.manual_seed(1)
    weights = torch.rand(2, 5, 4).softmax(-1).double()
    found = coverage_loss(weights, BATCH.target.is_token)
    assert float(found) == pytest.approx(numpy_coverage(weights.numpy(), [5, 3]), rel=1e-12)


def test_reading_each_state_once_costs_nothing_and_reading_one_state_again_costs_a_nat_a_step():
    every = torch.ones(1, 3, dtype=torch.bool)
    assert float(coverage_loss(torch.eye(3)[None], every)) == 0
    assert float(coverage_loss(torch.eye(3)[[1, 1, 1]][None], every)) == 2


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_it_is_added_to_the_loss_of_a_batch(r_drop):
    """With R-Drop, as the mean over both passes."""
    torch.manual_seed(4)
    config = {"embedding_size": 6, "encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 8}, "dropout": NO_DROPOUT}
    model = fuse(RecurrentConfig.model_validate(config).build(11, 9, False))
    options = TrainingConfig.model_validate(constant(0.001) | {"r_drop": r_drop})
    without = training_loss(model, BATCH, options)
    found = training_loss(model, BATCH, options.model_copy(update={"coverage_loss": 0.5}))
    weights = model.decode(model.decoder_inputs(BATCH.target), model.encode(BATCH.source)).weights.detach().numpy()
    expected = 0.5 * numpy_coverage(weights, [5, 3])
    assert float((found.total - without.total).detach()) == pytest.approx(expected, rel=1e-4)
    assert float(found.negative) == pytest.approx(float(without.negative))
    found.total.backward()
    assert all(bool(each.grad.isfinite().all()) for each in model.parameters())
