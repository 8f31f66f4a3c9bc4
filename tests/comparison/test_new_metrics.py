"""A metric is one record: once registered, it is computed, collected, saved and shown in every table."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from counted import word_errors
from rich.console import Console

from seq2seq_attn.api.scores import Scores
from seq2seq_attn.comparison.collect import collect
from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.evaluation.corpus_scores import Score
from seq2seq_attn.evaluation.metrics import METRICS, Metric
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.export import as_csv, as_latex
from seq2seq_attn.report.html_page import html_page
from seq2seq_attn.report.table import markdown, terminal
from seq2seq_attn.report.write import read_contents
from seq2seq_attn.results.curves import CURVES
from seq2seq_attn.results.differences import JointTest
from seq2seq_attn.results.evidence import EVIDENCE, Evidence
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs.corpora import read_test
from seq2seq_attn.runs.folder import read_metrics


def length_ratio(translations, test):
    assert len(test.sources) == len(translations)
    words = [sum(len(line.split()) for line in side) for side in (translations, test.references[0])]
    return Score(words[0] / words[1], "words:whitespace")


def sharpness(test):
    largest = [weights.max(axis=1) for weights in test.weights if weights.any()]
    return float(np.concatenate(largest).mean()) if largest else None


RATIO = Metric(
    "length_ratio", "length ratio", "Ratio", 4, None, "words per reference word", from_translations=length_ratio
)
SHARPNESS = Metric(
    "sharpness", "sharpness", "Sharp", 3, "higher", "largest weight", from_forced=sharpness, signature="t:{tokenizer}"
)


@pytest.fixture
def both(monkeypatch):
    for metric in (RATIO, SHARPNESS):
        monkeypatch.setitem(METRICS, metric.key, metric)


def scored_by(grid, *metrics):
    """The grid with these metrics."""

    def scored(config):
        return config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"metrics": metrics})})

    return grid._replace(runs=[run._replace(config=scored(run.config)) for run in grid.runs])


def shown(results):
    """The table in each format."""
    console = Console(file=io.StringIO(), width=400, color_system=None)
    console.print(terminal(results, 400))
    return {"terminal": console.file.getvalue(), "markdown": markdown(results), "latex": as_latex(results)}


def test_a_registered_metric_is_computed_collected_saved_and_shown(both, grid, tmp_path):
    grid = scored_by(grid, "bleu", "length_ratio")
    results = compare(grid, tmp_path / "mine")
    tests = {
        arm: [read_metrics(tmp_path / "mine" / "runs" / run.folder)["test"] for run in runs]
        for arm, runs in grid.arms()
    }
    written = json.loads((tmp_path / "mine" / "results.json").read_text())
    for arm, saved in zip(results.arms, written["arms"], strict=True):
        ratios = [test["length_ratio"]["value"] for test in tests[arm.name]]
        assert saved["scores"]["length_ratio"]["mean"] == arm.scores["length_ratio"].mean == np.mean(ratios)
    distracted, attention = results.arms
    assert "sharpness" not in distracted.scores
    assert tests["distracted"][0]["sharpness"] is None
    assert attention.scores["sharpness"].mean == np.mean([test["sharpness"] for test in tests["attention"]])
    assert results.signatures["length_ratio"] == "words:whitespace"
    assert results.signatures["sharpness"] == "t:word"
    assert Results.load(tmp_path / "mine" / "results.json") == results

    ratio, sharp = (
        f"{attention.scores[key].mean:.{digits}f}" for key, digits in (("length_ratio", 4), ("sharpness", 3))
    )
    page = html_page(read_contents(tmp_path / "mine"))
    for name, text in (shown(results) | {"html": page}).items():
        for part in ("Ratio", ratio, "Sharp", sharp, "words per reference word", "largest weight, higher is better"):
            assert part in text, (name, part)
        assert "Signature of Ratio" in text, name
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert float(rows[1]["Ratio"]) == attention.scores["length_ratio"].mean
    assert (rows[0]["Sharp"], rows[1]["Sharp std"]) == ("", str(attention.scores["sharpness"].std))
    said = str(Scores(tests["attention"][0]))
    assert "words:whitespace" in next(line for line in said.splitlines() if line.startswith("length ratio "))
    assert any(line.startswith("sharpness ") for line in said.splitlines())


def test_a_new_metric_of_translations_is_computed_for_runs_tested_earlier(grid, tmp_path, monkeypatch):
    before = compare(grid, tmp_path / "mine")
    monkeypatch.setitem(METRICS, RATIO.key, RATIO)
    monkeypatch.setitem(METRICS, SHARPNESS.key, SHARPNESS)
    config = grid.runs[0].config
    evidence, test = Evidence.load(tmp_path / "mine" / EVIDENCE), read_test(config.data.test)
    after = collect(scored_by(grid, *config.evaluation.metrics, "length_ratio"), evidence, test)
    for arm, known in zip(after.arms, before.arms, strict=True):
        assert arm.scores["length_ratio"].mean > 0
        assert "sharpness" not in arm.scores, "weights are not kept, so the runs need to be evaluated again"
        assert {key: arm.scores[key] for key in known.scores} == known.scores


def test_results_with_a_metric_that_is_not_registered_are_still_shown(both, grid, tmp_path, monkeypatch):
    results = compare(scored_by(grid, "bleu", "length_ratio"), tmp_path / "mine")
    monkeypatch.delitem(METRICS, RATIO.key)
    loaded = Results.load(tmp_path / "mine" / "results.json")
    assert loaded == results
    (column,) = (each for each in columns(loaded) if each.header == "Ratio")
    assert column.cells[0].numbers[0] == results.arms[0].scores["length_ratio"].mean


def test_arms_are_trained_and_compared_in_a_metric_of_which_less_is_better(grid, tmp_path):
    """The word error rate comes first: it validates, heads the table, is tested, and the lower one is called better."""
    results = compare(scored_by(grid, "wer", "chrf"), tmp_path / "mine")
    assert [metric.label for metric in results.metrics[:2]] == ["WER", "chrF"]
    assert list(results.comparisons[0].others) == ["chrf"]
    assert results.best.scores["wer"].mean == min(arm.scores["wer"].mean for arm in results.arms)
    curves = CURVES.load(tmp_path / "mine")
    for arm in results.arms:
        assert min(curves[arm.name][0].validation_score) > 30, "a percentage of words, and most of them are wrong"
        counts = [
            word_errors(
                read_lines(tmp_path / "mine/runs" / run.folder / "test.translations.txt"),
                read_lines(grid.runs[0].config.data.test.target),
            ).value
            for run in dict(grid.arms())[arm.name]
        ]
        assert arm.scores["wer"].mean == pytest.approx(np.mean(counts))
    page = html_page(read_contents(tmp_path / "mine"))
    for text in (*shown(results).values(), page):
        assert "edits per 100 words of the reference, lower is better" in text
    assert "WER by source length" in page
    assert [column.header for column in columns(results)][2] == "WER"


@pytest.mark.parametrize(("direction", "verdict"), [("higher", "worse"), ("lower", "better")])
def test_the_verdict_follows_the_direction_of_the_metric(direction, verdict, grid, tmp_path):
    results = compare(grid, tmp_path / "mine")
    joint = JointTest(0.001, 0.002, -9.0, -7.0, 4.0, False, None)
    pair = replace(results.comparisons[0], difference=-8.0, low=-9.0, high=-7.0, joint=joint)
    main = replace(results.main, direction=direction, floor=None)
    results = replace(results, metrics=(main, *results.metrics[1:]), comparisons=(pair,))
    assert results.verdict(pair) == verdict
    assert f"attention is {verdict} than distracted by 8.0 BLEU" in " ".join(conclusion(results))
