"""A comparison survives its arms and shares its work: what failed is named, everything else is done once."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from toy_experiment import EXPERIMENT

from seq2seq_attn.comparison import observe
from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.evidence import recompute
from seq2seq_attn.comparison.experiment import experiment_grid, read_experiment
from seq2seq_attn.errors import FailedError
from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.table import markdown
from seq2seq_attn.report.write import write_report
from seq2seq_attn.results.attention import ATTENTION, CORPUS
from seq2seq_attn.results.examples import EXAMPLES
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import train as run_training
from seq2seq_attn.runs.folder import read_metrics, write_metrics
from seq2seq_attn.runs.model import TrainedModel

DIVERGES = {"training": {"optimizer": {"learning_rate": 3e38}, "clip_norm": None}}


@pytest.fixture
def grid_with(values):
    """The grid of the toy experiment with one seed, and with these arms besides."""

    def grid(**changes):
        arms = {**values["arms"], **changes.pop("arms", {})}
        return experiment_grid({**values, "seeds": [1], "arms": arms, **changes})

    return grid


@pytest.fixture(scope="module")
def finished_once(toy_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(folder=toy_corpus))
    compare(read_experiment(folder / "experiment.yaml", ("seeds=[1]",)), folder / "mine", bar=None)
    return folder / "mine"


@pytest.fixture
def finished(finished_once, tmp_path):
    """The folder of a finished comparison of the toy experiment with one seed."""
    return shutil.copytree(finished_once, tmp_path / "mine")


def test_an_arm_that_diverges_is_left_out_and_named_and_the_others_are_compared(grid_with, tmp_path, monkeypatch):
    """It stands between the others, and one contrast is with it."""
    arms = {"bad": DIVERGES, "mean": {"model": {"context": {"kind": "mean"}}}}
    grid = grid_with(arms=arms, contrasts=[["bad", "attention"], ["mean", "attention"]])
    said = []
    results = compare(grid, tmp_path / "mine", say=said.append)
    assert [arm.name for arm in results.arms] == ["distracted", "attention", "mean"]
    (missing,) = results.missing
    assert (missing.arm, missing.seed) == ("bad", 1)
    assert re.search(r"training diverged: the loss is .* at step \d+, .*learning_rate=3e\+38", missing.reason)
    assert f"bad, seed 1: failed: {missing.reason}" in said
    assert [(pair.arm, pair.baseline) for pair in results.tested] == [
        ("attention", "distracted"), ("mean", "distracted"), ("mean", "attention"),
    ]  # fmt: skip
    sentence = f"Missing: bad, seed 1, whose arm is left out: {missing.reason}"
    assert f"{sentence}." in conclusion(results)
    assert f"- {sentence}" in markdown(results)
    write_report(tmp_path / "mine")
    for name in ("report.html", "table.md", "table.tex"):
        assert "whose arm is left out" in (tmp_path / "mine" / name).read_text()
    assert recompute(tmp_path / "mine").differences == []

    trained = []
    real = run_training.train
    monkeypatch.setattr(run_training, "train", lambda *a, **k: trained.append(k["name"]) or real(*a, **k))
    again = compare(grid, tmp_path / "mine")
    assert trained == ["bad, seed 1"], "what is done is not done again"
    assert again == results
    advised = compare(grid_with(arms={**arms, "bad": {"training": {"clip_norm": 1.0}}}), tmp_path / "mine")
    assert ([arm.name for arm in advised.arms], advised.missing) == (["distracted", "attention", "bad", "mean"], ())


def test_without_its_baseline_the_other_arms_are_reported_and_not_compared(grid_with, tmp_path):
    results = compare(grid_with(arms={"distracted": DIVERGES}), tmp_path / "mine")
    assert ([arm.name for arm in results.arms], results.tested) == (["attention"], ())
    assert conclusion(results)[1].startswith("Missing: distracted, seed 1, whose arm is left out: training diverged")
    write_report(tmp_path / "mine")
    assert recompute(tmp_path / "mine").differences == []


def test_a_comparison_whose_runs_all_fail_says_why(grid_with, tmp_path):
    with pytest.raises(FailedError, match=r"mine: no run finished; distracted, seed 1: training diverged"):
        compare(grid_with(arms={"distracted": DIVERGES, "attention": DIVERGES}), tmp_path / "mine")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device", "log.csv"), "log.csv: No space left on device"),
        pytest.param(
            MemoryError(),
            "memory ran out; lower training.batch_size, or train fewer runs in parallel",
            marks=pytest.mark.slow,
        ),
        pytest.param(ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", marks=pytest.mark.slow),
    ],
)
def test_whatever_stops_one_seed_is_its_reason_and_the_arm_keeps_its_other_seed(
    grid, finished, monkeypatch, error, reason
):
    real = run_training.train

    def train(config, folder, **options):
        if options["name"] == "attention, seed 2":
            raise error
        return real(config, folder, **options)

    monkeypatch.setattr(run_training, "train", train)
    said = []
    results = compare(grid, finished, say=said.append)
    assert [(each.arm, each.seed, each.reason) for each in results.missing] == [("attention", 2, reason)]
    assert [arm.seeds for arm in results.arms] == [(1, 2), (1,)]
    assert any("Traceback" in text for text in said) == isinstance(error, ZeroDivisionError), "a defect keeps it"
    assert f"Missing: attention, seed 2: {reason}." in conclusion(results)
    monkeypatch.setattr(run_training, "train", real)
    whole = compare(grid, finished)
    assert (whole.missing, whole.arms[1].seeds) == ((), (1, 2))


def test_a_trial_that_fails_is_not_chosen_and_an_arm_without_any_trial_is_left_out(grid_with, tmp_path):
    """For the arm `mean`, the setting of which is that of `attention`, nothing changes."""
    tune = {
        "arms": ["attention"],
        "values": {"training.optimizer.learning_rate": [3e38, 0.01]},
        "trial": {"training.max_epochs": 1, "training.clip_norm": None},
    }
    results = compare(grid_with(tune=tune), tmp_path / "one")
    tuned = results.tuned["attention"]
    assert tuned.scores[0] is None
    assert tuned.setting == {"training.optimizer.learning_rate": 0.01}
    assert [(each.arm, each.seed) for each in results.missing] == [("attention, trial 1", 1)]
    assert Results.load(tmp_path / "one/results.json") == results

    tune["values"] = {"training.optimizer.learning_rate": [3e38]}
    results = compare(grid_with(tune=tune), tmp_path / "none")
    assert [arm.name for arm in results.arms] == ["distracted"]
    assert [each.reason[:17] for each in results.missing] == ["training diverged", "no trial of its s"]
    assert recompute(tmp_path / "none").differences == []


def test_an_infinite_perplexity_is_no_score_and_valid_json(grid_with, finished):
    folder = finished / "runs/attention/seed-1"
    write_metrics(folder, {"test": read_metrics(folder)["test"] | {"perplexity": float("inf")}})
    with (folder / "log/metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    validations = [row for row in rows if row["validation_loss"]]
    validations[0]["validation_loss"] = "inf"
    (folder / "SHA256SUMS").write_text("# seq2seq_attn\n")
    with (folder / "log/metrics.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)

    def refuse(constant):
        raise AssertionError(constant)

    assert json.loads((folder / "metrics.json").read_text(), parse_constant=refuse)["test"]["perplexity"] is None
    results = compare(grid_with(), finished)
    assert ["perplexity" in arm.scores for arm in results.arms] == [True, False]
    write_report(finished)


def test_an_arm_whose_numbers_are_not_finite_is_compared_and_its_attention_is_not_shown(
    grid_with, finished, monkeypatch
):
    """As after a run that has all but diverged, or with a scorer of one's own that divides by 0."""

    def load(folder):
        model = TrainedModel.load(folder)
        if "attention" in folder.parts:
            for parameter in model.translator.parameters():
                parameter.data.fill_(float("nan"))
        return model

    monkeypatch.setattr(observe, "TrainedModel", SimpleNamespace(load=load))
    results = compare(grid_with(), finished)
    assert [arm.name for arm in results.arms] == ["distracted", "attention"]
    traced = {trace.arm for example in EXAMPLES.load(finished) for trace in example.readings}
    assert traced == {"distracted"}
    assert not ATTENTION.load(finished)
    assert CORPUS.load(finished).arms["attention"].weights == ""
    write_report(finished)


