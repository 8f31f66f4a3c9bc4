"""`match_parameters`: arms are widened to the size of the largest; their runs need no special treatment."""

import pytest
import yaml

from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.comparison.match_parameters import match_parameters, parameter_counter, with_decoder_size
from seq2seq_attn.errors import UserError
from seq2seq_attn.report.table import markdown
from seq2seq_attn.runs.cache import Cache
from seq2seq_attn.runs.folder import read_config, read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def count(cache):
    return parameter_counter(cache)


@pytest.fixture
def matched(tmp_path, values, cache):
    """The resolved grid of the toy experiment with other arms."""

    def matched(arms, *overrides, say=lambda _: None):
        path = tmp_path / "matched.yaml"
        path.write_text(yaml.safe_dump(values | {"arms": arms, "baseline": next(iter(arms))}, sort_keys=False))
        return match_parameters(read_experiment(path, overrides), cache, say)

    return matched


def configs(grid):
    return {run.arm: run.config for run in grid.runs}


ARMS = {
    "distracted": {"model": {"context": {"kind": "fixed"}}, "match_parameters": True},
    "nothing": ["model.context.kind=none", "match_parameters=true"],
    "small": {"model": {"context": {"kind": "mean"}}},
    "attention": {"model": {"context": {"kind": "attention"}}},
}


@pytest.mark.parametrize(
    "base",
    [
        [],
        ["model.tie_embeddings=target"],
        ["model.decoder.cell=lstm", "model.layer_norm=true"],
        ["model.encoder.cell=mingru", "model.decoder.cell=sru"],
        ["model.decoder.readout=plain", "model.decoder.kind=luong"],
        ["model.decoder.kind=conditional", "model.decoder.readout_size=7", "model.decoder.hidden_size=300"],
    ],
)
def test_no_other_width_is_closer_to_the_largest_arm(matched, count, base):
    arms = configs(matched(ARMS, *base))
    wanted = count(arms["attention"])
    for arm in ("distracted", "nothing"):
        size = arms[arm].model.decoder.hidden_size
        assert size > arms["attention"].model.decoder.hidden_size
        off, narrower, wider = (abs(count(with_decoder_size(arms[arm], size + d)) - wanted) for d in (0, -1, 1))
        assert off <= min(narrower, wider)
    small, attention = arms["small"], arms["attention"]
    assert small.model.decoder == attention.model.decoder


def test_at_usual_sizes_the_counts_are_within_one_percent(matched, count):
    sizes = "model.embedding_size=256", "model.encoder.hidden_size=256", "model.decoder.hidden_size=512"
    arms = configs(matched(ARMS, *sizes))
    for arm in ("distracted", "nothing"):
        assert count(arms[arm]) == pytest.approx(count(arms["attention"]), rel=0.01)


def test_an_arm_differs_only_by_its_own_change_and_the_width(matched):
    grid = matched(ARMS)
    distracted, small = (configs(grid)[arm].model_dump() for arm in ("distracted", "small"))
    for values in (distracted, small):
        del values["model"]["decoder"]["hidden_size"], values["model"]["context"]["kind"]
    assert distracted == small
    assert [run.config.seed for run in grid.runs] == [1, 2] * 4


def test_an_arm_of_the_same_size_keeps_its_width(matched):
    same = {"twin": {"match_parameters": True}, "attention": {}}
    arms = configs(matched(same))
    assert arms["twin"] == arms["attention"]


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (
            {"large": {"match_parameters": True, "model": {"decoder": {"hidden_size": 31}}}, "attention": {}},
            r"arm 'large' cannot be widened by match_parameters: it has [\d,]+ parameters, .* has [\d,]+;",
        ),
        (
            {"one": {"match_parameters": True}, "two": {"match_parameters": True}},
            "match_parameters is set in every arm",
        ),
        (
            {
                "dot": {
                    "match_parameters": True,
                    "model": {"context": {"scorer": "dot"}, "decoder": {"hidden_size": 12}},
                },
                "attention": {"model": {"decoder": {"hidden_size": 20}}},
            },
            "arm 'dot' cannot be widened by match_parameters: .*Dot needs query_size == key_size",
        ),
        ({"attention": {}, "odd": {"match_parameters": "much"}}, "arm 'odd': match_parameters = 'much'"),
        ({"attention": {}, "odd": {"match_parameter": True}}, r"'match_parameter' \(did you mean 'match_parameters'\?"),
    ],
)
def test_arms_that_cannot_be_matched_are_refused(matched, arms, message):
    with pytest.raises(UserError, match=message) as error:
        matched(arms)
    assert "\n" not in str(error.value)


def test_a_widened_arm_is_trained_resumed_and_shown_like_any_other(tmp_path, values):
    del values["arms"]
    values |= {"arms": {arm: ARMS[arm] for arm in ("distracted", "attention")}, "seeds": [1]}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    grid = read_experiment(tmp_path / "experiment.yaml")
    results = compare(grid, tmp_path / "mine")
    folder = tmp_path / "mine" / "runs" / grid.runs[0].folder

    config = read_config(folder)
    size = config.model.decoder.hidden_size
    wide, attention = results.arms
    assert size > grid.runs[0].config.model.decoder.hidden_size
    assert wide.parameters == TrainedModel.load(folder).parameters() > 0.9 * attention.parameters
    assert (wide.matched_hidden_size, attention.matched_hidden_size) == (size, None)
    assert f"distracted to {size}" in markdown(results)

    model = (folder / "model.safetensors").stat().st_mtime_ns
    assert compare(grid, tmp_path / "mine") == results
    assert (folder / "model.safetensors").stat().st_mtime_ns == model
    longer = config.model_copy(update={"training": config.training.model_copy(update={"max_epochs": 3})})
    train(longer, folder, if_exists="resume")
    assert read_metrics(folder)["training"]["epochs"] == 3
