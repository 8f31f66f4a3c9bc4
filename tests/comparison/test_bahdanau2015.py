"""The arms of experiments/bahdanau2015: exactly what the paper compares."""

from pathlib import Path

import pytest
import torch

from seq2seq_attn.attention import Additive, Attention, FixedContext
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.models.translator import pad
from seq2seq_attn.runs.corpora import learn_codecs
from seq2seq_attn.runs.model import build_translator
from seq2seq_attn.text.corpus import ParallelCorpus

EXPERIMENT = Path(__file__).parents[2] / "experiments/bahdanau2015/experiment.yaml"
VERSES = ParallelCorpus(["In the beginning", "God said"], ["Im Anfang schuf Gott", "Gott sprach"])


@pytest.fixture(scope="module")
def arms():
    torch.manual_seed(4)
    runs = read_experiment(EXPERIMENT).runs
    return {run.arm: (run.config, build_translator(run.config, *learn_codecs(run.config, VERSES))) for run in runs}


def test_the_number_in_an_arm_s_name_is_its_maximum_training_length(arms):
    limits = {arm: config.data.max_training_length for arm, (config, _) in arms.items()}
    assert limits == {"RNNencdec-30": 30, "RNNsearch-30": 30, "RNNencdec-50": 50, "RNNsearch-50": 50}
    (longest,) = {config.data.max_length for config, _ in arms.values()}
    assert longest > 50, "all are tested beyond what they were trained on"


def test_the_name_of_an_arm_is_its_model(arms):
    source = pad([[5, 6, 7, 3]])
    for arm, (config, model) in arms.items():
        context = model.decoder.context
        if arm.startswith("RNNsearch"):
            assert type(context) is Attention
            assert isinstance(context.scorer, Additive)
        else:
            assert type(context) is FixedContext
        assert config.model.encoder.bidirectional == arm.startswith("RNNsearch")
        assert model(source, pad([[4, 5, 3]])).isfinite().all()