def start(folder, toy_corpus, *overrides, jobs=1):
    folder.mkdir(exist_ok=True)
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(folder=toy_corpus))
    command = [sys.executable, "-m", "seq2seq_attn", "compare", "experiment.yaml", "--jobs", str(jobs), *overrides]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_comparisons_share_the_work_and_both_end_with_whole_results(grid, tmp_path, toy_corpus):
    """Half a minute; run with: python -m pytest -m slow tests/comparison/test_failing_arms.py"""
    both = [start(tmp_path / "shared", toy_corpus, "seeds=[1,2,3]") for _ in range(2)]
    ended = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    assert ended[0][0] == ended[1][0], "the same table"
    trained = [re.findall(r"^\[\d/\d\] (.+): BLEU .* on the test set$", err, re.MULTILINE) for _, err in ended]
    assert sorted(trained[0] + trained[1]) == [
        f"{arm}, seed {seed}" for arm in ("attention", "distracted") for seed in (1, 2, 3)
    ]
    assert all(trained), "each trained some"
    folder = tmp_path / "shared/comparisons/toy"
    alone = compare(grid._replace(experiment=grid.experiment), tmp_path / "alone")
    shared = Results.load(folder / "results.json")
    assert [arm.seeds for arm in shared.arms] == [(1, 2, 3)] * 2
    assert recompute(folder).differences == []
    for arm, seed in (("attention", 1), ("distracted", 2)):
        model = f"runs/{arm}/seed-{seed}/model.safetensors"
        assert (folder / model).read_bytes() == (tmp_path / "alone" / model).read_bytes()
    assert alone.missing == ()
    assert not list(folder.rglob(".lock"))


@pytest.mark.slow
def test_a_killed_worker_leaves_its_run_missing_and_the_next_start_finishes_it(tmp_path, toy_corpus):
    """Half a minute; run with: python -m pytest -m slow tests/comparison/test_failing_arms.py"""
    process = start(tmp_path, toy_corpus, "training.max_epochs=60", "training.patience=null", jobs=2)
    lock = tmp_path / "comparisons/toy/runs/distracted/seed-1/.lock"
    while not (lock.exists() and (lock.parent / "checkpoints/last.safetensors").exists()):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("  distracted, seed 1: its process was killed (SIGKILL")
    assert "distracted, seed 1" in out.replace("\n", " ")
    process = start(tmp_path, toy_corpus, "training.max_epochs=60", "training.patience=null", jobs=2)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err.count("3 of 4 runs were done before")) == (0, 1)
    results = Results.load(tmp_path / "comparisons/toy/results.json")
    assert [arm.seeds for arm in results.arms] == [(1, 2), (1, 2)]
    assert results.missing == ()
