"""Fused forms equal their reference implementations, with their gradients."""

import pytest
import torch
from torch.nn import functional as F

from seq2seq_attn.models.recurrent.cells import GRUCell
from seq2seq_attn.models.recurrent.encoder import LAYERS, RecurrentEncoder
from seq2seq_attn.ops import fuse
from seq2seq_attn.ops.gru import NOT_NORMALIZED, NormWeights, gru_sequence

BATCH, HIDDEN, INPUT = 4, 5, 3


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_outputs_and_gradients_of_a_packed_layer_equal_those_of_torch(name, bidirectional):
    encoder = RecurrentEncoder(INPUT, HIDDEN, cell=name, bidirectional=bidirectional)
    sentences = torch.randn(BATCH, 6, INPUT, requires_grad=True)
    lengths = torch.tensor([2, 6, 6, 3])

    def outcome(encoder):
        states = encoder(sentences, lengths)
        loss = (states * torch.arange(states.numel()).view_as(states).sin()).sum()
        return states, *torch.autograd.grad(loss, [sentences, *encoder.parameters()])

    for got, wanted in zip(outcome(fuse(encoder)), outcome(encoder), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("counts", "reverse"), [([3, 2, 2], False), ([3, 2, 1], True), ([3, 3, 2], True)])
def test_the_gradients_of_a_sequence_are_those_of_single_steps(counts, reverse, normalized):
    """With `reverse`, the first step that runs is the last one, and sentences begin at later steps from zeros."""
    rows = counts[-1] if reverse else counts[0]
    shapes = (
        (sum(counts), 3 * HIDDEN),
        (rows, HIDDEN),
        (3 * HIDDEN, HIDDEN),
        *[(3 * HIDDEN,)] * (3 if normalized else 1),
    )
    leaves = [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    inputs, initial, weight, bias, *gain_and_bias = leaves

    def single_steps():
        steps, state, states = torch.split(inputs, counts), initial, []
        for step in steps[::-1] if reverse else steps:
            missing = max(0, len(step) - len(state))
            before = torch.cat((state, state.new_zeros(missing, HIDDEN)))[: len(step)]
            u = before @ weight.T + bias
            u = F.layer_norm(u, u.shape[1:], *gain_and_bias, eps=0.1) if normalized else u
            state = GRUCell.update(step, u, before)
            states.append(state)
        return torch.cat(states[::-1] if reverse else states)

    def gradients(states):
        weighted = (states * torch.arange(states.numel()).view_as(states).sin()).sum()
        return torch.autograd.grad(weighted, leaves)

    norm = NormWeights(*gain_and_bias, eps=0.1) if normalized else NOT_NORMALIZED
    found = gru_sequence(inputs, counts, initial, weight, bias, reverse, norm)
    for ours, expected in zip(gradients(found), gradients(single_steps()), strict=True):
        torch.testing.assert_close(ours, expected)
