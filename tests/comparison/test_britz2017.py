"""The arms of experiments/britz2017: each changes only what its name says, at a quarter of the paper's size."""

from pathlib import Path

import pytest

from seq2seq_attn.comparison.experiment import read_experiment

EXPERIMENT = Path(__file__).parents[2] / "experiments/britz2017/experiment.yaml"
CHANGES = {
    "base": set(),
    "Embedding-128": {"embedding_size"},
    "LSTM": {"encoder.cell", "decoder.cell"},
    "Vanilla-Dec": {"decoder.cell"},
    "Enc-4": {"encoder.layers"},
    "Uni-1": {"encoder.bidirectional"},
    "Mul-512": {"context.scorer.name"},
    "Mul-1024": {"context.scorer.name", "context.scorer.hidden_size"},
    "None-State": {"decoder.kind", "decoder.input_feeding", "context.kind"},
    "None-Input": {"decoder.kind", "decoder.input_feeding", "context.kind"},
}


@pytest.fixture(scope="module")
def configurations():
    return {run.arm: run.config for run in read_experiment(EXPERIMENT).runs}


def flat(values, above=""):
    found = {}
    for key, value in values.items():
        found |= flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return found


def test_an_arm_changes_only_what_its_name_says(configurations):
    models = {arm: flat(config.model.model_dump()) for arm, config in configurations.items()}
    base = models["base"]
    assert {arm: {key for key in base if model.get(key) != base[key]} for arm, model in models.items()} == CHANGES
    others = {config.model_copy(update={"model": None}).model_dump_json() for config in configurations.values()}
    assert len(others) == 1


def test_sizes_are_a_quarter_of_those_in_the_paper(configurations):
    models = {arm: config.model.build(11, 13, joint=False) for arm, config in configurations.items()}
    for arm in ("base", "Mul-512", "Mul-1024"):
        size = int(arm.partition("-")[2] or 512) // 4
        scorer = models[arm].decoder.context.scorer
        assert {scorer.query_layer.out_features, scorer.key_layer.out_features} == {size}
    assert models["Embedding-128"].source_embedding.table.embedding_dim == 128 // 4
    assert models["base"].encoder.state_size == 2 * 512 // 4
