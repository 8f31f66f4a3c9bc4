"""The names of the package: nothing is imported before it is used, and mistakes read as on the command line."""

import doctest
import subprocess
import sys

import pytest
import yaml

import seq2seq_attn as s2s
from seq2seq_attn.api import answers
from seq2seq_attn.api import model as model_file
from seq2seq_attn.config import Config
from seq2seq_attn.strict import load


def test_importing_the_package_imports_nothing_heavy():
    script = """
import sys
import seq2seq_attn as s2s
names = {"train", "load", "compare", "Config", "Experiment", "Model", "Comparison", "UserError", "attention"}
assert names == set(s2s.__all__) <= set(dir(s2s))
assert issubclass(s2s.UserError, Exception)
assert not hasattr(s2s, "tarin")
assert not {"torch", "numpy", "pydantic", "yaml", "rich"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_exported_name_resolves():
    assert s2s.load == s2s.Model.load
    assert s2s.Config is Config
    assert s2s.attention.Attention.__module__.startswith("seq2seq_attn.attention")
    assert [getattr(s2s, name).__name__ for name in s2s.__all__ if name not in ("attention", "load")] == [
        name for name in s2s.__all__ if name not in ("attention", "load")
    ]


@pytest.mark.parametrize("module", [answers, model_file])
def test_the_examples_in_docstrings_are_correct(module, model):
    result = doctest.testmod(module, extraglobs={"model": model})
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("overrides", "typed"),
    [
        ({"training.max_epoch": 3}, "training.max_epoch=3"),
        ({"training": {"max_epochs": "many"}}, "training.max_epochs=many"),
        ({"scorer": "aditive"}, "model.context.scorer=aditive"),
        ({"epochs": 3}, "epochs=3"),
    ],
)
def test_a_wrong_override_reads_as_on_the_command_line(overrides, typed, backwards, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(backwards[1]))
    with pytest.raises(s2s.UserError) as python:
        s2s.train(file, tmp_path / "run", **overrides)
    with pytest.raises(s2s.UserError) as command:
        load(Config, file, [typed])
    assert str(python.value) == str(command.value).replace("command line: ", "override: ")
    assert not (tmp_path / "run").exists()


def test_a_run_is_refused_continued_or_replaced(backwards, model, tmp_path, capfd):
    short = {"training.max_epochs": 1, "training.validate_every": 1}
    first = s2s.train(backwards[1], tmp_path / "run", silent=True, **short)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(s2s.UserError, match="this run exists"):
        s2s.train(first.config, tmp_path / "run", silent=True)
    again = s2s.train(first.config, tmp_path / "run", if_exists="resume", training={"max_epochs": 2})
    assert again.metrics["training"]["epochs"] == 2
    assert "run: epoch 2" in capfd.readouterr().err
    replaced = s2s.train(first.config, tmp_path / "run", if_exists="overwrite", silent=True, scorer="dot", **{
        "model.encoder.hidden_size": 12, "seed": 5,
    })  # fmt: skip
    assert (replaced.config.model.context.scorer.name, replaced.config.seed) == ("dot", 5)


def test_a_model_that_was_trained_is_the_one_that_is_loaded(model):
    loaded = s2s.load(str(model.folder))
    assert loaded.config == model.config
    assert loaded.translate(["a b c"]).sentences == model.translate(["a b c"]).sentences
    with pytest.raises(s2s.UserError, match="not a run folder"):
        s2s.load(model.folder.parent)
