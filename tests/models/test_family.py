"""Families of models and decoders are chosen by their kind, which determines their options."""

from typing import Literal

import pytest
import yaml

from seq2seq_attn.attention.user_code import load_file
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig, default_model
from seq2seq_attn.models.recurrent.bahdanau import BahdanauDecoder
from seq2seq_attn.models.recurrent.conditional import ConditionalConfig, ConditionalDecoder
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.recurrent.decoders import DecoderConfig
from seq2seq_attn.models.recurrent.luong import LuongConfig, LuongDecoder
from seq2seq_attn.runs import plugin
from seq2seq_attn.strict import dump, override, parse

FILES = {"source": "a", "target": "b"}
LEAST = {"data": {"train": FILES, "validation": FILES}}
TORCH_LAYER = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def parsed(model):
    return parse(Config, {**LEAST, "model": model})


def test_the_default_model_is_recurrent_and_the_default_decoder_is_conditional():
    for model in ({}, {"kind": "recurrent"}, {"decoder": {"kind": "conditional"}}):
        assert parsed(model).model == default_model() == RecurrentConfig() == parse(Config, LEAST).model
    assert type(RecurrentConfig().decoder) is ConditionalConfig


@pytest.mark.parametrize(
    ("decoder", "kind"),
    [
        ({"kind": "bahdanau"}, BahdanauDecoder),
        ({"kind": "luong", "input_feeding": False}, LuongDecoder),
        ({"kind": "conditional", "layers": 2, "residual": True}, ConditionalDecoder),
    ],
)
def test_a_written_configuration_has_the_options_of_its_kind_and_is_parsed_to_the_same(decoder, kind):
    config = parsed({"embedding_size": 3, "encoder": {"hidden_size": 2}, "decoder": {"hidden_size": 5, **decoder}})
    values = yaml.safe_load(dump(config))
    assert values["model"]["decoder"].items() >= decoder.items()
    assert parse(Config, values) == config
    assert type(config.model.build(11, 13, joint=False).decoder) is kind


def test_an_option_of_one_kind_does_not_exist_in_others():
    assert set(LuongConfig.model_fields) - set(DecoderConfig.model_fields) == {"input_feeding"}
    assert "input_feeding" not in dump(parsed({"decoder": {"kind": "conditional"}}))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"kind": "recurent"}, "model.kind = 'recurent': there is no such kind; did you mean 'recurrent'?"),
        ({"kind": 5}, "model.kind = 5: text in quotes is wanted"),
        ({"decoder": {"kind": "luongg", "input_feeding": 3}}, "model.decoder.kind = 'luongg': there is no such kind"),
        ({"decoder": {"kind": "seq"}}, "there is no such kind; choose from bahdanau, conditional, hard, luong"),
        (
            {"decoder": {"input_feeding": False}},
            "model.decoder: input_feeding is an option of kind=luong, not of kind=conditional; leave it out",
        ),
        ({"decoder": {"kind": "luong", "input_feding": True}}, "(did you mean 'model.decoder.input_feeding'?)"),
        ({"context": {"scorer": "adittive"}}, "model.context.scorer = 'adittive': there is no scorer"),
        ({"decoder": {"layers": 0}}, "model.decoder.layers = 0: a number of at least 1 is wanted"),
        ({"decoder": {"residual": True}}, "model.decoder: residual=true needs two layers"),
        ({"encoder": {"residual": True}}, "model.encoder: residual=true needs two layers"),
    ],
)
def test_an_error_names_the_key_without_the_tag_of_the_family(model, message):
    with pytest.raises(UserError) as error:
        parsed(model)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "model.recurrent" not in str(error.value)


def test_an_override_changes_the_kind_of_a_decoder():
    values = override(LEAST, ["model.decoder.kind=luong", "model.decoder.input_feeding=false"])
    assert parse(Config, values).model.decoder == LuongConfig(input_feeding=False)


def test_a_user_s_own_decoder_is_chosen_by_its_kind(monkeypatch):
    monkeypatch.setattr(DecoderConfig, "_kinds", DecoderConfig.kinds())

    class Doubled(BahdanauDecoder):
        def advance(self, input_gates, state, source):
            return super().advance(2 * input_gates, state, source)

    class DoubledConfig(DecoderConfig):
        kind: Literal["doubled"] = "doubled"
        factor: float = 2.0

        def build(self, make_cell, context, embedding_size):
            return Doubled(make_cell(), context, embedding_size)

    config = parsed({"decoder": {"kind": "doubled", "hidden_size": 4, "factor": "3"}})
    assert type(config.model.build(7, 9, joint=False).decoder) is Doubled
    assert config.model.decoder.factor == 3.0
    assert parse(Config, yaml.safe_load(dump(config))) == config
    with pytest.raises(UserError, match="factor is an option of kind=doubled, not of kind=conditional"):
        parsed({"decoder": {"factor": 3}})


def test_a_user_s_file_may_define_a_decoder(monkeypatch, tmp_path):
    monkeypatch.setattr(DecoderConfig, "_kinds", DecoderConfig.kinds())
    monkeypatch.setattr(plugin, "_loaded", [])
    path = tmp_path / "own_decoder.py"
    path.write_text(
        "from typing import Literal\n"
        "from seq2seq_attn.models.recurrent.luong import LuongConfig\n"
        "class OwnConfig(LuongConfig):\n"
        "    kind: Literal['own'] = 'own'\n"
    )
    plugin.load_plugins([path])
    own = load_file(path).OwnConfig
    assert type(parsed({"decoder": {"kind": "own", "input_feeding": False}}).model.decoder) is own
    assert type(parsed({"decoder": {"kind": "luong"}}).model.decoder) is LuongConfig


def test_two_classes_of_one_kind_are_an_error(monkeypatch):
    monkeypatch.setattr(ModelConfig, "_kinds", ModelConfig.kinds())
    with pytest.raises(TypeError, match=r"kind='recurrent' exists twice: .*RecurrentConfig and .*Another"):

        class Another(RecurrentConfig):
            pass


def test_parameters_have_the_names_that_saved_runs_contain():
    """If these names change, `model.safetensors` of earlier runs cannot be loaded."""
    sizes = {"embedding_size": 3, "encoder": {"hidden_size": 2}, "context": {"kind": "mean"}}
    common = {
        "encoder.embedding.table.weight",
        "target_embedding.table.weight",
        *(f"encoder.network.layers.0.{kind}_l0{way}" for way in ("", "_reverse") for kind in TORCH_LAYER),
        "initial.weight",
        "initial.bias",
        "decoder.cell.recurrent.weight",
        "decoder.cell.recurrent.bias",
        "decoder.from_token.weight",
        "decoder.from_token.bias",
        "readout.combine.weight",
        "readout.combine.bias",
        "head.projection.weight",
        "head.projection.bias",
    }
    context = {"decoder.from_context.map.weight"}
    own = {
        "bahdanau": context,
        "luong": {"decoder.from_feed.weight", "decoder.combine.weight", "decoder.combine.bias"},
        "conditional": context
        | {"decoder.second.recurrent.weight", "decoder.second.recurrent.bias", "decoder.second_bias"},
    }
    for kind, names in own.items():
        model = parsed({**sizes, "decoder": {"kind": kind, "hidden_size": 4}}).model.build(7, 9, joint=False)
        assert set(model.state_dict()) == common | names
