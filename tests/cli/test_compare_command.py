"""`compare`, `report` and `demo`: a table, what it says in words, and pictures."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.results.results import Results


@pytest.fixture(scope="session")
def experiment(toy):
    """An attention arm and a distracted one, an epoch each, on the toy corpus."""
    folder = toy / "experiment"
    folder.mkdir()
    (folder / "experiment.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "toy",
                "baseline": "distracted",
                "arms": {"attention": {}, "distracted": ["model.context.kind=fixed"]},
                "base": "../toy.yaml",
            }
        )
    )
    return folder


def test_an_experiment_gives_a_table_a_conclusion_and_a_page(program, experiment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compare = "compare", experiment / "experiment.yaml", "training.max_epochs=1"
    answer = program(*compare)
    made = Path("comparisons/toy")
    results = Results.load(made / "results.json")
    assert answer.code == 0
    *table, first, second, last = answer.out.splitlines()
    assert (first, last) == (conclusion(results)[0], "open comparisons/toy/report.html")
    assert second in conclusion(results)[1:]
    assert "Signature" not in "".join(table), "which is in the report"
    assert "Signature of Perplexity" in (made / "table.md").read_text()
    best = results.best.name
    assert answer.err.splitlines()[-1].endswith(f" translate comparisons/toy/runs/{best}/seed-1")
    files = "report.html", "table.md", "table.tex", "table.csv", "where.csv", "by_length.png", "curves.svg"
    assert all((made / name).stat().st_size for name in files)

    monkeypatch.setattr("seq2seq_attn.report.write._figures", lambda *_: iter(()))  # are there now
    model = made / "runs/attention/seed-1/model.safetensors"
    trained = model.stat().st_mtime_ns
    again = program(*compare)
    assert "done before" in again.err
    assert model.stat().st_mtime_ns == trained
    for named in (made, experiment / "experiment.yaml"):
        shown = program("report", named)
        assert (shown.code, shown.out, shown.err) == (0, answer.out, "")
    reader, writer = os.pipe()
    os.close(reader)
    with monkeypatch.context() as closed, os.fdopen(writer, "w") as pipe:
        closed.setattr(sys, "stdout", pipe)
        assert program("report", made).code == 141

    again = program(*compare, "--evidence", made / "evidence.json.gz", "--output", "again")
    assert (again.code, again.out.replace("again/", "comparisons/toy/")) == (0, answer.out)
    assert "2 of 2 runs are in comparisons/toy/evidence.json.gz" in again.err
    assert "next:" not in again.err, "no run was trained here"

    page = (made / "report.html").read_bytes()
    agreed = program("report", made, "--recompute")
    assert (agreed.code, agreed.err, (made / "report.html").read_bytes()) == (0, "", page)
    assert re.fullmatch(r"all [\d,]+ values of comparisons/toy agree with the evidence\n", agreed.out)
    values = json.loads((made / "results.json").read_text())
    values["arms"][0]["scores"]["bleu"]["mean"] += 1.5
    (made / "results.json").write_text(json.dumps(values))
    found = program("report", made, "--recompute")
    assert found.code == 1
    assert re.fullmatch(r"arms\.0\.scores\.bleu\.mean: [\d.]+ stored, [\d.]+ recomputed\n", found.out)
    assert re.fullmatch(r"1 of [\d,]+ values of comparisons/toy differ from the evidence\n", found.err)

    program(*compare, "--overwrite")
    assert model.stat().st_mtime_ns > trained


@pytest.mark.usefixtures("no_figures")
def test_a_run_and_a_comparison_of_the_same_name_have_places_of_their_own(program, refused, toy, tmp_path, monkeypatch):
    """As the README's `mine`: neither command touches what the other made, with or without --overwrite."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.yaml").write_text((toy / "toy.yaml").read_text())
    experiment = {"name": "toy", "baseline": "one", "arms": {"one": {}}, "base": "toy.yaml"}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    assert program("train", "toy.yaml", "training.max_epochs=1", "data.test=null").code == 0
    assert program("compare", "experiment.yaml", "training.max_epochs=1").code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    message = refused("train", "toy.yaml", "--output", "comparisons/toy", "--overwrite")
    assert "comparisons/toy: holds a comparison (comparison.json), not a run; name another folder" in message
    message = refused("compare", "experiment.yaml", "--output", "runs/toy", "--overwrite")
    assert "runs/toy: holds a run of `train` (SHA256SUMS), not a comparison; name another folder" in message
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("command", "number"), [("compare", signal.SIGINT), ("demo", signal.SIGINT), ("compare", signal.SIGTERM)]
)
def test_an_interruption_prints_the_command_that_continues(program, experiment, monkeypatch, command, number):
    from seq2seq_attn.comparison import compare

    def interrupted(*_, **__):
        signal.raise_signal(number)

    monkeypatch.setattr(compare, "compare", interrupted)
    arguments = [command, *([str(experiment / "experiment.yaml"), "--overwrite"] if command == "compare" else [])]
    monkeypatch.setattr(sys, "argv", ["/some where/seq2seq-attn", *arguments])
    before = signal.getsignal(signal.SIGTERM)
    answer = program(*arguments)
    assert (answer.code, answer.out) == (128 + number, "")
    assert signal.getsignal(signal.SIGTERM) is before
    assert "finished runs are kept, and the others up to their last checkpoint" in answer.err
    goes_on = [argument for argument in arguments if argument != "--overwrite"]  # which would start again
    assert answer.err.splitlines()[-1].strip() == " ".join(["'/some where/seq2seq-attn'", *goes_on])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_all_processes_and_keeps_the_epochs_of_those_at_work(experiment, tmp_path, number, code):
    """As a terminal sends Ctrl-C and a scheduler SIGTERM, to the whole group; a third run is waiting for its turn."""
    command = [
        "compare", f"{experiment / 'experiment.yaml'}", "--output", f"{tmp_path / 'out'}", "--jobs", "2",
        "seeds=[1,2]", "training.max_epochs=2000", "training.batch_size=60",
    ]  # fmt: skip
    comparison = subprocess.Popen(
        [sys.executable, "-m", "seq2seq_attn", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    kept = [tmp_path / "out/runs/attention" / seed / "checkpoints/last.safetensors" for seed in ("seed-1", "seed-2")]
    while not all(checkpoint.exists() for checkpoint in kept):
        assert comparison.poll() is None
        time.sleep(0.02)
    os.killpg(comparison.pid, number)
    out, err = comparison.communicate(timeout=300)  # ends when no process holds stderr any more
    assert (comparison.returncode, out) == (code, "")
    assert "Traceback" not in err
    interrupted, resume = err.splitlines()[-2:]
    assert "interrupted; finished runs are kept, and the others up to their last checkpoint" in interrupted
    assert shlex.split(resume) == [sys.executable, "-m", "seq2seq_attn", *command]
    assert all(load_file(checkpoint) for checkpoint in kept)
    assert not (tmp_path / "out/runs/distracted").exists()


def test_a_run_s_configuration_and_an_experiment_name_each_other_s_command(refused, toy, experiment, tmp_path):
    message = refused("compare", toy / "toy.yaml", "--output", tmp_path / "out", "training.max_epochs=1")
    assert "toy.yaml: this is the configuration of one run; train it with: seq2seq-attn train" in message
    message = refused("train", experiment / "experiment.yaml", "--output", tmp_path / "run", "training.max_epochs=1")
    assert "experiment.yaml: this is an experiment; train its arms with: seq2seq-attn compare" in message
    assert not list(tmp_path.iterdir())


def test_an_unknown_arm_or_key_is_refused_before_anything_is_trained(refused, experiment, tmp_path):
    compare = "compare", experiment / "experiment.yaml", "--output", tmp_path / "out"
    assert "(did you mean 'training.batch_size'?)" in refused(*compare, "training.bach_size=3")
    message = refused(*compare, "baseline=distrcted")
    assert "command line: baseline: 'distrcted' is not among the arms: attention, distracted" in message
    assert not list(tmp_path.iterdir())


def test_a_live_page_is_refused_before_anything_is_written(refused):
    published = Path(__file__).parents[2] / "experiments" / "tom-and-jerry" / "results"  # without its runs
    assert "the page needs the model of arm 'additive attention', which is not here" in refused(
        "report", published, "--live"
    )
    assert "no run of arm 'adative'" in refused("report", published, "--live", "--arm", "adative")
    assert "give --live, too" in refused("report", published, "--arm", "additive attention")
    assert "--recompute writes nothing" in refused("report", published, "--live", "--recompute")
