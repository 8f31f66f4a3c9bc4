"""`--plugin`: a user's own scorer, from a file."""

import json
import shutil

import pytest
import yaml

from seq2seq_attn.runs.plugin import loaded_plugins

SCORER = '''
import torch
from seq2seq_attn.attention import Scorer


class Distance(Scorer):
    """-scale |q - k|: near is good."""

    equation = "-s |q - k|"
    source = "this test"
    needs_equal_sizes = True

    def __init__(self, query_size: int, key_size: int, scale: float = 2.0) -> None:
        super().__init__(query_size, key_size)
        self.scale = scale

    def prepare(self, keys):
        return keys

    def forward(self, query, prepared):
        return -self.scale * torch.cdist(query, prepared)
'''


@pytest.fixture
def plugin(tmp_path, forget_parts, monkeypatch):
    """Writes a plugin; what it registers is forgotten after the test."""
    monkeypatch.setattr("seq2seq_attn.runs.plugin._loaded", [])

    def write(text, name="mine.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_the_listing_has_the_scorer_of_a_file(program, plugin):
    file = plugin(SCORER)
    listed = {each["name"]: each for each in json.loads(program("scorers", "--json", "--plugin", file).out)}
    assert (listed["distance"]["equation"], listed["distance"]["options"]) == ("-s |q - k|", {"scale": 2.0})
    assert {"additive", "dot"} <= set(listed)


def test_a_run_can_be_trained_with_it_and_used_with_it_and_not_without(
    program, refused, plugin, forget_parts, toy, tmp_path
):
    file, run = plugin(SCORER), tmp_path / "run"
    trained = program(
        "train", toy / "toy.yaml", "--plugin", file, "--output", run, "training.max_epochs=1",
        "model.context.scorer=distance", "model.decoder.hidden_size=10",
    )  # fmt: skip
    assert trained.code == 0
    assert loaded_plugins() == (file,)
    pairs = toy / "test.src", toy / "test.tgt"
    for command in (
        ["translate", run, toy / "test.src"], ["evaluate", run], ["align", run, *pairs], ["score", run, *pairs],
    ):  # fmt: skip
        assert program(*command, "--plugin", file).code == 0
    forget_parts()
    message = refused("translate", run, toy / "test.src")
    assert f"{run / 'config.yaml'}:" in message
    assert "there is no scorer 'distance'" in message
    assert "with --plugin FILE" in message


@pytest.mark.usefixtures("no_figures")
def test_a_comparison_of_it_is_recomputed_with_it(program, refused, plugin, forget_parts, toy, tmp_path, monkeypatch):
    file = plugin(SCORER)
    arms = {"distance": ["model.context.scorer=distance", "model.decoder.hidden_size=10"]}
    values = {"name": "mine", "baseline": "distance", "arms": arms, "base": str(toy / "toy.yaml")}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
    folder = tmp_path / "mine"
    made = program("compare", tmp_path / "mine.yaml", "--plugin", file, "--output", folder, "training.max_epochs=1")
    assert made.code == 0
    forget_parts()  # as in another process
    monkeypatch.setattr("seq2seq_attn.attention.user_code._files", {})
    assert "with --plugin FILE" in refused("report", folder, "--recompute")
    assert program("report", folder, "--recompute", "--plugin", file).code == 0


def test_a_class_named_by_its_file_needs_no_option(program, refused, tmp_path, toy):
    file, run = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(SCORER)
    trained = program(
        "train", toy / "toy.yaml", "--output", run, "training.max_epochs=1",
        f"model.context.scorer={file}:Distance", "model.context.scorer.scale=3", "model.decoder.hidden_size=10",
    )  # fmt: skip
    assert trained.code == 0, trained.err
    file.unlink()
    assert program("translate", run, toy / "test.src").code == 0
    message = refused("train", toy / "toy.yaml", f"model.context.scorer={file}:Distance")
    assert f"{file}: no such Python file" in message
    (run / "plugins" / "mine.py").unlink()
    assert "plugins/mine.py: no such file" in refused("translate", run, toy / "test.src")


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("ValueError('a scale above 0\\nis wanted')", "model.context.scorer: a scale above 0 is wanted ({}"),
        ("RuntimeError('no')", "model.context.scorer: RuntimeError: no ({}"),
        ("AssertionError()", "model.context.scorer: AssertionError: ({}"),
    ],
)
def test_what_its_constructor_raises_names_the_part_and_its_options(refused, tmp_path, toy, raised, words):
    file = tmp_path / "mine.py"
    file.write_text(SCORER.replace("self.scale = scale", f"raise {raised}"))
    message = refused(
        "train", toy / "toy.yaml", "--output", tmp_path / "run", "model.decoder.hidden_size=10",
        f"model.context.scorer={file}:Distance", "model.context.scorer.scale=-1",
    )  # fmt: skip
    assert words.format(f"{file}:Distance with scale=-1.0)") in message


def test_an_option_without_a_declared_type_takes_what_it_is_given(program, plugin, toy, tmp_path):
    file = plugin(SCORER.replace("scale: float = 2.0", "scale=2.0"))
    trained = program(
        "train", toy / "toy.yaml", "--plugin", file, "--output", tmp_path / "run", "training.max_epochs=1",
        "model.context.scorer=distance", "model.context.scorer.scale=3", "model.decoder.hidden_size=10",
    )  # fmt: skip
    assert trained.code == 0
    assert "scale: 3" in (tmp_path / "run/config.yaml").read_text()


def test_sizes_that_its_scorer_cannot_take_are_refused(refused, plugin, toy, tmp_path):
    message = refused(
        "train",
        toy / "toy.yaml",
        "--plugin",
        plugin(SCORER),
        "--output",
        tmp_path / "run",
        "model.context.scorer=distance",
    )
    assert "Distance needs query_size == key_size, got 11 and 10" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\nx = 1 +\n", ["mine.py, line 2: SyntaxError"]),
        ("import math\n\nmath.sqrt(-1)\n", ["mine.py, line 3: ValueError: "]),
        ("import nowhere_at_all\n", ["mine.py, line 1: ModuleNotFoundError", "nowhere_at_all"]),
        ("x = 1\n", ["mine.py: defines no scorer"]),
        ("from seq2seq_attn.attention import Additive\n", ["mine.py: defines no scorer"]),
        (SCORER.replace("class Distance", "class Dot"), ["mine.py, line 6", "'dot' exists twice"]),
    ],
)
def test_a_file_that_is_no_plugin_is_refused_with_its_line(refused, plugin, text, words):
    message = refused("scorers", "--plugin", plugin(text))
    for word in words:
        assert word in message


def test_a_missing_plugin_is_named(refused, tmp_path):
    assert f"{tmp_path / 'nowhere.py'}: no such Python file" in refused("scorers", "--plugin", tmp_path / "nowhere.py")


@pytest.mark.usefixtures("plugin")
def test_a_file_that_no_configuration_names_is_not_executed(program, trained, tmp_path):
    """Neither in the folder of a run, nor in the current one."""
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "plugins").mkdir()
    for file in run / "plugins" / "mine.py", run / "mine.py", run.parent / "mine.py":
        file.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n" + SCORER)
    assert program("translate", run, stdin=b"a b\n").code == 0
    assert not (tmp_path / "executed").exists()
    program("scorers", "--plugin", run / "mine.py")
    assert (tmp_path / "executed").exists()
