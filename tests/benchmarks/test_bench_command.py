"""`python -m benchmarks`, from its options to what it shows."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.common_task import MODELS
from benchmarks.records import Sitting
from benchmarks.sitting import MEASURES, MeasurementFailedError

TINY = ["--batch", "3", "--batches", "1", "--warm-up", "0", "--repeats", "1", "--threads", "1", "--precision", "fp32"]


@pytest.fixture(autouse=True)
def _small_corpus(monkeypatch):
    monkeypatch.setattr("benchmarks.common_task.PAIRS", 290)


@pytest.fixture(params=["here", pytest.param("process", marks=pytest.mark.slow)])
def _measured_here(request, monkeypatch):
    """Measurements in this process, as starting one takes seconds; once as they are."""
    if request.param == "here":
        monkeypatch.setattr("benchmarks.sitting.measure_own", lambda job, effort: MEASURES[job.what](job, effort))


@pytest.mark.usefixtures("_measured_here")
def test_measurements_are_written_shown_and_plotted_on_a_page(tmp_path, capfd):
    path = tmp_path / "speed.json"
    assert main(["--what", "training", "--model", "general", *TINY, "--output", str(path)]) == 0
    measured = capfd.readouterr()
    sitting = Sitting.load(path)
    (figure,) = sitting.figures
    assert (figure.job.what, figure.job.model, len(figure.values)) == ("training", "general", 1)
    assert f"{figure.value:,.1f} tokens/s" in measured.err
    assert f"{figure.value:,.0f}" in measured.out
    assert "290 pairs, 7,870 vocabulary entries" in measured.out

    assert main(["--from", str(path), "--page", str(tmp_path / "speed.md")]) == 0
    shown = capfd.readouterr()
    assert shown.out == measured.out
    assert shown.err.splitlines() == [str(tmp_path / "speed.md"), str(tmp_path / "speed" / "1_training.svg")]


def test_a_sweep_takes_one_model_and_its_lower_bound_by_default(monkeypatch, capsys):
    planned = []
    empty = Sitting("", "", None, "", "", 1, 1, ())
    monkeypatch.setattr("benchmarks.sitting.run_rounds", lambda sitting, tasks, *_: planned.extend(tasks) or empty)
    assert main(["--sweep", "batch", "--precision", "fp32"]) == 0
    assert {task.job.model for task in planned} == {"additive"}
    assert {task.job.what for task in planned} == {"training", "products", "bytes"}
    assert {task.job.batch for task in planned} == {1, 4, 16, 64, 256}


def test_a_measurement_that_fails_is_named_in_the_sitting_and_the_exit_code_is_1(monkeypatch, tmp_path, capsys):
    def measure(job, effort):
        if job.model == "general":
            raise MeasurementFailedError("exit code 1: out of memory")
        return MEASURES[job.what](job, effort)

    monkeypatch.setattr("benchmarks.sitting.measure_own", measure)
    path = tmp_path / "x.json"
    assert main(["--what", "training", "--model", "general,distracted", *TINY, "--output", str(path)]) == 1
    failure = "round 1 of 1: seq2seq_attn, training, general, fp32: exit code 1: out of memory"
    written = json.loads(path.read_text())
    assert [each["job"]["model"] for each in written["figures"]] == ["distracted"]
    assert written["failures"] == [failure]
    printed = capsys.readouterr()
    assert f"failed: {failure}" in printed.out
    assert failure in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--what", "training,beem"], ["'beem'", "beam"]),
        (["--model", "tree"], ["'tree'", ", ".join(MODELS)]),
        (["--model", "transformer", "--what", "products,profile"], ["products, profile", "recurrent models only"]),
        (["--page", "speed.md"], ["--page", "--output", "--from"]),
        (["--repeats", "0"], ["--repeats", "'0'", "from 1"]),
        (["--output", "/"], ["/: a folder; name a file"]),
        (["/nowhere"], ["/nowhere/train.bpe.en", "no such file"]),
        (["--peers", "/nowhere", "--sweep", "batch"], ["/nowhere/data", "leave out the corpus"]),
        (["--from", "/nowhere.json"], ["/nowhere.json", "`python -m benchmarks --output` writes it"]),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(arguments, words, capsys):
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    message = " ".join(capsys.readouterr().err.split())
    for word in words:
        assert word in message
