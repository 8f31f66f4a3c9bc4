"""C, the whole sentence as one vector."""

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq_attn.attention import LastState, LearnedPool, MeanState

B, S, H = 3, 5, 6
LENGTHS = torch.tensor([5, 1, 3])
IS_TOKEN = torch.arange(S) < LENGTHS[:, None]

SUMMARIES = {
    "last": LastState,
    "last_of_two_directions": lambda: LastState(directions=2),
    "mean": MeanState,
    "learned_pool": lambda: LearnedPool(H),
}


@pytest.fixture(params=SUMMARIES.values(), ids=SUMMARIES.keys())
def summary(request):
    torch.manual_seed(5)
    return request.param()


@pytest.mark.parametrize("directions", [1, 2])
def test_last_state_is_the_final_state_of_a_packed_gru(directions):
    gru = torch.nn.GRU(4, H, bidirectional=directions == 2, batch_first=True)
    packed = pack_padded_sequence(torch.randn(B, S, 4), LENGTHS, batch_first=True, enforce_sorted=False)
    states, final = gru(packed)
    states, _ = pad_packed_sequence(states, batch_first=True)
    assert torch.equal(LastState(directions)(states, IS_TOKEN), torch.cat(tuple(final), dim=-1))


def test_last_state_finds_the_ends_of_a_sentence_padded_on_the_left():
    states = torch.arange(4.0)[None, :, None].expand(1, 4, 2)  # the state at position j is [j, j]
    is_token = torch.tensor([[False, True, True, False]])
    assert LastState(directions=1)(states, is_token).tolist() == [[2, 2]]
    assert LastState(directions=2)(states, is_token).tolist() == [[2, 1]]


def test_mean_state_is_the_mean_over_the_tokens():
    states = torch.randn(B, S, H)
    expected = torch.stack([states[b, : LENGTHS[b]].mean(dim=0) for b in range(B)])
    torch.testing.assert_close(MeanState()(states, IS_TOKEN), expected)


def test_learned_pool_computes_the_equation_of_its_paper():
    pool = LearnedPool(H).double()
    states = torch.randn(B, S, H, dtype=torch.double)
    w, v = pool.hidden_layer.weight.detach().numpy(), pool.v.weight.detach().numpy()[0]
    expected = []
    for h, length in zip(states.numpy(), LENGTHS.tolist(), strict=True):
        scores = np.array([v @ np.tanh(w @ h[j]) for j in range(length)])
        expected.append(np.exp(scores) / np.exp(scores).sum() @ h[:length])
    np.testing.assert_allclose(pool(states, IS_TOKEN).detach().numpy(), expected, rtol=0, atol=1e-10)


def test_padding_never_affects_a_summary(summary):
    states = torch.randn(B, S, H)
    other = torch.where(IS_TOKEN[:, :, None], states, 1e3)
    torch.testing.assert_close(summary(other, IS_TOKEN), summary(states, IS_TOKEN))


def test_summary_gradients_are_those_of_finite_differences(summary):
    states = torch.randn(B, S, H, dtype=torch.double, requires_grad=True)
    summary = summary.double()

    def summarize(states, *parameters):  # the summary's own, which gradcheck moves in place
        return summary(states, IS_TOKEN)

    assert torch.autograd.gradcheck(summarize, (states, *summary.parameters()))
