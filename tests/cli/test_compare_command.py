"""`compare`, `report` and `demo`: a table, what it says in words, and pictures."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml

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


def test_an_experiment_gives_a_table_a_conclusion_and_pictures(program, experiment, tmp_path):
    compare = "compare", experiment / "experiment.yaml", "--runs", tmp_path / "runs", "training.max_epochs=1"
    answer = program(*compare)
    results = Results.load(experiment / "results/results.json")
    assert answer.code == 0
    assert conclusion(results)[0] in answer.out
    listed = answer.out.partition(f"{experiment / 'results'}:\n")[2].split()
    files = "report.html", "table.md", "table.tex", "table.csv", "where.csv", "bleu_by_length.png", "curves.svg"
    assert set(files) <= set(listed)
    assert all((experiment / "results" / name).stat().st_size for name in listed)

    model = tmp_path / "runs/toy/attention/seed-1/model.safetensors"
    made = model.stat().st_mtime_ns
    again = program(*compare, "--output", tmp_path / "elsewhere")
    assert "done before" in again.err
    assert model.stat().st_mtime_ns == made
    assert (tmp_path / "elsewhere/results.json").exists()

    shown = program("report", tmp_path / "elsewhere")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == again.out
    for named in (experiment, experiment / "experiment.yaml"):
        assert program("report", named).out == answer.out

    program(*compare, "--overwrite", "--output", tmp_path / "elsewhere")
    assert model.stat().st_mtime_ns > made


def test_the_demo_shows_what_it_found(program, experiment, tmp_path, monkeypatch):
    """`comparison.compare.demo` is replaced: it trains for minutes."""
    asked = []

    def demo(output, quick, say, if_exists, command):
        asked.append((output, quick))
        arguments = ["compare", experiment / "experiment.yaml", "--runs", tmp_path / "runs", "--output", output]
        assert program(*arguments, "training.max_epochs=1").code == 0
        return Results.load(output / "results.json")

    monkeypatch.setattr("seq2seq_attn.comparison.compare.demo", demo)
    answer = program("demo", "--quick", "--output", tmp_path / "demo")
    assert asked == [(tmp_path / "demo", True)]
    assert "attention" in answer.out
    assert "BLEU (95 % interval" in answer.out
    assert f"\n{tmp_path / 'demo'}:\n" in answer.out
    assert (tmp_path / "demo/bleu_by_length.png").exists()


@pytest.mark.parametrize("command", ["compare", "demo"])
def test_ctrl_c_gives_the_command_that_goes_on(program, experiment, tmp_path, monkeypatch, command):
    from seq2seq_attn.comparison import compare

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "compare", interrupted)
    monkeypatch.setattr(compare, "demo", interrupted)
    arguments = [command, *([str(experiment / "experiment.yaml"), "--overwrite"] if command == "compare" else [])]
    monkeypatch.setattr(sys, "argv", ["/some where/seq2seq-attn", *arguments])
    answer = program(*arguments)
    assert (answer.code, answer.out) == (130, "")
    assert "finished runs are kept, and the others up to their last whole epoch" in answer.err
    goes_on = [argument for argument in arguments if argument != "--overwrite"]  # that would begin anew
    assert answer.err.splitlines()[-1].strip() == " ".join(["'/some where/seq2seq-attn'", *goes_on])


def test_ctrl_c_stops_all_processes_and_keeps_the_epochs_of_those_at_work(experiment, tmp_path):
    """As a terminal sends it, to the whole group; a third run is waiting for its turn."""
    command = [
        "compare", f"{experiment / 'experiment.yaml'}", "--runs", f"{tmp_path / 'runs'}", "--output", f"{tmp_path}",
        "--jobs", "2", "seeds=[1,2]", "training.max_epochs=2000", "training.batch_size=60",
    ]  # fmt: skip
    comparison = subprocess.Popen(
        [sys.executable, "-m", "seq2seq_attn", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    kept = [tmp_path / "runs/toy/attention" / seed / "checkpoints/last.ckpt" for seed in ("seed-1", "seed-2")]
    while not all(checkpoint.exists() for checkpoint in kept):
        assert comparison.poll() is None
        time.sleep(0.02)
    os.killpg(comparison.pid, signal.SIGINT)
    out, err = comparison.communicate(timeout=60)  # ends when no process holds stderr any more
    assert (comparison.returncode, out) == (130, "")
    assert "Traceback" not in err
    interrupted, resume = err.splitlines()[-2:]
    assert "interrupted; finished runs are kept, and the others up to their last whole epoch" in interrupted
    assert shlex.split(resume) == [sys.executable, "-m", "seq2seq_attn", *command]
    assert all(torch.load(checkpoint, weights_only=True)["state_dict"] for checkpoint in kept)
    assert not (tmp_path / "runs/toy/distracted").exists()


def test_a_run_s_configuration_and_an_experiment_name_each_other_s_command(refused, toy, experiment, tmp_path):
    message = refused("compare", toy / "toy.yaml", "--runs", tmp_path / "runs", "training.max_epochs=1")
    assert "toy.yaml: this is the configuration of one run; train it with: seq2seq-attn train" in message
    message = refused("train", experiment / "experiment.yaml", "--output", tmp_path / "run", "training.max_epochs=1")
    assert "experiment.yaml: this is an experiment; train its arms with: seq2seq-attn compare" in message
    assert not list(tmp_path.iterdir())


def test_an_unknown_arm_or_key_is_refused_before_anything_is_trained(refused, experiment, tmp_path):
    compare = "compare", experiment / "experiment.yaml", "--runs", tmp_path / "runs", "--output", tmp_path / "out"
    assert "(did you mean 'training.batch_size'?)" in refused(*compare, "training.bach_size=3")
    message = refused(*compare, "baseline=distrcted")
    assert "command line: baseline 'distrcted' is not among the arms: attention, distracted" in message
    assert not list(tmp_path.iterdir())
