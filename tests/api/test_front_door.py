"""The names of the package: nothing is imported before it is used, and mistakes read as on the command line."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import seq2seq_attn as s2s
from seq2seq_attn import walkthrough
from seq2seq_attn.api import attention_view, scores
from seq2seq_attn.api import model as model_file
from seq2seq_attn.cli import data
from seq2seq_attn.cli.app import app
from seq2seq_attn.config import Config
from seq2seq_attn.runs.warm_start import read_configuration
from seq2seq_attn.strict import read_yaml


def test_importing_the_package_imports_nothing_heavy():
    script = """
import sys
import seq2seq_attn as s2s
assert set(s2s._PLACES) == set(s2s.__all__) <= set(dir(s2s))
assert issubclass(s2s.UserError, Exception)
assert not hasattr(s2s, "tarin")
assert not {"torch", "numpy", "pydantic", "yaml", "rich"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_exported_name_resolves():
    modules = {"attention": "seq2seq_attn.attention", "data": "seq2seq_attn.api.data"}
    for name in s2s.__all__:
        assert getattr(s2s, name).__name__ == modules.get(name, name)
    assert s2s.load == s2s.Model.load
    assert s2s.Config is Config
    assert [getattr(s2s.data, name).__name__ for name in s2s.data.__all__] == s2s.data.__all__


def test_every_command_has_its_function():
    """Commands that take a run are methods of a model, `report` is one of a comparison, `serve` is a process."""
    of_a_model = {"translate", "score", "align", "faithfulness", "export", "average", "push"}
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names - of_a_model - {"report", "serve"} <= set(s2s.__all__)
    assert all(callable(getattr(s2s.Model, name)) for name in of_a_model)
    of_data = {command.name or command.callback.__name__ for command in data.app.registered_commands}
    assert of_data - {"list"} | {"corpora"} <= set(s2s.data.__all__)


def test_a_name_stays_a_function_when_its_room_has_been_imported():
    """An imported module becomes an attribute of the package, in the place of a function of the same name."""
    rooms = {module.name for module in pkgutil.iter_modules(s2s.__path__)} - {"__main__"}
    for room in rooms:
        importlib.import_module(f"seq2seq_attn.{room}")
    assert all(callable(getattr(s2s, name)) for name in set(s2s.__all__) - {"attention", "data"})
    assert s2s.data is importlib.import_module("seq2seq_attn.api.data")
    assert s2s.attention.Attention


@pytest.mark.parametrize(
    "module", [attention_view, model_file, scores, s2s.data, walkthrough], ids=lambda module: module.__name__
)
def test_the_examples_in_docstrings_are_correct(module, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for language, verb in {"en": "runs", "de": "läuft"}.items():
        Path(f"all.{language}").write_text("".join(f"{name} {verb} .\n" for name in "ABCDEFGHIJKL"), encoding="utf-8")
    result = doctest.testmod(module, extraglobs={"model": model, "s2s": s2s})
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
        read_configuration(read_yaml(file), [typed], file)
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
