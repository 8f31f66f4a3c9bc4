"""Configurations: strict, complete, and a mistake is said in one line."""

import re
from pathlib import Path

import pytest
import yaml
from sacrebleu import BLEU

from seq2seq_attn.comparison.experiment import Experiment, read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.warm_start import read_configuration
from seq2seq_attn.strict import Strict, dump, merge, override, parse, read_yaml
from seq2seq_attn.strict.keys import json_schema

ROOT = Path(__file__).parents[1]
FILES = {"source": "a", "target": "b"}
LEAST = {"data": {"train": FILES, "validation": FILES}}


def read(path, overrides=()):
    return read_configuration(read_yaml(path), overrides, path)


def refused(**change):
    with pytest.raises(UserError) as error:
        parse(Config, merge(LEAST, change))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("option", "tokenizers"),
    [
        ({"normalization": "nfkc"}, ["bpe", "unigram"]),
        ({"character_coverage": 0.99}, ["bpe", "unigram"]),
        ({"sampling": {}}, ["bpe", "unigram"]),
        ({"minimum_frequency": 2}, ["word", "moses", "character"]),
        ({"match_known_forms": True}, ["word", "moses"]),
    ],
)
def test_options_are_refused_for_tokenizers_that_lack_them(option, tokenizers):
    (key,) = option
    for tokenizer in ("word", "moses", "character", "bpe", "unigram"):
        text = {"tokenizer": tokenizer, "target_language": "en", **option}
        if tokenizer in tokenizers:
            assert parse(Config, merge(LEAST, {"text": text}))
        else:
            message = refused(text=text)
            assert message == f"text: {key} needs tokenizer={' or '.join(tokenizers)}; {tokenizer} has no such option"


def test_text_is_not_rewritten_unless_rules_are_named():
    assert parse(Config, LEAST).text.normalization == "identity"
    assert "'identity', 'nfkc', 'nmt_nfkc'" in refused(text={"normalization": "nfc"})
    assert "text.character_coverage = 0.9: a number of at least 0.98" in refused(text={"character_coverage": 0.9})


def test_a_language_has_one_code_in_a_configuration():
    text = parse(Config, merge(LEAST, {"text": {"source_language": "fr_FR", "target_language": "cmn"}})).text
    assert (text.source_language, text.target_language) == ("fr", "zh")
    assert parse(Config, merge(LEAST, {"text": {"target_language": "actions"}})).text.target_language == "actions"


def test_moses_is_refused_for_a_language_that_it_has_no_rules_for():
    message = refused(text={"tokenizer": "moses", "source_language": "fra", "target_language": "dan"})
    assert message.startswith(
        "text: target_language with tokenizer=moses: the rules of Moses are for the languages as,"
    )
    lc_tok = {"test": {**FILES, "lc_tok": "c"}}
    assert "'da' is none of them; leave lc_tok out" in refused(data=lc_tok, text={"target_language": "dan"})


def test_a_dumped_configuration_is_complete_and_loads_equal():
    config = parse(Config, LEAST)
    values = yaml.safe_load(dump(config))
    assert values["training"]["optimizer"]["learning_rate"] == 0.004
    assert parse(Config, values) == config


def test_overrides_are_yaml_values_of_nested_keys():
    values = override({"a": {"b": 1, "c": 2}}, ["a.b=[1, 2]", "a.d.e=true", "f=null", "g=text"])
    assert values == {"a": {"b": [1, 2], "c": 2, "d": {"e": True}}, "f": None, "g": "text"}


def test_a_merge_modifies_neither_argument():
    base, change = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(base, change) == {"a": {"b": 1, "c": 2}}
    assert (base, change) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_part_given_by_name_keeps_it_when_an_option_is_added():
    base = merge(LEAST, {"model": {"context": {"scorer": "concat"}}})
    scorer = parse(Config, override(base, ["model.context.scorer.hidden_size=3"])).model.context.scorer
    assert (scorer.name, scorer.options) == ("concat", {"hidden_size": 3})


