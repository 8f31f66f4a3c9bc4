"""Configurations: strict, complete, and a mistake is said in one line."""

import pytest
import yaml

from seq2seq_attn.config import Config, dump, load, merge, override, parse
from seq2seq_attn.errors import UserError

FILES = {"source": "a", "target": "b"}
LEAST = {"data": {"train": FILES, "validation": FILES}}


def refused(**change):
    with pytest.raises(UserError) as error:
        parse(Config, merge(LEAST, change))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_dumped_is_complete_and_reads_back_equal():
    config = parse(Config, LEAST)
    values = yaml.safe_load(dump(config))
    assert values["training"]["optimiser"]["learning_rate"] == 0.001
    assert parse(Config, values) == config


def test_overrides_are_yaml_laid_over_nested_keys():
    values = override({"a": {"b": 1, "c": 2}}, ["a.b=[1, 2]", "a.d.e=true", "f=null", "g=text"])
    assert values == {"a": {"b": [1, 2], "c": 2, "d": {"e": True}}, "f": None, "g": "text"}


def test_neither_side_of_a_merge_is_altered():
    base, change = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(base, change) == {"a": {"b": 1, "c": 2}}
    assert (base, change) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_an_override_without_a_value_is_refused():
    with pytest.raises(UserError, match=r"give key\.path=value"):
        override({}, ["training.batch_size"])


def test_an_unknown_key_names_the_nearest_and_all_that_are_known():
    message = refused(training={"bacth_size": 3})
    assert "unknown key 'training.bacth_size' (did you mean 'batch_size'?)" in message
    assert "label_smoothing" in message


def test_a_mistake_in_a_file_names_file_and_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(LEAST) + "training:\n  batch_size: 8\n  precison: bf16\n")
    line = path.read_text().splitlines().index("  precison: bf16") + 1
    with pytest.raises(UserError, match=rf"mine\.yaml:{line}: unknown key 'training\.precison'.*'precision'"):
        load(Config, path)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"training": {"precision": "bf61"}}, ["training.precision = 'bf61'", "did you mean 'bf16'?"]),
        ({"training": {"batch_size": 0}}, ["training.batch_size = 0", "greater than 0"]),
        ({"model": {"context": {"scorer": "adittive"}}}, ["model.context.scorer", "did you mean 'additive'?"]),
        (
            {"model": {"context": {"scorer": {"name": "additive", "hiden_size": 3}}}},
            ["Additive has no option 'hiden_size'", "did you mean 'hidden_size'?"],
        ),
        (
            {"model": {"context": {"scorer": {"name": "additive", "hidden_size": "many"}}}},
            ["hidden_size = 'many'", "valid integer"],
        ),
        ({"model": {"context": {"normaliser": "softmaks"}}}, ["model.context", "did you mean 'softmax'?"]),
        ({"data": {"train": {"target": None}}}, ["data.train", "needs either source and target, or tsv"]),
        ({"search": {"beam_size": 2, "n_best": 3}}, ["search", "n_best=3", "beam_size=2"]),
    ],
)
def test_a_bad_value_names_key_value_rule_and_way_out(change, parts):
    message = refused(**change)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- 1\n", "a configuration is a mapping of keys to values, got list"),
        (b"a: b: c\n", "mine.yaml:1: not YAML"),
        (b"a: \xff\n", "mine.yaml: cannot be read"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        load(Config, path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.yaml: no such file"):
        load(Config, tmp_path / "none.yaml")
