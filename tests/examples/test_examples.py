"""The scripts in examples/ run, and reach what they say."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a script in this process, and gives what it prints."""

    def script(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return script


def share_right(text):
    return float(re.search(r"([\d.]+)% of 1,000 new", text)[1]) / 100


def picture(text):
    """What stands above the matrix of weights at the end, and its rows: a letter written, and a shade for each read."""
    above, *rows = text.rstrip().rpartition("\n\n")[2].splitlines()
    return above[2::2], [row[2::2] for row in rows]


def test_a_training_loop_of_ones_own_learns_to_write_dates(run):
    text = run("plain_loop.py", "--steps", 120)
    assert share_right(text) > 0.95
    read, rows = picture(text)
    assert read == "march 7, 1962"
    assert len(rows) == len("1962-03-07")
    assert any(shade in row for row in rows for shade in "▒▓█")  # it looks somewhere, not everywhere


def test_a_transformers_cross_attention_is_exchanged_and_learns_to_write_backwards(run):
    text = run("cross_attention.py", "--steps", 250)
    assert float(re.search(r"outputs differ by (\S+) at most", text)[1]) < 1e-5
    assert share_right(text) > 0.8
    read, rows = picture(text)
    assert read == "attention"
    assert any(shade in row for row in rows for shade in "▒▓█")


def test_a_scorer_of_ones_own_is_checked_and_gets_its_row_in_the_table(tmp_path):
    script = [sys.executable, EXAMPLES / "own_scorer.py", "training.max_epochs=1", "training.batch_size=400"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " 0 wrong" in done.stdout
    table = (tmp_path / "comparisons" / "own-scorer" / "table.md").read_text(encoding="utf-8")
    first = table.partition("\n## ")[0].splitlines()
    rows = {cells[1].strip(): cells[2:] for line in first if len(cells := line.split("|")) > 4}
    parameters = {arm: int(rows[arm][0].replace(",", "")) for arm in ("general", "low rank")}
    assert parameters["general"] - parameters["low rank"] == 64 * 96 - 8 * (64 + 96)  # W against A and B of rank 8
    assert float(rows["low rank"][1]) >= 0  # BLEU: it was trained and scored
