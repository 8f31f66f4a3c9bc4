"""Comparisons from Python."""

import csv
import io
import shutil
from pathlib import Path

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.comparison.experiment import experiment_grid


def test_a_comparison_has_its_table_its_figures_and_its_models(compared, capsys):
    assert [arm.name for arm in compared.results.arms] == ["distracted", "attention"]
    assert compared.results.arms[0].seeds == (3,)
    assert compared.model("attention", seed=3).config.model.context.scorer.name == "dot"
    assert compared.model("attention").config.training.max_epochs == 1
    records = compared.to_records()
    rows = list(csv.DictReader(io.StringIO(compared.table().csv())))
    assert [list(record) for record in records] == [list(rows[0])] * 2
    assert [record["BLEU"] for record in records] == [float(row["BLEU"]) for row in rows]
    lines = compared.plot_by_length().axes[0].get_lines()
    labels = [line.get_label() for line in lines]
    assert [label for label in labels if not label.startswith("_")] == ["distracted", "attention"]
    assert len(compared.plot_curves().axes) == 2
    assert compared.report.exists()
    assert compared.report in compared.files
    compared.show()
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert str(compared.table()) in shown
    assert compared.conclusion[0] in shown


@pytest.mark.usefixtures("no_figures")
def test_a_finished_comparison_is_loaded_without_training(compared, tmp_path, monkeypatch):
    loaded = s2s.Comparison.load(compared.folder)
    assert loaded.results == compared.results
    assert loaded.report == compared.report
    assert (
        loaded.model("attention").translate(["a b"]).sentences
        == compared.model("attention").translate(["a b"]).sentences
    )
    compared.report.unlink()
    assert loaded.write().report.exists()
    with pytest.raises(s2s.UserError, match=r"results\.json: no such file"):
        s2s.Comparison.load(tmp_path / "runs")


def test_an_experiment_file_leads_to_its_default_folder_and_then_to_the_results_beside_it(
    compared, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "experiments" / "mine" / "experiment.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("name: mine\n")
    for folder in (file.parent / "results", Path("comparisons") / "mine"):
        folder.mkdir(parents=True)
        shutil.copy(compared.folder / "results.json", folder)
        assert s2s.Comparison.load(file).folder == folder


def test_an_error_for_an_unknown_arm_lists_the_known_arms(compared):
    with pytest.raises(s2s.UserError, match=r"'attention' with seeds \[3\]"):
        compared.model("atention")


def test_overrides_beside_a_grid_are_refused(backwards, tmp_path):
    grid = experiment_grid({"name": "x", "baseline": "a", "arms": {"a": {}}, "base": backwards[1]})
    with pytest.raises(s2s.UserError, match="seeds: a RunGrid is complete"):
        s2s.compare(grid, tmp_path / "other", seeds=[1, 2])
    assert not (tmp_path / "other").exists()


def test_a_wrong_override_of_an_experiment_is_refused_before_anything_is_trained(backwards, tmp_path):
    experiment = {"name": "x", "baseline": "a", "arms": {"a": {}}, "base": backwards[1]}
    with pytest.raises(s2s.UserError, match="max_epochs"):
        s2s.compare(experiment, tmp_path / "out", training={"max_epoch": 3})
    assert list(tmp_path.iterdir()) == []
