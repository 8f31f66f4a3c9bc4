"""The encoder's states of a sentence do not depend on the batch."""

import pytest
import torch

from seq2seq_attn.models.recurrent.cells import CELLS
from seq2seq_attn.models.recurrent.encoder import LAYERS, RecurrentEncoder
from seq2seq_attn.ops import fuse, is_reference

LENGTHS = torch.tensor([3, 6, 1])


@pytest.mark.parametrize("cell", CELLS)
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


@pytest.mark.parametrize("cell", CELLS)
def test_values_on_padding_are_never_read(cell):
    encoder = RecurrentEncoder(4, 5, cell=cell).double()
    embedded = torch.randn(3, 6, 4, dtype=torch.double)
    spoilt = embedded.clone()
    spoilt[0, 3:] = torch.nan
    torch.testing.assert_close(encoder(spoilt, LENGTHS), encoder(embedded, LENGTHS))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_gradients_of_a_sentence_in_a_batch_are_those_of_the_sentence_alone(cell, dtype):
    encoder = RecurrentEncoder(4, 5, cell=cell, layers=2, residual=True).to(dtype)
    embedded, wanted = torch.randn(3, 6, 4, dtype=dtype, requires_grad=True), torch.randn(3, 6, 10, dtype=dtype)

    def gradients(rows, length):
        states = encoder(embedded[rows, :length], LENGTHS[rows])
        return torch.autograd.grad((states * wanted[rows, :length]).sum(), [embedded, *encoder.parameters()])

    alone = [gradients(slice(row, row + 1), length) for row, length in enumerate(LENGTHS.tolist())]
    for together, *parts in zip(gradients(slice(3), 6), *alone, strict=True):
        torch.testing.assert_close(together, sum(parts), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cell", [name for name in CELLS if name not in LAYERS])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_scan_layer_equals_the_steps_of_its_cell_in_each_direction(cell, bidirectional):
    encoder = RecurrentEncoder(4, 5, cell=cell, bidirectional=bidirectional).double()
    embedded = torch.randn(3, 6, 4, dtype=torch.double)
    states, one = encoder(embedded, LENGTHS), CELLS[cell](5)
    gates = encoder.layers[0].from_input(embedded).split(one.gate_size, dim=-1)
    for row, length in enumerate(LENGTHS.tolist()):
        for way, (own, found) in enumerate(zip(gates, states.split(5, dim=-1), strict=True)):
            state = torch.zeros(1, one.state_size, dtype=torch.double)
            for position in range(length)[:: -1 if way else 1]:
                state = one(own[row : row + 1, position], state)
                torch.testing.assert_close(found[row, position], one.output(state)[0])


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


@pytest.mark.parametrize("cell", CELLS)
def test_states_in_inference_equal_those_in_training_for_a_batch_and_a_single_sentence(cell):
    encoder = fuse(RecurrentEncoder(4, 5, cell=cell, layers=2).eval())
    embedded = torch.randn(3, 6, 4)
    trained = encoder(embedded, LENGTHS)
    with torch.inference_mode():
        torch.testing.assert_close(encoder(embedded, LENGTHS), trained, rtol=1e-5, atol=1e-6)
        alone = encoder(embedded[1:2], LENGTHS[1:2])
        torch.testing.assert_close(alone, trained[1:2], rtol=1e-5, atol=1e-6)
        if cell in LAYERS and not is_reference():
            with torch.autocast("cpu", torch.bfloat16):  # torch's layers read a single sentence in full precision
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
