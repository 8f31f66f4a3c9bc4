"""The arms of experiments/luong2015: each is the model of its row in the paper."""

from pathlib import Path

import pytest

from seq2seq_attn.attention import Attention, Dot, General, LocalM, LocalP, Location, NoContext
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.models.recurrent.encoder import ReversedEncoder
from seq2seq_attn.ops.dropout import Dropout

EXPERIMENT = Path(__file__).parents[2] / "experiments/luong2015/experiment.yaml"
READERS = {
    "global (location), no feed": (Location, None),
    "global (location)": (Location, None),
    "global (dot)": (Dot, None),
    "global (general)": (General, None),
    "local-m (general)": (General, LocalM),
    "local-p (general)": (General, LocalP),
}


@pytest.fixture(scope="module")
def models():
    return {run.arm: run.config.model.build(11, 13, joint=False) for run in read_experiment(EXPERIMENT).runs}


def test_each_step_adds_one_thing_to_the_previous_one(models):
    def has(model):
        drops = any(module.p for module in model.modules() if isinstance(module, Dropout))
        attends = type(model.decoder.context) is Attention
        return isinstance(model.encoder, ReversedEncoder), drops, attends, model.decoder.from_feed is not None

    steps = ["base", "base, reverse", "base, reverse, dropout", "global (location), no feed", "global (location)"]
    for number, arm in enumerate(steps):
        assert has(models[arm]) == (True,) * number + (False,) * (4 - number)
    assert {has(model) for arm, model in models.items() if arm not in steps} == {(True,) * 4}


def test_the_name_of_an_arm_is_its_attention(models):
    for arm, model in models.items():
        context = model.decoder.context
        if arm in READERS:
            scorer, window = READERS[arm]
            assert type(context.scorer) is scorer
            assert type(context.window) is (window or type(None))
        else:
            assert type(context) is NoContext
