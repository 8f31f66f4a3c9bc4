"""Row i of the weights belongs to the prediction of token i: which target tokens its query depends on."""

import pytest
import torch

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.search import force

SOURCE, WORDS = [7, 5, 9, 4, EOS], [6, 4, 8, 5, 7, 4]
DECODERS = {
    "bahdanau": ({"kind": "bahdanau"}, 2),
    "luong": ({"kind": "luong", "input_feeding": False}, 1),
    "luong with input feeding": ({"kind": "luong"}, 1),
    "conditional": ({"kind": "conditional"}, 1),
}


@pytest.mark.parametrize("name", DECODERS)
def test_the_first_row_that_depends_on_a_token_comes_after_the_row_that_predicts_it(name):
    decoder, distance = DECODERS[name]
    torch.manual_seed(3)
    config = {"embedding_size": 6, "encoder": {"hidden_size": 5}, "decoder": {**decoder, "hidden_size": 11}}
    model = RecurrentConfig.model_validate(config).build(10, 9, False).double().eval()
    for token in range(len(WORDS)):
        changed = [*WORDS[:token], 1, *WORDS[token + 1 :]]
        one, other = force(model, pad([SOURCE, SOURCE]), pad([[*WORDS, EOS], [*changed, EOS]]))
        difference = (one.weights - other.weights).abs().amax(dim=1)
        assert (difference > 1e-6).tolist() == [row >= token + distance for row in range(len(WORDS) + 1)]
