"""A metric is one record: once registered, it is computed, collected, saved and shown in every table."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from toy_experiment import EXPERIMENT

import seq2seq_attn as s2s
from seq2seq_attn.api.scores import Scores
from seq2seq_attn.comparison.arms import Scoring
from seq2seq_attn.comparison.collect import collect
from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.errors import UserError
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


MINE = """
from seq2seq_attn.evaluation.counts import percentage
from seq2seq_attn.evaluation.metrics import Metric


def wrong_first_words(expected):
    return percentage(expected, lambda ours, theirs: (ours.split()[:1] != theirs.split()[:1], 1), min, "mine")


Wrong = Metric("wrong", "wrong first words", "Wrong", 2, "lower", "% without the right first word", wrong_first_words)
"""


@pytest.fixture(scope="module")
def both():
    with pytest.MonkeyPatch.context() as patch:
        for metric in (RATIO, SHARPNESS):
            patch.setitem(METRICS, metric.key, metric)
        yield


def scored_by(grid, *metrics):
    """The grid with these metrics."""

    def scored(config):
        return config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"metrics": metrics})})

    return grid._replace(runs=[run._replace(config=scored(run.config)) for run in grid.runs])


@pytest.fixture(scope="module")
def compared(both, toy_corpus, tmp_path_factory):
    """A comparison with both metrics: its grid and its folder."""
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(folder=toy_corpus))
    grid = scored_by(read_experiment(folder / "experiment.yaml"), "bleu", "length_ratio")
    compare(grid, folder / "mine", bar=None)
    return grid, folder / "mine"


@pytest.fixture
def results(compared):
    return Results.load(compared[1] / "results.json")


def shown(results):
    """The table in each format."""
    console = Console(file=io.StringIO(), width=400, color_system=None)
    console.print(terminal(results, 400))
    return {"terminal": console.file.getvalue(), "markdown": markdown(results), "latex": as_latex(results)}


def test_a_registered_metric_is_computed_collected_saved_and_shown(compared, results):
    grid, folder = compared
    tests = {arm: [read_metrics(folder / "runs" / run.folder)["test"] for run in runs] for arm, runs in grid.arms()}
    for arm in results.arms:
        ratios = [test["length_ratio"]["value"] for test in tests[arm.name]]
        assert arm.scores["length_ratio"].mean == np.mean(ratios)
    distracted, attention = results.arms
    assert "sharpness" not in distracted.scores
    assert tests["distracted"][0]["sharpness"] is None
    assert attention.scores["sharpness"].mean == np.mean([test["sharpness"] for test in tests["attention"]])
    assert results.signatures["length_ratio"] == "words:whitespace"
    assert results.signatures["sharpness"] == "t:word"

    ratio, sharp = (
        f"{attention.scores[key].mean:.{digits}f}" for key, digits in (("length_ratio", 4), ("sharpness", 3))
    )
    page = html_page(read_contents(folder))
    for name, text in (shown(results) | {"html": page}).items():
        for part in ("Ratio", ratio, "Sharp", sharp, "words per reference word", "largest weight, higher is better"):
            assert part in text or name == "terminal", (name, part)
        assert "Signature of Ratio" in text or name == "terminal", name
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert float(rows[1]["Ratio"]) == attention.scores["length_ratio"].mean
    assert (rows[0]["Sharp"], rows[1]["Sharp std"]) == ("", str(attention.scores["sharpness"].std))
    said = str(Scores(tests["attention"][0]))
    assert "words:whitespace" in next(line for line in said.splitlines() if line.startswith("length ratio "))
    assert any(line.startswith("sharpness ") for line in said.splitlines())


def test_a_new_metric_of_translations_is_computed_for_runs_tested_earlier(compared, results):
    grid, folder = compared
    evidence, test = Evidence.load(folder / EVIDENCE), read_test(grid.runs[0].config.data.test)
    again = scored_by(grid, "bleu", "length_ratio", "wer")
    after = collect(again, evidence, test, Scoring.of(again.runs[0].config, test))
    for arm, known in zip(after.arms, results.arms, strict=True):
        assert arm.scores["wer"].mean > 0
        assert {key: arm.scores[key] for key in known.scores} == known.scores


def test_results_with_a_metric_that_is_not_registered_are_still_shown(compared, results, monkeypatch):
    monkeypatch.delitem(METRICS, RATIO.key)
    loaded = Results.load(compared[1] / "results.json")
    (column,) = (each for each in columns(loaded) if each.header == "Ratio")
    assert column.cells[0].numbers[0] == results.arms[0].scores["length_ratio"].mean


def test_a_metric_in_a_file_of_the_users_own_validates_selects_scores_and_compares(values, tmp_path, request):
    """One of which less is better; nothing outside its file names it. Every run keeps the file."""
    request.addfinalizer(lambda: METRICS.pop("wrong", None))
    mine = tmp_path / "my_metrics.py"
    mine.write_text(MINE)
    values["base"]["training"] |= {"monitor": "score"}
    scoring = {"metrics": [f"{mine}:Wrong", "chrf"]}
    results = s2s.compare(values | {"seeds": [1]}, tmp_path / "mine", silent=True, evaluation=scoring).results
    assert [metric.label for metric in results.metrics[:2]] == ["Wrong", "chrF"]
    assert list(results.comparisons[0].others) == ["chrf"]
    assert results.best.scores["wrong"].mean == min(arm.scores["wrong"].mean for arm in results.arms)
    page = html_page(read_contents(tmp_path / "mine"))
    for text in (*shown(results).values(), page):
        assert "% without the right first word, lower is better" in text.replace("\\%", "%")
    assert "Wrong by source length" in page

    references = read_lines(values["base"]["data"]["test"]["target"])
    curves = CURVES.load(tmp_path / "mine")
    mine.unlink()
    for arm in results.arms:
        folder = tmp_path / "mine/runs" / arm.name / "seed-1"
        lines = read_lines(folder / "test.translations.txt")
        both = zip(lines, references, strict=True)
        wrong = 100 * np.mean([ours.split()[:1] != theirs.split()[:1] for ours, theirs in both])
        assert arm.scores["wrong"].mean == pytest.approx(wrong)
        assert read_metrics(folder)["training"]["best"] == min(curves[arm.name][0].validation_score)
        assert s2s.load(folder).evaluate()["wrong"]["value"] == pytest.approx(wrong)
    metric = f"{folder}/plugins/my_metrics.py:Wrong"
    assert s2s.evaluate(lines, references, metrics=[metric])["wrong"]["value"] == pytest.approx(wrong)
    with pytest.raises(UserError, match=r"my_metrics\.py: 'Right' is not a Metric"):
        s2s.evaluate(lines, references, metrics=[metric.replace("Wrong", "Right")])


@pytest.mark.parametrize(("direction", "verdict"), [("higher", "worse"), ("lower", "better")])
def test_the_verdict_follows_the_direction_of_the_metric(direction, verdict, results):
    joint = JointTest(0.001, 0.002, -9.0, -7.0, 4.0, False, None)
    pair = replace(results.comparisons[0], difference=-8.0, low=-9.0, high=-7.0, joint=joint)
    main = replace(results.main, direction=direction, floor=None)
    results = replace(results, metrics=(main, *results.metrics[1:]), comparisons=(pair,))
    assert results.verdict(pair) == verdict
    assert f"attention is {verdict} than distracted by 8.0 BLEU" in " ".join(conclusion(results))
