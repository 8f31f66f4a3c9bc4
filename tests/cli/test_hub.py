"""Runs on the hub, here a folder that stands in for it behind the functions of `huggingface_hub`."""

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import seq2seq_attn as s2s
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import damaged


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The folder of the hub, which has OWNER/NAME as a folder, and whether each is private."""
    place, private = tmp_path / "hub", {}

    class HfApi:
        def create_repo(self, repo_id, *, private, exist_ok):
            assert exist_ok
            (place / repo_id).mkdir(parents=True, exist_ok=True)
            hub.private[repo_id] = private
            return f"https://hub/{repo_id}"

        def upload_folder(self, *, repo_id, folder_path, commit_message, allow_patterns):
            shutil.copytree(folder_path, place / repo_id, dirs_exist_ok=True, copy_function=shutil.copyfile)

    def snapshot_download(repo_id, revision=None):
        if not (place / repo_id).is_dir():
            raise FileNotFoundError(f"404: no repository\n{repo_id}")
        assert revision in (None, "v1")
        return str(place / repo_id)

    hub = SimpleNamespace(place=place, private=private)
    library = SimpleNamespace(HfApi=HfApi, snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    return hub


@pytest.fixture
def run(train_once, grid, tmp_path):
    train_once(grid.runs[2].config, tmp_path / "run")
    return tmp_path / "run"


def test_what_is_pushed_is_loaded_and_translates_as_before(hub, run):
    model = s2s.load(run)
    assert model.push("me/toy", private=True) == "https://hub/me/toy"
    assert hub.private == {"me/toy": True}
    for name in ("hf:me/toy", Path("hf:me/toy"), "hf:me/toy@v1"):
        assert s2s.load(name).translate(["a b c"]).sentences == model.translate(["a b c"]).sentences
    pushed = hub.place / "me/toy"
    assert not (pushed / "checkpoints").exists()
    assert not damaged(pushed)


def test_the_card_says_what_the_model_is_and_how_to_use_it(hub, run):
    s2s.load(run).push("me/toy")
    card = (hub.place / "me/toy/README.md").read_text()
    about = yaml.safe_load(card.split("---")[1])
    assert about["library_name"] == "seq2seq_attn"
    assert about["language"] == ["en"]
    code = re.search("```python\n(.*)```", card, re.DOTALL)[1]
    exec(code, {})


def test_a_damaged_file_is_refused_on_both_ways(hub, run):
    s2s.load(run).push("me/toy")
    (hub.place / "me/toy/config.yaml").write_text("seed: 2\n")
    with pytest.raises(UserError, match=r"config\.yaml: damaged"):
        s2s.load("hf:me/toy")
    model = s2s.load(run)
    (run / "provenance.json").write_text("{}")
    with pytest.raises(UserError, match=r"provenance\.json: damaged"):
        model.push("me/toy")


@pytest.mark.parametrize("folder", ["plugins", "elsewhere"])
def test_code_of_a_run_is_not_executed(hub, run, folder):
    s2s.load(run).push("me/toy")
    (hub.place / "me/toy" / folder).mkdir()
    (hub.place / "me/toy" / folder / "mine.py").write_text("raise SystemExit('executed')")
    with pytest.raises(UserError, match="code of its own"):
        s2s.load("hf:me/toy")


def test_what_the_hub_says_is_one_line(hub, program):
    answer = program("translate", "hf:me/nothing")
    assert answer.code == 2
    assert "hf:me/nothing: cannot be downloaded: 404: no repository me/nothing" in answer.err
    assert answer.err.count("\n") == 1


def test_without_the_library_the_way_to_install_it_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="huggingface_hub, which is not installed"):
        s2s.load("hf:me/toy")


def test_the_command_prints_the_address(hub, run, program):
    answer = program("push", run, "me/toy")
    assert (answer.code, answer.out) == (0, "https://hub/me/toy\n")
