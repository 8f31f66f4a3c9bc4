"""A scorer named by its file: the run keeps a copy, and does not need the original."""

import shutil

import pytest
import torch
import yaml

from seq2seq_attn.comparison.launchers.local import Local
from seq2seq_attn.comparison.schedule import complete_all
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.folder import read_config, read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import override, parse

SCORER = """
import torch
from torch import nn
from seq2seq_attn.attention import Scorer
from helper_of_mine import scaled


class Mine(Scorer):
    def __init__(self, query_size: int, key_size: int, rank: int = 2) -> None:
        super().__init__(query_size, key_size)
        self.query_layer, self.key_layer = nn.Linear(query_size, rank), nn.Linear(key_size, rank)

    def prepare(self, keys):
        return self.key_layer(keys)

    def forward(self, query, prepared):
        return scaled(self.query_layer(query) @ prepared.transpose(1, 2))
"""


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "mine.py").write_text(SCORER)
    (folder / "helper_of_mine.py").write_text("def scaled(scores):\n    return scores / 2\n")
    return folder


@pytest.fixture
def values(grid):
    return override(grid.runs[2].config.model_dump(mode="json"), ["training.max_epochs=1"])


@pytest.fixture
def config(values, code):
    return configured(values, code)


def configured(values, code, *overrides):
    changed = override(values, overrides)
    context = {"scorer": {"name": f"{code}/mine.py:Mine", "rank": 3}}
    return parse(Config, changed | {"model": changed["model"] | {"context": context}})


@pytest.fixture
def trained(config, tmp_path):
    return train(config, tmp_path / "run")


def test_a_run_keeps_the_file_and_its_imports_and_names_the_copy(trained, code, tmp_path):
    run = tmp_path / "run"
    assert (run / "plugins/mine.py").read_text() == SCORER
    assert (run / "plugins/helper_of_mine.py").read_bytes() == (code / "helper_of_mine.py").read_bytes()
    scorer = yaml.safe_load((run / "config.yaml").read_text())["model"]["context"]["scorer"]
    assert scorer == {"name": "plugins/mine.py:Mine", "rank": 3}


def test_a_moved_run_works_without_the_original_from_any_working_folder(trained, code, tmp_path, monkeypatch):
    shutil.rmtree(code)
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    again = TrainedModel.load(moved.relative_to(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert again.translate(["a b c", "e d"]) == trained.translate(["a b c", "e d"])
    assert again.config.model.context.scorer.part.__name__ == "Mine"


def test_two_runs_with_different_files_of_the_same_name_work_together(trained, values, code, tmp_path):
    (code / "helper_of_mine.py").write_text("def scaled(scores):\n    return scores - 100\n")
    other = train(configured(values, code), tmp_path / "other")
    runs = [TrainedModel.load(tmp_path / name).config.model.context.scorer for name in ("run", "other")]
    for scorer, offset in zip(runs, (False, True), strict=True):
        made, query = scorer(2, 2), torch.zeros(1, 1, 2)
        assert (made(query, made.prepare(query)).item() < -50) == offset
    assert other.config.model.context.scorer.name == f"{code}/mine.py:Mine"


def test_resuming_accepts_the_same_file_and_refuses_a_changed_one(trained, values, code, tmp_path):
    run = tmp_path / "run"
    train(configured(values, code, "training.max_epochs=2"), run, if_exists="resume")
    assert read_metrics(run)["training"]["epochs"] == 2
    train(read_config(run), run, if_exists="resume")  # its own configuration, with its own file
    moved = code.rename(tmp_path / "elsewhere")
    train(configured(values, moved, "training.max_epochs=2"), run, if_exists="resume")
    (moved / "helper_of_mine.py").write_text("def scaled(scores):\n    return scores / 3\n")
    with pytest.raises(
        UserError, match=r"plugins/helper_of_mine\.py: differs from the helper_of_mine\.py that is used now"
    ):
        train(configured(values, moved), run, if_exists="resume")


def test_a_run_can_be_replaced_from_its_own_file_without_leftovers(trained, values, tmp_path):
    run = tmp_path / "run"
    train(read_config(run), run, if_exists="overwrite")
    assert (run / "plugins/mine.py").read_text() == SCORER
    train(parse(Config, values), run, if_exists="overwrite")
    assert not (run / "plugins").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), r"plugins/mine\.py: no such file"),
        (lambda path: path.write_text(f"{SCORER}\n"), r"plugins/mine\.py: damaged or edited"),
        (lambda path: (path.parent / "helper_of_mine.py").write_text(""), r"helper_of_mine\.py: damaged or edited"),
    ],
)
def test_a_missing_or_changed_file_is_named(trained, tmp_path, spoil, message):
    spoil(tmp_path / "run/plugins/mine.py")
    with pytest.raises(UserError, match=message) as error:
        TrainedModel.load(tmp_path / "run")
    assert "\n" not in str(error.value)


def test_without_a_line_in_the_manifest_a_changed_file_is_used_or_refused_with_its_line(trained, tmp_path):
    plugins = tmp_path / "run/plugins"
    sums = tmp_path / "run/SHA256SUMS"
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if "mine.py" not in line))
    (plugins / "mine.py").write_text(f"# Changed\n{SCORER}")
    TrainedModel.load(tmp_path / "run")
    (plugins / "mine.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=r"config\.yaml:\d+: .*plugins/mine\.py, line 1: ZeroDivisionError"):
        TrainedModel.load(tmp_path / "run")


def test_a_file_that_cannot_be_copied_completely_is_refused_before_training(values, code, tmp_path):
    (code / "helper_of_mine.py").unlink()
    (code / "helper_of_mine").mkdir()
    (code / "helper_of_mine/__init__.py").write_text("def scaled(scores):\n    return scores / 2\n")
    with pytest.raises(UserError, match="imports the package 'helper_of_mine' from its folder"):
        train(configured(values, code), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    other = tmp_path / "other"  # whose module has the name of that package
    other.mkdir()
    (other / "mine.py").write_text(SCORER)
    (other / "helper_of_mine.py").write_text("def scaled(scores):\n    return scores / 3\n")
    train(configured(values, other), tmp_path / "run")
    assert (tmp_path / "run/plugins/helper_of_mine.py").read_bytes() == (other / "helper_of_mine.py").read_bytes()


@pytest.mark.slow
def test_worker_processes_load_the_file_again(grid, code, tmp_path, monkeypatch):
    monkeypatch.chdir(code)  # named relative to the working folder
    runs = [
        run._replace(config=configured(override(run.config.model_dump(mode="json"), ["training.max_epochs=1"]), "."))
        for run in grid.placed(tmp_path / "runs").runs[2:4]
    ]
    complete_all(runs, "resume", Local(2), say=lambda _: None)
    for run in runs:
        assert TrainedModel.load(run.place).config.model.context.scorer.rank == 3