def test_a_new_scorer_name_over_old_options_is_refused_with_the_remedy():
    base = merge(LEAST, {"model": {"context": {"scorer": {"name": "additive", "hidden_size": 3}}}})
    with pytest.raises(UserError, match=r"General has no option 'hidden_size'; it has: none .* replaces") as error:
        parse(Config, override(base, ["model.context.scorer.name=general"]))
    (way_out,) = re.findall(r"model\.context\.scorer=\w+", str(error.value))
    assert parse(Config, override(base, [way_out])).model.context.scorer.name == "general"


def test_an_override_without_a_value_is_refused():
    with pytest.raises(UserError, match=r"give key\.path=value"):
        override({}, ["training.batch_size"])


def test_an_unknown_key_is_refused_with_the_nearest_and_all_known_ones():
    message = refused(training={"bacth_size": 3})
    assert "unknown key 'training.bacth_size' (did you mean 'training.batch_size'?)" in message
    assert "label_smoothing" in message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("encoder.hiden_size=5", "unknown key 'encoder.hiden_size' (did you mean 'model.encoder.hidden_size'?)"),
        ("training.bacth_size=3", "unknown key 'training.bacth_size' (did you mean 'training.batch_size'?)"),
        ("model.encodr.hidden_size=3", "'model.encodr.hidden_size' (did you mean 'model.encoder.hidden_size'?)"),
        ("hidden_size=5", "(did you mean 'model.encoder.hidden_size' or 'model.decoder.hidden_size'?)"),
        ("learning_rate=0.1", "(did you mean 'training.optimizer.learning_rate'?)"),
        ("scorer=general", "(did you mean 'model.context.scorer'?)"),
        ("qwertz=1", "unknown key 'qwertz'; known here: seed, data, source, text,"),
        ("source={kind: frames, features: 6}", "unknown key 'source.features'; known here: "),  # no search.temperature
        ("data.train=a.tsv", "data.train = 'a.tsv': a mapping of keys is wanted, as in {source: ...}"),
        ("data.train=[a.en]", "data.train.0 = 'a.en': a mapping of keys is wanted, as in {source: ...}"),
        ("training.batch_size=0", "training.batch_size = 0: a number greater than 0 is wanted"),
        ("training=5", "training = 5: a mapping of keys is wanted"),
        ("search.n_best=9", "search: n_best=9"),
        ("model.context.scorer.hiden_size=3", "Additive has no option 'hiden_size'"),
    ],
)
def test_a_wrong_override_is_blamed_on_the_command_line(tmp_path, override, message):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(LEAST))
    with pytest.raises(UserError) as error:
        read(path, ["training.max_epochs=2", override, "seed=3"])
    assert str(error.value).startswith("command line: ")
    assert message in str(error.value)
    assert "mine.yaml" not in str(error.value)


def test_a_mistake_in_a_file_is_blamed_on_the_file_whatever_the_overrides(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"training": {"batch_size": 0, "patience": 3}}))
    files = [f"data.{part}.{side}=x" for part in ("train", "validation") for side in ("source", "target")]
    for overrides in (files, [*files, "training.patience=5"], [*files, "training.max_epochs=2"]):
        with pytest.raises(UserError, match=r"mine\.yaml:2: training\.batch_size = 0"):
            read(path, overrides)
    assert read(path, [*files, "training.batch_size=4"]).training.batch_size == 4


def test_a_key_at_the_wrong_depth_of_a_file_is_named_with_its_place(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(LEAST) + "encoder: {hidden_size: 5}\n")
    with pytest.raises(UserError, match=r"mine\.yaml:6: .*'encoder\.hidden_size' \(did you mean 'model\.encoder\.hid"):
        read(path)


