"""Embeddings of words with factors equal NumPy's, and any encoder of tokens reads them."""

import numpy as np
import pytest
import torch

from seq2seq_attn.corpora.factored import FactoredTokens
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.factored import ConcatenatedEmbedding, SummedEmbedding
from seq2seq_attn.strict import parse

SIZES = 11, 7, 5
IDS = torch.tensor([[[4, 6, 4], [10, 4, 3], [3, 3, 3]], [[9, 5, 4], [3, 3, 3], [1, 1, 1]]])


def tables(embedding):
    return [each.weight.detach().numpy() for each in (embedding.table, *embedding.factors)]


def test_a_sum_is_that_of_the_rows():
    embedding = SummedEmbedding(SIZES, 6)
    expected = sum(table[IDS[..., column]] for column, table in enumerate(tables(embedding)))
    np.testing.assert_allclose(embedding(IDS).detach(), expected, rtol=1e-6)
    assert (embedding(IDS)[1, 2] == 0).all()  # padding


def test_a_concatenation_is_that_of_the_rows():
    embedding = ConcatenatedEmbedding(SIZES, 9, (3, 2))
    assert [table.shape for table in tables(embedding)] == [(11, 4), (7, 3), (5, 2)]
    expected = np.concatenate([table[IDS[..., column]] for column, table in enumerate(tables(embedding))], axis=-1)
    np.testing.assert_array_equal(embedding(IDS).detach(), expected)
    assert embedding.size == 9


def test_whole_words_are_dropped_with_their_factors():
    embedding = SummedEmbedding(SIZES, 6, word_dropout=0.5).train()
    whole = embedding.eval()(IDS)
    torch.manual_seed(3)
    found = embedding.train()(IDS)
    dropped = (found == 0).all(dim=-1)
    assert dropped.sum() > (whole == 0).all(dim=-1).sum()
    assert torch.equal(found[~dropped], whole[~dropped])


ENCODERS = {
    "recurrent": {"kind": "recurrent", "hidden_size": 5},
    "transformer": {"kind": "transformer", "layers": 1, "heads": 2},
    "stacked": {
        "kind": "stacked",
        "encoders": [{"kind": "recurrent", "hidden_size": 5}, {"kind": "transformer", "layers": 1, "heads": 2}],
    },
}


def model_of(encoder, **combined):
    values = {
        "kind": "recurrent",
        "embedding_size": 10,
        "encoder": {"kind": "factored", "encoder": encoder, **combined},
    }
    return parse(ModelConfig, values | {"decoder": {"hidden_size": 8}}).build(SIZES, 12, joint=False).eval()


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("combined", [{}, {"combine": "concat", "sizes": [3, 2]}])
def test_any_encoder_of_tokens_reads_the_embeddings_of_words_with_factors(kind, combined):
    model = model_of(ENCODERS[kind], **combined)
    source = FactoredTokens(IDS, torch.tensor([3, 2]))
    states, is_state = model.encoder_states(source)
    own = model.encoder.network(model.encoder.embedding(IDS), source.lengths)
    assert torch.equal(states[is_state], own[is_state])
    assert is_state.tolist() == [[True] * 3, [True, True, False]]
    alone = model.encoder_states(source.select(torch.tensor([1])))
    torch.testing.assert_close(alone.states[0], states[1, :2])
    changed = IDS.clone()
    changed[0, 1, 1] += 1  # a factor alone
    assert not torch.allclose(model.encoder_states(FactoredTokens(changed, source.lengths)).states[0], states[0])


@pytest.mark.parametrize("sizes", [[3], [3, 7], [1, 1, 1]])
def test_sizes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(UserError, match=r"model\.encoder\.sizes"):
        model_of(ENCODERS["recurrent"], combine="concat", sizes=sizes)
