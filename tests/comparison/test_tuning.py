"""An equal search over settings before training."""

import pytest

from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.evidence import recompute
from seq2seq_attn.comparison.experiment import experiment_grid
from seq2seq_attn.comparison.tuning import search_settings, with_settings
from seq2seq_attn.errors import UserError
from seq2seq_attn.report.table import markdown
from seq2seq_attn.results.evidence import EVIDENCE
from seq2seq_attn.results.results import Results, Tuned
from seq2seq_attn.runs.folder import read_config, read_metrics

RATE, DROPOUT = "training.optimizer.learning_rate", "model.dropout.state"


@pytest.fixture
def tuned_values(values):
    """Of the rates that are tried for two arms, the second learns nothing; the third arm is not tuned."""
    values["arms"]["mean"] = {"model": {"context": {"kind": "mean"}}}
    tune = {
        "arms": ["attention", "distracted"],
        "values": {RATE: [0.03, 1e-9], DROPOUT: [0.0]},
        "trial": {"training.max_epochs": 1},
        "others": "attention",
    }
    return values | {"seeds": [1], "tune": tune}


def test_the_setting_with_the_best_validation_is_used_recorded_and_not_searched_for_again(
    tuned_values, tmp_path, monkeypatch
):
    grid = experiment_grid(tuned_values)
    results = compare(grid, tmp_path / "mine", bar=None)
    check_settings(results, tmp_path)
    check_records(results, tmp_path)

    def refuse(*_, **__):
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr("seq2seq_attn.runs.train.train", refuse)
    assert compare(grid, tmp_path / "mine", bar=None) == results
    evidence = tmp_path / "mine" / EVIDENCE
    assert compare(grid, tmp_path / "again", evidence=evidence, bar=None) == results
    for key, other in (("values", {RATE: [0.03]}), ("trial", {"training.max_epochs": 2})):
        searched = tuned_values | {"tune": tuned_values["tune"] | {key: other}}
        with pytest.raises(UserError, match=rf"was tuned with tune\.{key}=.*; compare without --evidence"):
            compare(experiment_grid(searched), tmp_path / "other", evidence=evidence, bar=None)


def check_settings(results, tmp_path):
    """Of every tuned arm, and of the other arm, which has that of one of them."""
    runs = tmp_path / "mine/runs"
    assert list(results.tuned) == ["distracted", "attention"]
    for arm, tuned in results.tuned.items():
        scores = [read_metrics(runs / f"tuning/{arm}/trial-{trial}")["training"]["best"] for trial in (1, 2)]
        assert tuned.scores == tuple(scores)
        assert scores[0] < scores[1], "losses"
        assert tuned.setting == {RATE: 0.03, DROPOUT: 0.0}
    for arm in ("distracted", "attention", "mean"):
        config = read_config(runs / arm / "seed-1")
        assert (config.training.optimizer.learning_rate, config.training.max_epochs) == (0.03, 2)
    trial = read_config(runs / "tuning/attention/trial-2")
    assert (trial.training.optimizer.learning_rate, trial.training.max_epochs, trial.data.test) == (1e-9, 1, None)
    assert "test" not in read_metrics(runs / "tuning/attention/trial-2")


def check_records(results, tmp_path):
    """The table and the evidence say what was tuned."""
    note = f"distracted: {RATE}=0.03, {DROPOUT}=0.0 (2 tried)"
    assert note in markdown(results)
    assert "the other arms have the setting of attention" in markdown(results)
    assert Results.load(tmp_path / "mine/results.json") == results
    assert recompute(tmp_path / "mine").differences == []


def test_arms_keep_their_own_setting_unless_told(tuned_values):
    del tuned_values["tune"]["others"]
    found = dict.fromkeys(("attention", "distracted"), Tuned({RATE: 0.03}, (1.0, 2.0), "loss"))
    grid = with_settings(experiment_grid(tuned_values), found)
    rates = {run.arm: run.config.training.optimizer.learning_rate for run in grid.runs}
    assert rates == {"distracted": 0.03, "attention": 0.03, "mean": 0.02}


def test_an_unknown_key_is_refused_before_anything_is_trained(tuned_values, tmp_path):
    tuned_values["tune"]["values"] = {"training.optimizer.rate": [0.1]}
    with pytest.raises(UserError, match=r"unknown key 'training\.optimizer\.rate'"):
        compare(experiment_grid(tuned_values), tmp_path / "bad", bar=None)
    assert not list((tmp_path / "bad").glob("runs/*/*"))


def test_a_setting_that_does_not_fit_an_arm_that_takes_it_from_others_is_refused_before_the_trials(
    tuned_values, tmp_path, monkeypatch
):
    same = {key: tuned_values["base"][key] for key in ("data", "evaluation")}
    tuned_values["arms"]["mean"] = {"base": {**same, "model": {"kind": "transformer"}}}
    tuned_values["tune"]["values"] = {"model.decoder.hidden_size": [5, 6]}
    monkeypatch.setattr("seq2seq_attn.comparison.tuning.complete_all", lambda *_: pytest.fail("trials are trained"))
    with pytest.raises(UserError, match=r"tune: arm 'mean': unknown key 'model\.decoder\.hidden_size'"):
        search_settings(experiment_grid(tuned_values), tmp_path, "resume", 1, print)
