"""`average`: the mean of the weights of the last epochs, and the run that holds it."""

import json

import pytest
import safetensors.torch
import torch

import seq2seq_attn as s2s
import seq2seq_attn.runs.average as average_module
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import record
from seq2seq_attn.runs.average import average
from seq2seq_attn.runs.folder import check_files, read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.saved import mean_of_weights, weights_content
from seq2seq_attn.strict import parse
from seq2seq_attn.training import LAST
from seq2seq_attn.training.checkpoints import kept_epochs


@pytest.fixture
def keeping(grid, train_once, tmp_path):
    """A run of four epochs that keeps three."""
    train_once(changed(grid.runs[2].config), tmp_path / "run")
    return tmp_path / "run"


def changed(config, **training):
    values = config.model_dump(mode="json")
    training = {"max_epochs": 4, "patience": None, "keep_epochs": 3, "ema_decay": 0.9} | training
    return parse(Config, values | {"training": values["training"] | training})


def test_the_mean_of_files_worked_by_hand(tmp_path):
    for name, weights, count in (("a", [1.0, 2.0], 5), ("b", [4.0, 0.0], 7), ("c", [4.0, 1.0], 8)):
        tensors = {"w": torch.tensor(weights), "half": torch.tensor(weights).half(), "count": torch.tensor(count)}
        (tmp_path / name).write_bytes(safetensors.torch.save(tensors))
    found = safetensors.torch.load(mean_of_weights([tmp_path / "a", tmp_path / "b", tmp_path / "c"]))
    assert found["w"].tolist() == [3.0, 1.0]
    assert found["half"].tolist() == [3.0, 1.0]
    assert found["half"].dtype == torch.float16
    assert found["count"].item() == 8  # has no mean


def test_a_run_keeps_the_trained_weights_of_its_last_epochs(keeping):
    kept = kept_epochs(keeping)
    assert list(kept) == [2, 3, 4]
    assert check_files(keeping) == []
    last = safetensors.torch.load_file(keeping / kept[4])
    checkpoint = safetensors.torch.load_file(keeping / LAST)
    for name, weights in last.items():
        torch.testing.assert_close(weights, checkpoint[f"weights.{name}"], rtol=0, atol=0)


def test_an_interrupted_training_keeps_the_same_epochs(keeping, tmp_path):
    config = s2s.load(keeping).config
    train(changed(config, max_epochs=3), tmp_path / "again", bar=None)
    train(config, tmp_path / "again", if_exists="resume", bar=None)
    assert kept_epochs(tmp_path / "again") == kept_epochs(keeping)
    for name in kept_epochs(keeping).values():
        assert (tmp_path / "again" / name).read_bytes() == (keeping / name).read_bytes()


def test_a_training_that_goes_on_keeps_its_last_epochs(keeping):
    config = s2s.load(keeping).config
    train(changed(config, max_epochs=6), keeping, if_exists="resume", bar=None)
    assert list(kept_epochs(keeping)) == [4, 5, 6]
    assert check_files(keeping) == []


