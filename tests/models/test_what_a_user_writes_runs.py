"""What a user wrote is what runs: no fast path stands in for a subclass."""

import pytest
import torch

from seq2seq_attn.attention import Additive, Attention, Softmax
from seq2seq_attn.models.recurrent.bahdanau import BahdanauDecoder
from seq2seq_attn.models.recurrent.cells import GRUCell


class Louder(Additive):
    """Additive attention times a learned gain."""

    def __init__(self, query_size, key_size, hidden_size=None):
        super().__init__(query_size, key_size, hidden_size)
        self.gain = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, query, prepared):
        return self.gain * super().forward(query, prepared)


class Reversed(Softmax):
    def normalise(self, scores):
        return super().normalise(-scores)


@pytest.mark.parametrize(
    "attention", [Attention(Louder(6, 5, 7)), Attention(Additive(6, 5, 7), Reversed())], ids=["scorer", "normaliser"]
)
def test_a_subclass_is_what_all_steps_at_once_compute_too(attention):
    decoder = BahdanauDecoder(GRUCell(6), attention, embedding_size=4)
    source = attention.prepare(torch.randn(2, 8, 5))
    shares, state = decoder.token_share(torch.randn(3, 2, 4)), decoder.start(torch.randn(2, 6), source)
    at_once = decoder.run(shares, state, source)
    for step, share in enumerate(shares):
        state, reading = decoder.advance(share, state, source)
        torch.testing.assert_close(at_once.weights[step], reading.weights)
    at_once.hidden.sum().backward()
    assert all(parameter.grad is not None for parameter in attention.parameters())