def test_a_mistake_in_a_file_names_file_and_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(LEAST) + "training:\n  batch_size: 8\n  precison: bf16\n")
    line = path.read_text().splitlines().index("  precison: bf16") + 1
    with pytest.raises(UserError, match=rf"mine\.yaml:{line}: unknown key 'training\.precison'.*'training\.precision'"):
        read(path)


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
            ["hidden_size = 'many'", "a whole number is wanted"],
        ),
        ({"model": {"context": {"normalizer": "softmaks"}}}, ["model.context", "did you mean 'softmax'?"]),
        ({"data": {"train": {"target": None}}}, ["data.train", "needs either source and target, tsv"]),
        ({"search": {"beam_size": 2, "n_best": 3}}, ["search", "n_best=3", "beam_size=2"]),
        (
            {"model": {"encoder": 5}},
            ["model.encoder = 5: a mapping of keys is wanted, as in {kind: ...}; known here: kind, cell, hidden_size,"],
        ),
        ({"model": {"encoder": None}}, ["model.encoder = null: a mapping of keys"]),
        ({"evaluation": {"bands": 10}}, ["evaluation.bands = 10: a list is wanted"]),
        ({"evaluation": {"bands": [10, "x"]}}, ["evaluation.bands.1 = 'x': a whole number is wanted"]),
        ({"data": {"train": {"columns": [0]}}}, ["data.train.columns = [0]: a longer list is wanted"]),
        ({"data": {"train": {"columns": [0, 1, 2]}}}, ["columns = [0, 1, 2]: a list of 2 at most is wanted"]),
        (
            {"data": {"train": {"source": ["a"]}}},
            ["data.train.source = ['a']: the path of a file or a list of at least 2 is wanted"],
        ),
        ({"text": {"source_language": False}}, ["text.source_language = False: text in quotes is wanted"]),
        ({"text": {"lowercase": "maybe"}}, ["text.lowercase = 'maybe': true or false is wanted"]),
        ({"training": {"label_smoothing": 1.5}}, ["training.label_smoothing = 1.5: a number less than 1 is wanted"]),
        ({"training": {"patience": 2.5}}, ["training.patience = 2.5: a whole number is wanted"]),
        ({"model.encoder.layers": 2}, ["write it as model: {encoder: {layers: ...}}"]),
        ({"model": {"encoder": {5: 3}}}, ["unknown key 'model.encoder.5'; known here: kind, cell,"]),
    ],
)
def test_a_wrong_value_is_refused_with_key_value_rule_and_remedy(change, parts):
    message = refused(**change)
    assert [part for part in parts if part not in message] == []


WRONG = [5, -1, 2.5, float("nan"), "x", True, None, [], ["x"], [[1]], {"x": 1}, {5: 1}]
FOREIGN = re.compile(r"Input|instance of|valid (dict|tuple|list|int|str|bool|num|path)|Tuple|should|unable to|\[str")


def keys_of(record, above=()):
    for name, field in record.model_fields.items():
        yield (*above, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Strict):
            yield from keys_of(field.annotation.record_for({}), (*above, name))


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (Config, LEAST),
        (Experiment, {"name": "x", "baseline": "a", "arms": {"a": {}}, "base": "mine.yaml"}),
    ],
)
def test_no_error_is_in_terms_of_pydantic(record, values):
    messages = []
    for *above, last in keys_of(record):
        for wrong in WRONG:
            change = {last: wrong}
            for key in reversed(above):
                change = {key: change}
            try:
                parse(record, merge(values, change))
            except UserError as error:
                messages.append(str(error))
    assert len(messages) > 30
    assert [message for message in messages if FOREIGN.search(message)] == []


