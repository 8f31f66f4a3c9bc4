"""The provenance recorded with a result is correct."""

import configparser
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import seq2seq_attn
from seq2seq_attn.analysis.scoring import evaluate
from seq2seq_attn.comparison.evidence import read_run
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import provenance
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.provenance import PACKAGES, PROVENANCE, code_digest, commit, hardware, read_sessions
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import parse


@pytest.mark.usefixtures("fused")
def test_the_recorded_hardware_is_what_the_run_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "the GPU")
    assert hardware("auto") == hardware("cuda") == f"the GPU; torch {torch.__version__}"
    assert "the GPU" not in hardware("cpu")
    assert ", 1 thread of " in hardware("cpu", threads=1)
    assert ", 3 threads of " in hardware("cpu", threads=3)
    assert f", {torch.get_num_threads()} thread" in hardware("cpu")
    assert " compiled kernels" in hardware("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert hardware("auto") == hardware("cpu")


def test_the_processor_has_its_family_and_model_because_several_generations_share_a_name(monkeypatch):
    one = "processor\t: {}\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: "\n".join(one.format(core) for core in range(2)))
    assert hardware("cpu").startswith("AMD EPYC (family 25, model 17), ")
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: "processor\t: 0\nBogoMIPS\t: 50.00\n")  # as on ARM
    assert "family" not in hardware("cpu")


@pytest.fixture
def config(grid):
    return grid.runs[0].config


def test_a_run_records_what_it_was_made_from_and_with(config, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQ2SEQ_ATTN_FAST", os.environ.get("SEQ2SEQ_ATTN_FAST", "1"))
    monkeypatch.setattr(sys, "argv", ["seq2seq-attn", "train", "mine.yaml"])
    train(config, tmp_path / "run")
    text = (tmp_path / "run" / PROVENANCE).read_text()
    assert str(tmp_path / "run") not in text, "a run may be moved"
    (found,) = json.loads(text)["sessions"]
    assert found["argv"] == ["seq2seq-attn", "train", "mine.yaml"]
    assert found["version"] == seq2seq_attn.__version__
    assert found["hardware"] == hardware("cpu")
    assert found["python"].endswith(f" {platform.python_version()}")
    assert found["packages"]["torch"] == importlib.metadata.version("torch")  # without a CUDA build's +cu130
    assert found["seeds"] == {"seed": 1}
    assert found["config"] == hashlib.sha256((tmp_path / "run/config.yaml").read_bytes()).hexdigest()
    target = config.data.validation.target
    assert found["data"]["data.validation.target"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert sorted(found["data"]) == [
        "data.test.alignments", "data.test.source", "data.test.target", "data.train.source", "data.train.target",
        "data.validation.source", "data.validation.target",
    ]  # fmt: skip
    assert "SEQ2SEQ_ATTN_FAST" in found["environment"]
    assert "made_with" not in read_metrics(tmp_path / "run")


def test_continued_training_adds_a_session_and_results_name_both(config, tmp_path, monkeypatch):
    model = train(config, tmp_path / "run")
    values = config.model_dump(mode="json")
    longer = parse(type(config), values | {"training": values["training"] | {"max_epochs": 3}})
    monkeypatch.setattr(seq2seq_attn, "__version__", "9.9")
    train(longer, tmp_path / "run", if_exists="resume")
    assert [each["version"] for each in read_sessions(tmp_path / "run")] == ["0.1.0", "9.9"]
    evaluate(model, tmp_path / "run")
    assert read_run(tmp_path / "run", 1, 32).metrics["made_with"]["version"] == "0.1.0; 9.9"
    train(longer, tmp_path / "run", if_exists="overwrite")
    assert [each["version"] for each in read_sessions(tmp_path / "run")] == ["9.9"]


@pytest.mark.parametrize("content", ["{", "[]", '{"sessions": []}', '{"sessions": [1]}'])
def test_a_damaged_record_is_named(tmp_path, content):
    with pytest.raises(UserError, match=r"provenance\.json: no such file; restore it, or train"):
        read_sessions(tmp_path)
    (tmp_path / PROVENANCE).write_text(content)
    with pytest.raises(UserError, match=r"provenance\.json: .*; restore it, or train"):
        read_sessions(tmp_path)


def test_all_libraries_that_a_result_may_depend_on_are_recorded():
    setup = configparser.ConfigParser()
    setup.read(Path(seq2seq_attn.__file__).parents[1] / "setup.cfg")
    required = {re.split("[<>=!]", line)[0] for line in setup["options"]["install_requires"].strip().splitlines()}
    assert required - {"fastapi", "uvicorn", "prometheus-client", "filelock"} <= set(PACKAGES)


def test_commit_diff_and_new_files_are_those_of_the_checkout(tmp_path, monkeypatch, config):
    """In a small repository in place of the package's own."""
    package = tmp_path / "seq2seq_attn"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(provenance, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(provenance, "_git", provenance._git.__wrapped__)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert commit() == head
    (package / "a.py").write_bytes(b"x = 2  # \xff\n")
    (package / "new.py").write_text("y = 3\n")
    (package / ".#a.py").symlink_to("whoever edits it")  # as Emacs marks a file that is open
    found = provenance.session(config)
    assert found["commit"] == f"{head}+"
    assert "\n-x = 1\n+x = 2  # \ufffd\n" in found["uncommitted"]
    new = hashlib.sha256(b"y = 3\n").hexdigest()
    assert found["untracked"] == {"seq2seq_attn/.#a.py": None, "seq2seq_attn/new.py": new}
    monkeypatch.setattr(provenance, "_CHECKOUT", package)
    assert (commit(), provenance.session(config)["uncommitted"]) == (None, None)


def test_the_digest_of_the_code_changes_with_any_file(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path)
    seen = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.cpp", "2"), ("__pycache__/a.pyc", "3"), ("c.txt", "4")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        code_digest.cache_clear()
        seen.add(code_digest())
    code_digest.cache_clear()
    assert len(seen) == 3