def test_an_interrupted_average_is_no_finished_run(keeping, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(average_module, "validation_score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        average(keeping, tmp_path / "average")
    assert s2s.verify(tmp_path / "average").is_wrong
    assert read_metrics(tmp_path / "average") == {}
    monkeypatch.undo()
    average(keeping, tmp_path / "average", overwrite=True)
    assert not s2s.verify(tmp_path / "average").is_wrong


def test_weights_of_an_epoch_that_no_checkpoint_contains_are_left_out(keeping, tmp_path):
    """As after a process that ended between the two."""
    (keeping / "checkpoints/epoch-5.safetensors").write_bytes(b"unfinished")
    assert average(keeping, tmp_path / "average").epochs == [2, 3, 4]


@pytest.mark.parametrize(("last", "epochs"), [(None, [2, 3, 4]), (2, [3, 4]), (1, [4])])
def test_an_averaged_run_has_the_mean_and_is_a_run_like_any_other(keeping, tmp_path, last, epochs):
    made = average(keeping, tmp_path / "average", last)
    assert made.epochs == epochs
    files = [safetensors.torch.load_file(keeping / kept_epochs(keeping)[epoch]) for epoch in epochs]
    model = TrainedModel.load(tmp_path / "average")
    weights = safetensors.torch.load(weights_content(model.translator))
    assert weights.keys() == files[0].keys()
    for name, found in weights.items():
        torch.testing.assert_close(found, torch.stack([each[name] for each in files]).mean(dim=0))
    metrics = read_metrics(tmp_path / "average")
    assert metrics["average"] == {"run": str(keeping), "epochs": epochs, "validation_score": made.validation_score}
    assert metrics["training"] == read_metrics(keeping)["training"]
    assert not s2s.verify(tmp_path / "average").is_wrong
    scores = s2s.load(tmp_path / "average").evaluate()
    assert scores["bleu"]["value"] >= 0
    assert "test" in read_metrics(tmp_path / "average")
    assert f"mean of {len(epochs)} epochs" in repr(s2s.load(tmp_path / "average"))


def test_the_validation_score_is_that_of_greedy_translations(keeping, tmp_path):
    made = average(keeping, tmp_path / "average")
    model, data = s2s.load(tmp_path / "average"), s2s.load(keeping).config.data.validation
    found = model.translate(data.source.read_text().splitlines(), beam_size=1).sentences
    (tmp_path / "found").write_text("".join(f"{line}\n" for line in found))
    scores = s2s.evaluate(tmp_path / "found", data.target, tokenize=model.config.evaluation.tokenize)
    assert made.validation_score == pytest.approx(scores["bleu"]["value"])


def test_a_plugin_of_the_run_belongs_to_its_average(keeping, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from seq2seq_attn.attention import Additive\n\n\nclass Mine(Additive):\n    pass\n"
    )
    values = s2s.load(keeping).config.model_dump(mode="json")
    values["model"]["context"]["scorer"] = {"name": f"{tmp_path}/mine.py:Mine"}
    train(changed(parse(Config, values), max_epochs=2, keep_epochs=2), tmp_path / "mine", bar=None)
    average(tmp_path / "mine", tmp_path / "average")
    (tmp_path / "mine.py").unlink()
    (tmp_path / "mine/plugins/mine.py").unlink()
    assert type(TrainedModel.load(tmp_path / "average").translator.contexts_that_read()[0].scorer).__name__ == "Mine"


def test_what_cannot_be_averaged_is_refused_and_nothing_changes(keeping, tmp_path):
    output = tmp_path / "average"
    with pytest.raises(UserError, match=r"keeps the weights of 3 of its epochs; train with training\.keep_epochs=4"):
        average(keeping, output, 4)
    with pytest.raises(UserError, match=r"keeps the weights of its best epoch alone; .*keep_epochs=5"):
        average(s2s.load("demo").folder, output)
    with pytest.raises(UserError, match="last=0: give the number of epochs to average, at least 1"):
        average(keeping, output, 0)
    with pytest.raises(UserError, match="is the run itself"):
        average(keeping, keeping, overwrite=True)
    assert not output.exists()
    average(keeping, output, 1)
    before = (output / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="exists; name another folder, or replace the run in it with --overwrite"):
        average(keeping, output)
    assert (output / "model.safetensors").read_bytes() == before
    average(keeping, output, overwrite=True)
    assert (output / "model.safetensors").read_bytes() != before
    (output / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match=r"mine\.txt: was not written by the run"):
        average(keeping, output, overwrite=True)
    config = s2s.load(keeping).config
    with pytest.raises(UserError, match=r"this run has ended and checkpoints/last\.safetensors is missing"):
        train(config, output, if_exists="resume")
    damaged = keeping / kept_epochs(keeping)[2]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match=r"epoch-2\.safetensors: damaged or edited"):
        average(keeping, tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_a_run_that_has_not_ended_is_refused(keeping, tmp_path):
    folder = tmp_path / "begun"
    folder.mkdir()
    (folder / "config.yaml").write_bytes((keeping / "config.yaml").read_bytes())
    (folder / "metrics.json").write_text(json.dumps({}))
    record(folder, ["config.yaml", "metrics.json"])
    with pytest.raises(UserError, match="training has not ended; continue it with train --resume"):
        average(folder, tmp_path / "average")
