"""`pytest --check-scorer`: what it collects, what it reports, and that it costs nothing if it is not used."""

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

BROKEN = Path(__file__).with_name("broken_scorers.py")
LOADED = """
import sys

def test_loaded():
    ours = {name for name in sys.modules if name.startswith("seq2seq_attn")}
    assert ours == {"seq2seq_attn", "seq2seq_attn.pytest_plugin"}
    assert "torch" not in sys.modules
"""
MINE = [
    "test_other.py", "-v", "-k", "other or shapes or padding or reads",
    "--check-scorer", "mine.py:SwapsAxes", "--check-scorer", "mine.py:IgnoresQuery",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder, which is the current one, with scorers and a test."""
    (tmp_path / "mine.py").write_text(BROKEN.read_text())
    (tmp_path / "test_other.py").write_text("def test_other(): pass")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, forget_parts):
    """Runs pytest in the folder, and in this process; returns its exit code and output."""
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib", f"--rootdir={folder}"]

    def run(*arguments):
        with redirect_stdout(StringIO()) as out, redirect_stderr(out):
            code = pytest.main([*options, *arguments])
        return code, out.getvalue()

    return run


def outcomes(out):
    return dict(line.split()[:2] for line in out.splitlines() if line.endswith("%]"))


EXPECTED = {
    "test_other.py::test_other": "PASSED",
    "mine.py:SwapsAxes::shapes": "FAILED",
    "mine.py:SwapsAxes::padding": "SKIPPED",
    "mine.py:SwapsAxes::reads_query": "SKIPPED",
    "mine.py:SwapsAxes::reads_keys": "SKIPPED",
    "mine.py:IgnoresQuery::shapes": "PASSED",
    "mine.py:IgnoresQuery::padding": "PASSED",
    "mine.py:IgnoresQuery::reads_query": "PASSED",
    "mine.py:IgnoresQuery::reads_keys": "PASSED",
}


def test_without_the_option_nothing_else_is_imported(folder):
    (folder / "test_loaded.py").write_text(LOADED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "seq2seq_attn.pytest_plugin", "test_loaded.py"],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_an_unknown_scorer_is_a_usage_error(run):
    code, out = run("--check-scorer", "nowhere.py:Mine")
    assert code == 4
    assert "ERROR: nowhere.py: no such Python file" in out


def test_each_law_is_a_test_that_says_what_is_wrong(run):
    code, out = run(*MINE)
    assert code == 1, out
    assert outcomes(out) == EXPECTED
    assert "\nscores: (2, 5, 3) of torch.float32, expected (2, 3, 5) for (B, T, S) = (2, 3, 5)\n" in out
    assert "Traceback" not in out
    assert "LawWarning: the weights do not depend on the query" in out
