"""An equal search over settings before training."""

import json
import shutil

import pytest

from seq2seq_attn.comparison.compare import compare
from seq2seq_attn.comparison.evidence import recompute
from seq2seq_attn.comparison.experiment import experiment_grid, with_settings
from seq2seq_attn.comparison.tuning import search_settings
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.checksums import record
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.report.table import markdown
from seq2seq_attn.results.evidence import EVIDENCE
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs.folder import read_config, read_metrics
from seq2seq_attn.strict import dump

RATE, DROPOUT = "training.optimizer.learning_rate", "model.dropout.state"


@pytest.fixture
def tuned_values(values):
    """Of the rates that are tried for two arms, the second learns nothing; the third arm is not tuned."""
    values["arms"]["mean"] = {"model": {"context": {"kind": "mean"}}}
    tune = {
        "arms": ["attention", "distracted"],
        "values": {RATE: [0.03, 1e-9], DROPOUT: [0.0]},
        "sampler": {"kind": "random", "trials": 2, "seed": 2},
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
    for key, other in (
        ("values", {RATE: [0.03, 0.01]}),
        ("trial", {"training.max_epochs": 2}),
        ("sampler", {"kind": "grid"}),
    ):
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
    assert "one seed, random, trials 2, seed 2: " in markdown(results)
    assert results.tuned["attention"].settings == ({RATE: 0.03, DROPOUT: 0.0}, {RATE: 1e-9, DROPOUT: 0.0})
    assert Results.load(tmp_path / "mine/results.json") == results
    assert recompute(tmp_path / "mine").differences == []


def test_arms_keep_their_own_setting_unless_told(tuned_values):
    del tuned_values["tune"]["others"]
    found = {arm: {RATE: 0.03} for arm in ("attention", "distracted")}
    grid = with_settings(experiment_grid(tuned_values), found)
    rates = {run.arm: run.config.training.optimizer.learning_rate for run in grid.runs}
    assert rates == {"distracted": 0.03, "attention": 0.03, "mean": 0.02}


def test_an_unknown_key_is_refused_before_anything_is_trained(tuned_values, tmp_path):
    tuned_values["tune"]["values"] = {"training.optimizer.rate": [0.1, 0.2]}
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
        search_settings(experiment_grid(tuned_values).placed(tmp_path), "resume", None, print)


CLIMBER = """
from typing import Literal

from seq2seq_attn.comparison.samplers import Sampler


class Climber(Sampler):
    \"""The last rate but one, times the factor if it scored higher than the one before it, else divided by it.\"""

    kind: Literal["climber"] = "climber"
    factor: float

    @property
    def at_once(self):
        return 2

    def count(self, space):
        return 5

    def suggest(self, space, trials):
        key, values = next(iter(space.items()))
        known = [trial for trial in trials if trial.score is not None]
        assert len(known) == len(trials) // 2 * 2
        if not known:
            return {key: [values.low, values.high][len(trials)]}
        one, other = known[-2:]
        up = other.score > one.score
        return {key: one.setting[key] * self.factor ** (1 if up else -1) * (1 + len(trials) % 2)}
"""


@pytest.fixture
def climbing(tuned_values, tmp_path):
    """A search by a sampler of the user's own, two trials of each arm at once."""
    (tmp_path / "climber.py").write_text(CLIMBER)
    sampler = {"kind": f"{tmp_path / 'climber.py'}:Climber", "factor": 3}
    change = {"values": {RATE: {"low": 0.001, "high": 0.002}}, "sampler": sampler, "trial": {}}
    return experiment_grid(tuned_values | {"tune": tuned_values["tune"] | change})


@pytest.fixture
def trials(climbing, train_once, tmp_path, monkeypatch):
    """Rates in the order of the trials, which take no time: copies of a run whose loss is least for a rate of 0.004."""
    train_once(climbing.runs[0].config, tmp_path / "one")
    rates = []

    def train(config, folder, **_):
        if len(rates) == train.most:
            raise KeyboardInterrupt
        rates.append(config.training.optimizer.learning_rate)
        metrics = read_metrics(tmp_path / "one")
        metrics["training"]["best"] = abs(rates[-1] - 0.004)
        write_bytes(folder / "config.yaml", dump(config).encode())
        write_bytes(folder / "metrics.json", json.dumps(metrics).encode())
        shutil.copy(tmp_path / "one/provenance.json", folder)
        record(folder, ["config.yaml", "metrics.json", "provenance.json"])

    train.most, train.rates = None, rates
    monkeypatch.setattr("seq2seq_attn.runs.train.train", train)
    return train


def test_a_search_suggests_from_the_scores_so_far_and_goes_on_as_if_it_had_not_been_interrupted(
    climbing, tmp_path, trials
):
    def search(folder, if_exists="resume"):
        found, failed = search_settings(climbing.placed(tmp_path / folder), if_exists, None, lambda _: None, None)
        assert not failed
        return found

    trials.most = 5
    with pytest.raises(KeyboardInterrupt):
        search("runs")
    trials.most = None
    found = search("runs")
    # Two trials of each arm at once: of 0.001 and 0.002 the second is better, of 0.003 and 0.006 the first.
    expected = [0.001, 0.002, 0.003, 0.006, 0.001]
    assert trials.rates == pytest.approx(2 * expected[:2] + 2 * expected[2:4] + 2 * expected[4:])
    for arm, tuned in found.items():
        assert [setting[RATE] for setting in tuned.settings] == pytest.approx(expected)
        assert tuned.scores == pytest.approx([abs(rate - 0.004) for rate in expected])
        assert tuned.setting == tuned.settings[2]
        fourth = read_config(tmp_path / f"runs/tuning/{arm}/trial-4")
        assert fourth.training.optimizer.learning_rate == tuned.settings[3][RATE]
    assert search("whole") == found

    trials.most = len(trials.rates) + 1
    with pytest.raises(KeyboardInterrupt):
        search("runs", "overwrite")
    left = [path.parent.name for path in (tmp_path / "runs/tuning").glob("*/*/config.yaml")]
    assert left == ["trial-1"], "the trials of later rounds are deleted, too"
