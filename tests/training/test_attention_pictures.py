"""Pictures of the attention on the same validation pairs after each validation, for the programs that show curves."""

import pickle
import sys

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from pydantic import ValidationError
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_loggers import Stub

import seq2seq_attn as s2s
from seq2seq_attn.api.pictures import draw_attention
from seq2seq_attn.comparison.schedule import complete
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.corpora import read_pairs
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import override, parse
from seq2seq_attn.training.config import TrainingConfig


def changed(config, *changes):
    return parse(Config, override(config.model_dump(mode="json"), ["data.test=null", *changes]))


@pytest.fixture
def attending(grid):
    return grid.runs[2].config


def test_tensorboard_gets_a_picture_of_each_pair_after_each_validation_and_the_weights_are_the_same(
    attending, tmp_path
):
    said = []
    attending = changed(attending, "model.dropout.state=0.3", "training.ema_decay=0.9")  # noise that is drawn
    drawn = train(
        changed(attending, "training.attention_pictures=2"), tmp_path / "drawn", draw=draw_attention, say=said.append
    )
    plain = train(changed(attending), tmp_path / "plain", draw=draw_attention)
    for name, weight in plain.translator.state_dict().items():
        assert torch.equal(drawn.translator.state_dict()[name], weight), name
    shown = EventAccumulator(str(tmp_path / "drawn/log"), size_guidance={"images": 0}).Reload()
    names = shown.Tags()["images"]
    pairs = read_pairs(attending.data.validation)
    assert names == ["attention/1", f"attention/{len(pairs) // 2 + 1}"]
    steps = [event.step for event in shown.Scalars("validation_loss")]
    assert len(steps) > 1
    for name in names:
        assert [image.step for image in shown.Images(name)] == steps
        assert all(image.width > 50 and image.height > 50 for image in shown.Images(name))
    assert EventAccumulator(str(tmp_path / "plain/log")).Reload().Tags()["images"] == []
    assert not any("attention_pictures" in each for each in said)


def test_a_picture_is_that_of_the_model_for_the_pair(attending, tmp_path, train_once):
    train_once(attending, tmp_path / "run")
    pairs = read_pairs(attending.data.validation)
    model = s2s.load(tmp_path / "run")
    one, other = draw_attention(TrainedModel.load(tmp_path / "run"), pairs.source[:2], pairs.target[:2])
    path = model.attention(pairs.source[0], pairs.target[0]).save(tmp_path / "one.png")
    assert np.array_equal(one, np.rint(255 * imread(path)[..., :3]).astype(np.uint8))
    assert one.dtype == np.uint8
    assert one.shape != other.shape or not np.array_equal(one, other)


@pytest.mark.parametrize("name", ["wandb", "trackio", "mlflow"])
def test_the_other_programs_get_them_by_step(attending, tmp_path, monkeypatch, name):
    module = Stub(name)
    monkeypatch.setitem(sys.modules, name, module)
    calls = []

    def draw(model, sources, targets):
        calls.append((list(sources), list(targets)))
        return [np.full((2, 3, 3), len(calls), np.uint8) for _ in sources]

    changes = "training.attention_pictures=1", f"training.loggers=[{name}]", "training.max_epochs=2"
    train(changed(attending, *changes), tmp_path / "run", draw=draw)
    pairs = read_pairs(attending.data.validation)
    assert calls == [([pairs.source[0]], [pairs.target[0]])] * 2
    if name == "mlflow":
        validated = [o["step"] for (values,), o in module.of("log_metrics") if "validation_loss" in values]
        found = [(o["artifact_file"], int(picture[0, 0, 0])) for (picture,), o in module.of("log_image")]
        assert found == [(f"attention/1/step-{step}.png", n) for n, step in enumerate(validated, start=1)]
    else:
        assert [int(picture[0, 0, 0]) for (picture,), _ in module.of("Image")] == [1, 2]
        steps = [options["step"] for (values,), options in module.of("log") if "attention/1" in values]
        assert steps == [options["step"] for (values,), options in module.of("log") if "validation_loss" in values]


def test_the_arms_of_a_comparison_are_drawn_and_one_without_attention_says_that_it_has_none(
    grid, tmp_path, monkeypatch
):
    given = []

    def stop(grid, *_, **__):
        given.extend(pickle.loads(pickle.dumps(grid.runs)))  # as workers get them
        raise UserError("stop")

    monkeypatch.setattr("seq2seq_attn.comparison.compare.compare", stop)
    with pytest.raises(UserError, match="stop"):
        s2s.compare(grid, tmp_path / "toy")
    said = []
    for run in (given[0], given[2]):
        config = changed(run.config, "training.attention_pictures=1", "training.max_epochs=1")
        complete(run._replace(config=config, runs=tmp_path), said.append, None)
        log = str(tmp_path / run.folder / "log")
        assert EventAccumulator(log).Reload().Tags()["images"] == ["attention/1"] * (run.arm == "attention")
    without = [each for each in said if "attention_pictures" in each]
    assert without == ["distracted, seed 1: training.attention_pictures: this model has no attention weights to draw"]


def test_what_cannot_be_shown_is_refused(attending, tmp_path, monkeypatch):
    with pytest.raises(ValidationError, match="attention_pictures=3 needs a program"):
        TrainingConfig(attention_pictures=3, loggers=[])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="tensorboard is not installed"):
        train(changed(attending, "training.attention_pictures=1"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
