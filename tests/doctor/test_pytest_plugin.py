"""`pytest --check-scorer`, in a process where nothing of this project is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BROKEN = Path(__file__).with_name("broken_scorers.py")
PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
import pytest

for arguments in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        code = pytest.main(["-p", "no:cacheprovider", *arguments])
    print(json.dumps([code, out.getvalue()]))
"""
LOADED = """
import sys

def test_loaded():
    ours = {name for name in sys.modules if name.startswith("seq2seq_attn")}
    assert ours == {"seq2seq_attn", "seq2seq_attn.pytest_plugin"}
    assert "torch" not in sys.modules
"""
RUNS = {
    "without": ["test_loaded.py"],
    "nowhere": ["--check-scorer", "nowhere.py:Mine"],
    "mine": [
        "test_other.py", "-v", "-k", "other or shapes or padding or reads",
        "--check-scorer", "mine.py:SwapsAxes", "--check-scorer", "mine.py:IgnoresQuery",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Exit code and output of each run."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "mine.py").write_text(BROKEN.read_text())
    (folder / "test_other.py").write_text("def test_other(): pass")
    (folder / "test_loaded.py").write_text(LOADED)
    command = [sys.executable, "-c", PROGRAM, json.dumps(list(RUNS.values()))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return dict(zip(RUNS, map(json.loads, done.stdout.splitlines()), strict=True))


def test_a_run_that_does_not_ask_for_it_loads_nothing(runs):
    code, out = runs["without"]
    assert code == 0, out


def test_a_scorer_that_is_not_there_is_a_wrong_command_line(runs):
    code, out = runs["nowhere"]
    assert code == 4
    assert "ERROR: nowhere.py: no such Python file" in out


def test_every_law_is_a_test_of_its_own(runs):
    code, out = runs["mine"]
    assert code == 1
    assert dict(line.split()[:2] for line in out.splitlines() if line.endswith("%]")) == {
        "test_other.py::test_other": "PASSED",
        "mine.py:SwapsAxes::shapes": "FAILED",
        "mine.py:SwapsAxes::padding": "SKIPPED",
        "mine.py:SwapsAxes::more_padding": "SKIPPED",
        "mine.py:SwapsAxes::reads_query": "SKIPPED",
        "mine.py:SwapsAxes::reads_keys": "SKIPPED",
        "mine.py:IgnoresQuery::shapes": "PASSED",
        "mine.py:IgnoresQuery::padding": "PASSED",
        "mine.py:IgnoresQuery::more_padding": "PASSED",
        "mine.py:IgnoresQuery::reads_query": "PASSED",
        "mine.py:IgnoresQuery::reads_keys": "PASSED",
    }


def test_a_broken_law_shows_the_doctor_s_line_and_a_warning_is_one_of_pytest_s(runs):
    _, out = runs["mine"]
    assert "\nscores are (2, 5, 3) of torch.float32, wanted is (B, T, S) = (2, 3, 5) of torch.float32\n" in out
    assert "Traceback" not in out
    assert "ScorerWarning: mine.py:IgnoresQuery::reads_query: the weights do not depend on the query" in out
