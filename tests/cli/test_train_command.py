"""`train`: its run folder, interruption and errors."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seq2seq_attn.files.lock import locked


def test_a_run_folder_is_whole_and_the_answer_says_how_it_went(program, toy, tmp_path):
    run = tmp_path / "my run"
    answer = program("train", toy / "toy.yaml", "--output", run, "training.max_epochs=1")
    assert answer.code == 0
    metrics = json.loads((run / "metrics.json").read_text())
    assert f"best validation loss {metrics['training']['best']:.2f}" in answer.out
    assert metrics["test"]["bleu"]["signature"] in answer.out
    assert answer.err.splitlines()[-1].startswith("next: ")
    assert answer.err.splitlines()[-1].endswith(f" translate '{run}' FILE")
    files = {path.name for path in run.iterdir()}
    assert {"config.yaml", "model.safetensors", "metrics.json", "checkpoints", "log"} <= files
    assert not [name for name in files if name.endswith(".part")]


def test_overrides_replace_values_and_the_folder_is_named_after_the_file(program, toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program("train", toy / "toy.yaml", "training.max_epochs=1", "model.decoder.hidden_size=13", "data.test=null")
    config = (tmp_path / "runs/toy/config.yaml").read_text()
    assert "hidden_size: 13" in config


def test_a_training_whose_time_is_over_before_its_first_validation_says_so(program, toy, tmp_path):
    answer = program("train", toy / "toy.yaml", "--output", tmp_path / "run", "training.max_hours=1e-9")
    assert answer.code == 0
    assert "no validation yet" in answer.out
    assert "inf" not in answer.out


def test_a_run_is_replaced_or_continued_only_where_that_is_asked_for(program, refused, toy, tmp_path):
    train = "train", toy / "toy.yaml", "--output", tmp_path / "run", "data.test=null"
    program(*train, "training.max_epochs=1")
    before = (tmp_path / "run/model.safetensors").read_bytes()
    message = refused(*train, "training.max_epochs=1")
    assert "--resume" in message
    assert "--overwrite" in message
    assert "one of them" in refused(*train, "--resume", "--overwrite")
    assert "model.embedding_size=6" in refused(*train, "--resume", "model.embedding_size=7")
    assert (tmp_path / "run/model.safetensors").read_bytes() == before

    own = "train", tmp_path / "run/config.yaml", *train[2:]
    assert "run: contains" in refused(*own, "--overwrite")
    assert (tmp_path / "run/model.safetensors").read_bytes() == before

    assert "2 epochs" in program(*own, "--resume", "training.max_epochs=2").out
    assert program(*train, "--overwrite", "training.max_epochs=1", "model.embedding_size=7").code == 0


def epochs(path):
    with path.open(newline="") as file:
        return [int(row["epoch"]) for row in csv.DictReader(file) if row["validation_loss"]]


@pytest.mark.slow  # seconds; .ci/run includes it
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_last_checkpoint_and_the_printed_command_continues(program, toy, tmp_path, number, code):
    run, last = tmp_path / "a run", tmp_path / "a run/checkpoints/last.safetensors"
    training = subprocess.Popen(
        [
            sys.executable, "-m", "seq2seq_attn", "train", toy / "toy.yaml", "--output", run,
            "training.max_epochs=15", "training.batch_size=60", "data.test=null",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not last.exists():
        assert training.poll() is None
        time.sleep(0.02)
    training.send_signal(number)
    out, err = training.communicate(timeout=300)
    assert (training.returncode, out) == (code, "")
    assert last.exists()
    assert "Traceback" not in err

    interrupted, command = err.splitlines()[-2:]
    assert f"{run} keeps what was trained up to its last checkpoint" in interrupted
    python, dash_m, package, *arguments = shlex.split(command)
    assert (python, dash_m, package) == (sys.executable, "-m", "seq2seq_attn")
    assert arguments[-1] == "--resume"
    assert "15 epochs" in program(*arguments).out
    assert epochs(run / "log" / "metrics.csv") == list(
        range(1, 16)
    )  # each once: the curves are those of the checkpoint


def test_a_second_training_in_a_folder_is_refused_with_the_owner_and_harms_nothing(program, refused, toy, tmp_path):
    run = tmp_path / "run"
    train = "train", toy / "toy.yaml", "--output", run, "training.max_epochs=1"
    assert program(*train).code == 0
    with locked(run):  # in another thread: this process would enter its own lock
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        for command in ((*train, "seed=2", "--overwrite"), (*train, "--resume"), train, ("evaluate", run)):
            with ThreadPoolExecutor(1) as other:
                message = other.submit(refused, *command).result()
            assert f"{run}: in use by process {os.getpid()} on " in message
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_nan_loss_stops_the_training_and_names_the_step(program, toy, tmp_path):
    answer = program(
        "train", toy / "toy.yaml", "--output", tmp_path / "run", "training.optimizer.learning_rate=3e38",
        "training.clip_norm=null",
    )  # fmt: skip
    first, message = answer.err.splitlines()
    assert (answer.code, answer.out) == (2, "")
    assert first.startswith("run: CPU with ")
    assert "at step " in message
    assert "learning_rate=3e+38" in message
    assert not (tmp_path / "run/model.safetensors").exists()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.bach_size=3", ["training.bach_size", "'training.batch_size'"]),
        ("model.context.scorer=aditive", ["aditive", "'additive'"]),
        ("model.context.scorer.hiden_size=3", ["hiden_size", "'hidden_size'"]),
        ("model.decoder.cell=gruu", ["gruu", "'gru'"]),
        ("training.batch_size=many", ["training.batch_size", "many"]),
        ("training.batch_size", ["key.path=value"]),
        ("model.context.scorer=dot", ["got 11 and 10", "use General"]),
        ("data.max_length=0", ["data.max_length"]),
        ("model.tie_embeddings=all", ["text.joint"]),
    ],
)
def test_an_invalid_configuration_is_refused_before_anything_is_written(refused, toy, tmp_path, override, words):
    message = refused("train", toy / "toy.yaml", "--output", tmp_path / "run", override)
    for word in words:
        assert word in message
    assert not (tmp_path / "run").exists()


def test_the_schema_of_a_configuration_is_printed_for_editors(program):
    assert "training" in json.loads(program("train", "--schema").out)["properties"]


def test_the_keys_of_a_configuration_are_listed_with_types_defaults_and_meanings(program, refused):
    listed = program("train", "--keys").out.splitlines()
    (limit,) = (line for line in listed if line.startswith("training.max_epochs: "))
    assert "# whole number > 0 or `null`; an upper limit" in limit
    paths = {line.partition(":")[0] for line in listed if not line.startswith("#")}
    assert {"seed", "data.train.source", "model.context.scorer.name", "search.beam_size"} <= paths
    below = program("train", "--keys", "model.decoder").out.splitlines()
    assert [line for line in below if line.startswith("#")][:1] == ["# model.decoder, kind bahdanau"]
    assert all(line.lstrip("# ").startswith("model.decoder") for line in below)
    for kind in ("bahdanau", "luong"):  # each kind has all of its keys
        place = below.index(f"# model.decoder, kind {kind}")
        assert below[place + 1].startswith(f"model.decoder.kind: {kind}")
        assert any(line.startswith("model.decoder.hidden_size: ") for line in below[place + 1 : place + 9])
    (line,) = program("train", "--keys", "training.clip_norm").out.splitlines()
    assert line.startswith("training.clip_norm: ")
    assert "there is no key 'model.decodr' in a configuration; did you mean 'model.decoder'?" in refused(
        "train", "--keys", "model.decodr"
    )


def test_a_tokenizer_that_cannot_be_used_is_refused_before_training(refused, toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    message = refused("train", toy / "toy.yaml", "--output", tmp_path / "run", "evaluation.tokenize=ja-mecab")
    assert "'ja-mecab' cannot be used" in message
    assert "pip install sacrebleu[ja]" in message
    assert not (tmp_path / "run").exists()
