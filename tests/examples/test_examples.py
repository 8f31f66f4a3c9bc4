"""The scripts in examples/ run, and learn what they claim to learn.

They take seconds, and .ci/run includes them: python -m pytest -m slow tests/examples/test_examples.py
"""

import csv
import re
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(capsys, monkeypatch, forget_parts):
    """Runs a script in this process and returns what it prints; other tests do not see its scorers."""

    def script(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return script


def share_correct(text):
    return float(re.search(r"([\d.]+)% of 1,000 new \w+ correct", text)[1]) / 100


def attention_plot(text):
    """The source letters above the plot at the end, and one row of shades per target letter."""
    above, *rows = text.rstrip().rpartition("\n\n")[2].splitlines()
    return above[2::2], [row[2::2] for row in rows]


def test_the_training_loop_learns_to_write_dates(run):
    text = run("plain_loop.py", "--steps", 80)
    assert share_correct(text) > 0.5
    source, rows = attention_plot(text)
    assert source == "march 7, 1962"
    assert len(rows) == len("1962-03-07")
    assert any(shade in row for row in rows for shade in "▒▓█")  # the weights are not uniform


def test_the_transformer_keeps_its_output_and_learns_to_reverse_words_with_another_score(run):
    text = run("cross_attention.py", "--steps", 120)
    assert float(re.search(r"outputs differ by at most (\S+)", text)[1]) < 1e-5
    assert share_correct(text) > 0.3
    source, rows = attention_plot(text)
    assert source == "attention"
    assert any(shade in row for row in rows for shade in "▒▓█")


@pytest.mark.usefixtures("parts_in_this_process", "no_figures")
def test_the_own_scorer_is_checked_and_gets_a_row_in_the_results(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run("own_scorer.py", "training.max_epochs=1", "training.batch_size=400")
    assert " 0 broken" in text
    table = (tmp_path / "comparisons" / "own-scorer" / "table.csv").read_text(encoding="utf-8")
    rows = {row["Arm"]: row for row in csv.DictReader(table.splitlines())}
    parameters = {arm: int(rows[arm]["Parameters"]) for arm in ("general", "low rank")}
    assert parameters["general"] - parameters["low rank"] == 64 * 96 - 8 * (64 + 96)  # W against A and B of rank 8
    assert float(rows["low rank"]["BLEU"]) >= 0  # BLEU: it was trained and scored
