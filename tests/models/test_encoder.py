"""The encoder's states of a sentence do not depend on the batch."""

import pytest
import torch

from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder

LENGTHS = torch.tensor([3, 6, 1])


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_sentence_in_a_batch_has_the_states_that_it_has_alone(cell, layer_norm):
    encoder = RecurrentEncoder(4, 5, cell=cell, layers=2, layer_norm=layer_norm).double().eval()
    embedded = torch.randn(3, 6, 4, dtype=torch.double)
    states = encoder(embedded, LENGTHS)
    assert states.shape == (3, 6, 10)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encoder(embedded[row : row + 1, :length], torch.tensor([length]))
        torch.testing.assert_close(states[row, :length], alone[0])
        assert states[row, length:].abs().sum() == 0


def test_values_on_padding_are_never_read():
    encoder = RecurrentEncoder(4, 5).double()
    embedded = torch.randn(3, 6, 4, dtype=torch.double)
    spoilt = embedded.clone()
    spoilt[0, 3:] = torch.nan
    torch.testing.assert_close(encoder(spoilt, LENGTHS), encoder(embedded, LENGTHS))


def test_a_unidirectional_state_does_not_depend_on_later_words():
    encoder = RecurrentEncoder(4, 5, bidirectional=False).double()
    embedded = torch.randn(1, 6, 4, dtype=torch.double)
    changed = embedded.clone()
    changed[0, 4] += 1
    before, after = (encoder(x, torch.tensor([6]))[0] for x in (embedded, changed))
    torch.testing.assert_close(before[:4], after[:4])
    assert not torch.allclose(before[4:], after[4:])


def test_dropout_is_applied_between_layers_only():
    embedded = torch.randn(2, 6, 4)
    lengths = torch.tensor([6, 5])
    one = RecurrentEncoder(4, 5, dropout=0.9)
    torch.testing.assert_close(one(embedded, lengths), one(embedded, lengths))
    two = RecurrentEncoder(4, 5, dropout=0.9, layers=2)
    assert not torch.allclose(two(embedded, lengths), two(embedded, lengths))


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
def test_states_in_inference_equal_those_in_training_for_a_batch_and_a_single_sentence(cell):
    encoder = RecurrentEncoder(4, 5, cell=cell, layers=2).eval()
    embedded = torch.randn(3, 6, 4)
    trained = encoder(embedded, LENGTHS)
    with torch.inference_mode():
        torch.testing.assert_close(encoder(embedded, LENGTHS), trained, rtol=1e-5, atol=1e-6)
        alone = encoder(embedded[1:2], LENGTHS[1:2])
        torch.testing.assert_close(alone, trained[1:2], rtol=1e-5, atol=1e-6)
        with torch.autocast("cpu", torch.bfloat16):  # a single sentence is read in full precision
            assert torch.equal(encoder(embedded[1:2], LENGTHS[1:2]), alone)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_residual_connections_add_the_input_of_every_layer_except_the_first(bidirectional):
    encoder = RecurrentEncoder(4, 5, layers=3, residual=True, bidirectional=bidirectional).double().eval()
    embedded = torch.randn(1, 6, 4, dtype=torch.double)
    expected, _ = encoder.layers[0](embedded)
    for layer in encoder.layers[1:]:
        expected = layer(expected)[0] + expected
    torch.testing.assert_close(encoder(embedded, torch.tensor([6])), expected)
    encoder.residual = False
    assert not torch.allclose(encoder(embedded, torch.tensor([6])), expected)