def test_the_error_for_a_union_names_all_its_types():
    experiment = {"name": "x", "baseline": "a", "arms": {"a": {}}, "base": 5}
    with pytest.raises(UserError, match=r"^base = 5: a mapping of keys or the path of a file is wanted$"):
        parse(Experiment, experiment)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- 1\n", "a configuration is a mapping of keys to values, got list"),
        (b"a: b: c\n", "mine.yaml:1: not YAML"),
        (b"a: \xff\n", "mine.yaml, line 1: not UTF-8"),
    ],
)
def test_a_file_without_a_configuration_is_refused(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.yaml: no such file"):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("language", "tokenize"), [("en", "13a"), ("zh", "zh"), ("cmn", "zh"), ("Chinese", "zh"), ("th", "char")]
)
def test_scores_follow_the_text_and_a_dumped_configuration_says_how(language, tokenize):
    text = {"target_language": language, "lowercase": True}
    values = yaml.safe_load(dump(parse(Config, merge(LEAST, {"text": text}))))
    assert (values["evaluation"]["tokenize"], values["evaluation"]["lowercase"]) == (tokenize, True)
    given = {"tokenize": "intl", "lowercase": False}
    assert parse(Config, merge(LEAST, {"text": text, "evaluation": given})).evaluation.words == ("intl", False)
    assert parse(Config, LEAST).evaluation.words == ("13a", False)


def test_every_tokenizer_of_sacrebleu_can_be_configured_and_no_other():
    for name in BLEU.TOKENIZERS:
        assert parse(Config, merge(LEAST, {"evaluation": {"tokenize": name}})).evaluation.tokenize == name
    assert "did you mean 'flores200'? It has none, zh, 13a" in refused(evaluation={"tokenize": "flores20"})


@pytest.mark.parametrize("target", [{}, {"target": "r"}, {"target": None}])
def test_the_first_reference_is_the_target(target):
    test = {"source": "a", "references": ["r", "s"], **target}
    found = parse(Config, merge(LEAST, {"data": {"test": test}})).data.test
    assert (str(found.target), [str(each) for each in found.references]) == ("r", ["s"])
    with_tsv = {"tsv": "a.tsv", "references": ["r"]}
    found = parse(Config, merge(LEAST, {"data": {"test": with_tsv}})).data.test
    assert (found.target, [str(each) for each in found.references]) == (None, ["r"])


def test_an_override_that_is_given_twice_is_refused():
    with pytest.raises(UserError, match="override 'seed': given more than once"):
        override({}, ["seed=1", "training.max_epochs=2", "seed=2"])


class TestSchema:
    """Its keys in an editor: what the package reads is valid, and a typo is not."""

    @pytest.fixture
    def validator(self):
        jsonschema = pytest.importorskip("jsonschema")
        return jsonschema.Draft202012Validator(json_schema(Config))

    def test_the_configurations_of_experiments_are_valid(self, validator, monkeypatch):
        monkeypatch.chdir(ROOT)
        for name in ("ablation", "scan-length"):
            grid = read_experiment(Path(f"experiments/{name}/experiment.yaml"))
            for config in {run.arm: run.config for run in grid.runs}.values():
                assert not list(validator.iter_errors(yaml.safe_load(dump(config))))

    @pytest.mark.parametrize("scorer", ["additive", "my_file.py:Mine", {"name": "additive", "hidden_size": 3}])
    def test_short_forms_are_valid(self, validator, scorer):
        data = {"train": [FILES, FILES | {"weight": 2}], "validation": FILES}
        assert validator.is_valid({"data": data, "model": {"context": {"scorer": scorer}}})
        assert validator.is_valid({"data": data, "model": {"encoder": {"kind": "my_file.py:Mine", "depth": 3}}})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"modle": {}},
            {"model": {"encodr": {}}},
            {"model": {"decoder": {"kind": "luong", "input_feding": False}}},
            {"training": {"max_epochs": 0}},
        ],
    )
    def test_a_mistake_is_marked(self, validator, wrong):
        assert validator.is_valid(LEAST)
        assert not validator.is_valid(LEAST | wrong)

    def test_keys_have_their_meanings(self, validator):
        properties = validator.schema["$defs"]["TrainingConfig"]["properties"]
        assert properties["max_epochs"]["description"].startswith("an upper limit")
