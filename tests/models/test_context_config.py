"""The configuration of a context builds the parts that it names."""

import pytest
import torch
import yaml

from seq2seq_attn.attention import (
    Additive,
    Attention,
    ChunkwiseAttention,
    KeyValueAttention,
    LastState,
    LocalP,
    LocationAware,
    Monotonic,
    MultiHead,
    Relative,
    Softmax,
)
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.context_config import ContextConfig, build_context
from seq2seq_attn.strict import parse

QUERY, DIRECTION = 12, 10


def build(context, direction=DIRECTION):
    return build_context(parse(ContextConfig, context), QUERY, 2 * direction, 2, LastState(2))


def test_a_name_alone_builds_attention_with_default_options():
    built = build({"scorer": "additive", "normalizer": "softmax"})
    assert type(built) is Attention
    assert (type(built.scorer), type(built.normalizer), built.window) == (Additive, Softmax, None)
    assert (built.query_size, built.key_size, built.value_size) == (QUERY, 2 * DIRECTION, 2 * DIRECTION)


def test_normalizers_and_windows_take_options_as_scorers_do():
    built = build(
        {
            "scorer": {"name": "location_aware", "kernel_width": 5},
            "normalizer": {"name": "monotonic", "noise": 0.5},
            "window": {"name": "local_p", "half_width": 3},
        }
    )
    assert (type(built.scorer), built.scorer.convolution.kernel_size) == (LocationAware, (5,))
    assert (type(built.normalizer), built.normalizer.noise) == (Monotonic, 0.5)
    assert (type(built.window), built.window.half_width, built.window.query_size) == (LocalP, 3, QUERY)


def test_a_scorer_that_wraps_another_one_has_it_as_an_option():
    nested = {"name": "relative", "scorer": {"name": "additive", "hidden_size": 4}, "max_distance": 3}
    built = build({"scorer": nested})
    assert (type(built.scorer), built.scorer.max_distance) == (Relative, 3)
    assert (type(built.scorer.scorer), built.scorer.scorer.v.shape) == (Additive, (4,))


def test_a_scorer_that_wraps_another_one_survives_a_round_trip_through_yaml():
    for nested in ("additive", {"name": "additive", "hidden_size": "4"}):
        config = parse(ContextConfig, {"scorer": {"name": "relative", "scorer": nested}})
        text = yaml.safe_dump(config.model_dump(mode="json"))
        assert parse(ContextConfig, yaml.safe_load(text)) == config


def test_heads_split_the_query_and_project_whole_states():
    built = build({"heads": 3, "scorer": "scaled_dot", "window": "local_p"})
    assert (type(built), built.heads) == (MultiHead, 3)
    assert (built.attention.query_size, built.attention.key_size, built.attention.window.query_size) == (4, 4, 4)
    assert (built.query_layer.in_features, built.key_layer.in_features, built.value_size) == (QUERY, 20, 20)


def test_chunkwise_attention_has_a_separate_scorer_for_chunks():
    built = build({"normalizer": "monotonic", "scorer": "general", "chunk": {"size": 3, "scorer": "additive"}})
    assert (type(built), built.chunk_size, type(built.scorer)) == (ChunkwiseAttention, 3, Additive)


def test_separate_values_are_the_second_half_of_each_direction():
    built = build({"separate_values": True, "heads": 2})
    assert (type(built), built.directions, type(built.attention)) == (KeyValueAttention, 2, MultiHead)
    states = torch.randn(3, 4, 2 * DIRECTION)
    context, _ = built(torch.randn(3, 5, QUERY), built.prepare(states))
    assert context.shape == (3, 5, DIRECTION)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"heads": 5}, "model.context.heads=5 does not divide decoder.hidden_size=12"),
        ({"scorer": "dot"}, "model.context.scorer: Dot needs query_size == key_size, got 12 and 20; use General"),
        ({"scorer": {"name": "relative", "scorer": "dot"}}, "model.context.scorer: Dot needs query_size == key_size"),
        ({"normalizer": {"name": "monotonic", "noise": -1}}, "model.context.normalizer: Monotonic needs noise >= 0"),
        ({"window": {"name": "local_p", "half_width": 0}}, "model.context.window: LocalP needs half_width > 0, got 0"),
        (
            {"normalizer": "monotonic", "chunk": {"scorer": "dot"}},
            "model.context.chunk.scorer: Dot needs query_size == key_size",
        ),
        ({"frozen_scorer": True, "heads": 2}, "frozen_scorer=true does not freeze the projections of several heads"),
        ({"chunk": {"size": 2}}, "chunk needs normalizer=monotonic, which chooses its end, got softmax"),
        ({"window": "local_q"}, "there is no window 'local_q'; did you mean 'local_"),
        ({"window": {"name": "local_m", "width": 3}}, "LocalM has no option 'width'; did you mean 'half_width'"),
        ({"normalizer": {"name": "softmax", "noise": 1}}, "Softmax has no option 'noise'; it has: temperature"),
        ({"scorer": {"name": "relative", "scorer": "generall"}}, "no scorer 'generall'; did you mean 'general'"),
        (
            {"scorer": {"name": "relative", "scorer": {"name": "additive", "hidden_siz": 3}}},
            "Additive has no option 'hidden_siz'; did you mean 'hidden_size'",
        ),
    ],
)
def test_an_impossible_configuration_is_an_error_of_one_line(context, message):
    with pytest.raises(UserError) as error:
        build(context)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_separate_values_of_states_of_odd_size_are_an_error():
    with pytest.raises(
        UserError, match="separate_values=true halves the 9 numbers of an encoder state; choose an even"
    ):
        build({"separate_values": True}, direction=9)


def test_frozen_scorer_freezes_the_scorer_alone():
    chunk = {"normalizer": "monotonic", "chunk": {"size": 3}}
    for context in ({}, {"window": "local_p"}, {"separate_values": True}, chunk):
        built = build({"frozen_scorer": True, **context})
        frozen = {name for name, parameter in built.named_parameters() if not parameter.requires_grad}
        assert frozen == {name for name, _ in built.named_parameters() if "scorer." in name}
        assert frozen


def test_freezing_a_scorer_without_parameters_is_an_error():
    with pytest.raises(UserError, match="frozen_scorer=true: dot has no parameters; choose a scorer with some"):
        build({"frozen_scorer": True, "scorer": "dot"}, direction=QUERY // 2)
