"""A metric is one record: once registered, it is computed, collected, saved and shown in every table."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from seq2seq_attn.api.scores import Scores
from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.evidence import recompute
from seq2seq_attn.evaluation.corpus_scores import Score
from seq2seq_attn.evaluation.metrics import METRICS, Metric
from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.export import as_csv, as_latex
from seq2seq_attn.report.html_page import html_page
from seq2seq_attn.report.table import markdown, terminal
from seq2seq_attn.report.write import read_contents
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs.folder import read_metrics


def length_ratio(test):
    assert len(test.sources) == len(test.translations)
    words = [sum(len(line.split()) for line in side) for side in (test.translations, test.references)]
    return Score("length ratio", words[0] / words[1], "words:whitespace")


def sharpness(test):
    largest = [weights.max(axis=1) for weights in test.weights if weights.any()]
    return float(np.concatenate(largest).mean()) if largest else None


RATIO = Metric("length_ratio", "length ratio", "Ratio", 4, None, "words per reference word", length_ratio)
SHARPNESS = Metric(
    "sharpness", "sharpness", "Sharp", 3, "higher", "largest weight", from_forced=sharpness, signature="t:{tokenizer}"
)


@pytest.fixture
def both(monkeypatch):
    for metric in (RATIO, SHARPNESS):
        monkeypatch.setitem(METRICS, metric.key, metric)


def shown(results):
    """The table in each format."""
    console = Console(file=io.StringIO(), width=400, color_system=None)
    console.print(terminal(results, 400))
    return {"terminal": console.file.getvalue(), "markdown": markdown(results), "latex": as_latex(results)}


def test_a_registered_metric_is_computed_collected_saved_and_shown(both, grid, tmp_path):
    results = compare(grid, tmp_path / "mine")
    tests = {
        arm: [read_metrics(tmp_path / "mine" / "runs" / run.folder)["test"] for run in runs]
        for arm, runs in grid.arms()
    }
    written = json.loads((tmp_path / "mine" / "results.json").read_text())
    for arm, saved in zip(results.arms, written["arms"], strict=True):
        ratios = [test["length_ratio"]["value"] for test in tests[arm.name]]
        assert saved["further"]["length_ratio"]["mean"] == arm.score("length_ratio").mean == np.mean(ratios)
    distracted, attention = results.arms
    assert distracted.score("sharpness") is None
    assert tests["distracted"][0]["sharpness"] is None
    assert attention.score("sharpness").mean == np.mean([test["sharpness"] for test in tests["attention"]])
    assert results.signatures["length_ratio"] == "words:whitespace"
    assert results.signatures["sharpness"] == "t:word"
    assert Results.load(tmp_path / "mine" / "results.json") == results

    ratio, sharp = (
        f"{attention.score(key).mean:.{digits}f}" for key, digits in (("length_ratio", 4), ("sharpness", 3))
    )
    page = html_page(read_contents(tmp_path / "mine"))
    for name, text in (shown(results) | {"html": page}).items():
        for part in ("Ratio", ratio, "Sharp", sharp, "words per reference word", "largest weight, higher is better"):
            assert part in text, (name, part)
        assert "Signature of Ratio" in text, name
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert float(rows[1]["Ratio"]) == attention.score("length_ratio").mean
    assert (rows[0]["Sharp"], rows[1]["Sharp std"]) == ("", str(attention.score("sharpness").std))
    said = str(Scores(tests["attention"][0]))
    assert "words:whitespace" in next(line for line in said.splitlines() if line.startswith("length ratio "))
    assert any(line.startswith("sharpness ") for line in said.splitlines())


def test_a_new_metric_of_translations_is_computed_for_runs_tested_earlier(grid, tmp_path, monkeypatch):
    before = compare(grid, tmp_path / "mine")
    assert before.arms[0].further == {}
    monkeypatch.setitem(METRICS, RATIO.key, RATIO)
    monkeypatch.setitem(METRICS, SHARPNESS.key, SHARPNESS)
    after = compare(grid, tmp_path / "mine")
    assert after.arms[0].score("length_ratio").mean > 0
    assert after.arms[1].score("sharpness") is None, "weights are not kept, so the runs need to be evaluated again"
    assert [replace(arm, further={}) for arm in after.arms] == list(before.arms)
    assert recompute(tmp_path / "mine").differences == []


def test_results_with_a_metric_that_is_not_registered_are_still_shown(both, grid, tmp_path, monkeypatch):
    results = compare(grid, tmp_path / "mine")
    monkeypatch.delitem(METRICS, RATIO.key)
    loaded = Results.load(tmp_path / "mine" / "results.json")
    assert loaded == results
    (column,) = (each for each in columns(loaded) if each.header == "length_ratio")
    assert column.cells[0].numbers[0] == results.arms[0].further["length_ratio"].mean
