"""An encoder that reads in reverse returns its states in the written order."""

import pytest
import torch
from torch import nn

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder, ReversedEncoder
from seq2seq_attn.strict import parse

EOS = 3
WRITTEN = [[5, 6, 7, 8, EOS], [9, 10, EOS], [11, EOS]]
BACKWARDS = [[8, 7, 6, 5, EOS], [10, 9, EOS], [11, EOS]]
TARGET = pad([[4, 5, EOS], [6, EOS], [7, 8, 9, EOS]])


def make(reverse_source, **context):
    torch.manual_seed(2)
    config = {
        "embedding_size": 7,
        "encoder": {"hidden_size": 5, "cell": "lstm", "bidirectional": False, "reverse_source": reverse_source},
        "decoder": {"kind": "luong", "hidden_size": 11},
        "context": {"scorer": "general", **context},
    }
    return RecurrentConfig.model_validate(config).build(13, 17, joint=False).double().eval()


def test_states_are_those_of_torch_s_lstm_on_the_reversed_words_at_their_written_positions():
    encoder = RecurrentEncoder(4, 5, cell="lstm", bidirectional=False).double().eval()
    torch_lstm = nn.LSTM(4, 5, batch_first=True).double()
    torch_lstm.load_state_dict(encoder.layers[0].state_dict())
    embedded, lengths = torch.randn(3, 6, 4, dtype=torch.double), torch.tensor([4, 6, 1])
    states = ReversedEncoder(encoder)(embedded, lengths)
    for row, length in enumerate(lengths.tolist()):
        read = [*range(length - 2, -1, -1), length - 1]
        expected, _ = torch_lstm(embedded[row, read])
        torch.testing.assert_close(states[row, read], expected)
        assert states[row, length:].abs().sum() == 0


def test_reading_in_reverse_equals_reading_the_reversed_sentence_but_for_the_positions_of_weights():
    backwards, forwards = make(True), make(False)
    forwards.load_state_dict(
        {name.replace("network.encoder", "network"): w for name, w in backwards.state_dict().items()}
    )
    source, mirrored = pad(WRITTEN), pad(BACKWARDS)
    torch.testing.assert_close(backwards(source, TARGET), forwards(mirrored, TARGET))
    inputs = backwards.decoder_inputs(TARGET)
    weights, mirrored_weights = (
        model.decode(inputs, model.encode(sentences)).weights
        for model, sentences in ((backwards, source), (forwards, mirrored))
    )
    for row, sentence in enumerate(WRITTEN):
        words = len(sentence) - 1
        torch.testing.assert_close(weights[row, :, :words], mirrored_weights[row, :, :words].flip(-1))
        torch.testing.assert_close(weights[row, :, words], mirrored_weights[row, :, words])
    assert not torch.allclose(weights, mirrored_weights)


def test_a_window_moves_over_written_positions():
    model = make(True, window={"name": "local_m", "half_width": 1})
    weights = model.decode(torch.tensor([[4, 5]]), model.encode(pad(WRITTEN[:1]))).weights[0]
    assert (weights > 0).tolist() == [[True, True, False, False, False], [True, True, True, False, False]]


def test_reversing_a_bidirectional_encoder_is_an_error():
    with pytest.raises(UserError, match=r"^encoder: reverse_source=true needs .* set bidirectional=false"):
        parse(RecurrentConfig, {"encoder": {"reverse_source": True}})
