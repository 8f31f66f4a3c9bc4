"""Scorers and normalizers named in a configuration."""

import pytest

from seq2seq_attn.attention import Cosine, Scorer, Softmax
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.context_config import ContextConfig
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.strict import parse


@pytest.fixture
def distance(forget_parts):
    """A scorer of the user's own, forgotten after the test."""

    class CubicDistance(Scorer):
        def prepare(self, keys):
            return keys

        def forward(self, query, prepared):
            return -(query[:, :, None] - prepared[:, None]).abs().pow(3).sum(-1)

    return CubicDistance


def test_a_class_may_be_given_instead_of_its_name_and_is_stored_by_name(distance):
    for given in (distance, {"name": distance}, "cubic_distance"):
        context = ContextConfig.model_validate({"scorer": given, "normalizer": Softmax})
        assert context.model_dump() == ContextConfig(scorer="cubic_distance", normalizer="softmax").model_dump()
        assert context.scorer.name == "cubic_distance"


def test_a_model_is_built_with_the_class_that_was_given(distance):
    config = {"encoder": {"hidden_size": 5}, "decoder": {"hidden_size": 10}, "context": {"scorer": distance}}
    model = RecurrentConfig.model_validate(config).build(13, 11, joint=False)
    assert type(model.decoder.context.scorer) is distance


def test_a_class_that_is_not_a_scorer_is_an_error_that_names_it():
    with pytest.raises(UserError, match="there is no scorer 'softmax'"):
        parse(ContextConfig, {"scorer": Softmax})


def test_an_option_is_converted_to_the_type_that_the_scorer_declares():
    """PyYAML reads 1e-1 as text."""
    config = {
        "encoder": {"hidden_size": 5},
        "decoder": {"hidden_size": 10},
        "context": {"scorer": {"name": Cosine, "temperature": "1e-1"}},
    }
    model = RecurrentConfig.model_validate(config).build(13, 11, joint=False)
    assert model.decoder.context.scorer.temperature == 0.1
