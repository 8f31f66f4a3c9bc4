"""Files that cannot be used: exit code 2, one line that names the file and the way out, and nothing written."""

import io
import os
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from safetensors.torch import load_file, save_file

from seq2seq_attn.cli import main

MISSING, TRAIN = "{tmp}/nowhere", "train {toy}/toy.yaml --output {tmp}/run "
FILES = {
    "latin1": b"a b\nc\ncaf\xe9\n",
    "empty": b"",
    "blank": b"\n" * 60,
    "blank2": b"\n \n",
    "two": b"a b\nc d\n",
    "long": b"a b c d e f g h i\n" * 60,
    "longer": b"a\n" + b"a " * 20_000 + b"\n",
    "links": b"0-0\n" * 5,
    "no-links": b"0-0\n1:1\n" + b"\n" * 5,
    "digits": b"0-" + b"9" * 5000 + b"\n" * 7,
    "syntax.yaml": b"seed: 1\ndata: a: b\n",
    "deep.yaml": b"a: " + b"[" * 5000,
    "nul.yaml": b"seed: \0\n",
    "letter.txt": b"dear",
}
PAIRS = "{toy}/test.src {toy}/test.tgt"
LONG = "line 2 of the source: 20,000 tokens, and this model reads 20 at most"
REFUSALS = [
    (TRAIN + "data.train.target={tmp}/two", "train.src has 60 lines", "two has 2"),
    (TRAIN + "data.train.source={tmp}/latin1", "{tmp}/latin1, line 3: not UTF-8 (byte 0xe9)"),
    (TRAIN + "data.test.source={tmp}/latin1", "{tmp}/latin1, line 3: not UTF-8 (byte 0xe9)"),
    ("translate {run} {tmp}/latin1", "{tmp}/latin1, line 3: not UTF-8 (byte 0xe9)"),
    ("evaluate --hypotheses {tmp}/latin1 --references {toy}/test.tgt", "{tmp}/latin1, line 3: not UTF-8 (byte 0xe9)"),
    ("align {run} {tmp}/latin1 {toy}/test.tgt", "{tmp}/latin1, line 3: not UTF-8 (byte 0xe9)"),
    (TRAIN + f"data.validation.source={MISSING}", MISSING),
    (TRAIN + f"data.test.alignments={MISSING}", MISSING),
    (f"train {MISSING}", MISSING),
    (f"compare {MISSING}", MISSING),
    (f"report {MISSING}", MISSING),
    (f"translate {{run}} {MISSING}", MISSING),
    (f"translate {MISSING} {{toy}}/test.src", MISSING),
    (f"score {{run}} {{toy}}/test.src {MISSING}", MISSING),
    (f"align {{run}} {PAIRS} --gold {MISSING}", MISSING),
    (f"data stats --source {MISSING} --target {{toy}}/test.tgt", MISSING),
    (TRAIN + "data.train.source={tmp}/empty", "{tmp}/empty: the file is empty"),
    (TRAIN + "data.train.source={tmp}", "{tmp}: a folder; give a file"),
    ("translate {run} {tmp}/empty", "{tmp}/empty: the file is empty"),
    (TRAIN + "data.train.source={tmp}/blank", "60 with a blank side"),
    (TRAIN + "data.train.source={tmp}/long", "60 longer than data.max_length=8"),
    (
        TRAIN + "data.test.source={tmp}/blank2 data.test.target={tmp}/two",
        "{tmp}/blank2 and",
        "no pair with text on both sides",
    ),
    ("train {toy}/toy.yaml --output {tmp}/link", "{tmp}/link"),
    ("train {tmp}/link", "{tmp}/link"),
    ("train {tmp}/syntax.yaml", "syntax.yaml:2: not YAML"),
    ("train {tmp}/key.yaml", "key.yaml:1: unknown key 'serch.beam_size' (did you mean 'search.beam_size'?)"),
    ("train {tmp}/deep.yaml", "deep.yaml"),
    ("compare {tmp}/nul.yaml", "nul.yaml, line 1"),
    ("train {toy}/toy.yaml --output {tmp} --overwrite", "{tmp}", "is not a run"),
    ("translate {tmp} {toy}/test.src", "{tmp}", "not a run folder"),
    ("translate {run} --n-best two", "--n-best"),
    ("translate {run} --n-best 9", "n_best=9 needs a beam at least as wide, got beam_size=5; set beam_size=9"),
    ("translate {run} --mbr bleu --n-best 6", "n_best=6 exceeds candidates=5; set candidates=6"),
    ("translate {run} --beam-size 0", "'--beam-size': Input should be greater"),
    ("translate {run} --precision fp8", "--precision", "fp8"),
    (f"align {{run}} {PAIRS} --gold {{tmp}}/links", "5 lines for 7 sentence pairs"),
    (f"align {{run}} {PAIRS} --gold {{tmp}}/no-links", "line 2: '1:1' is not a link"),
    (f"align {{run}} {PAIRS} --gold {{tmp}}/digits", "line 1: '0-999"),
    ("evaluate --links {tmp}/digits --gold {tmp}/digits", "line 1: '0-999"),
    ("score {run} {tmp}/longer {tmp}/longer", LONG),
    ("align {run} {tmp}/longer {tmp}/longer", LONG),
    ("faithfulness {run} {tmp}/longer {tmp}/longer", LONG),
    ("evaluate demo", "nothing is written"),
    ("translate demo/none", "demo/attention, demo/distracted"),
    ("translate a\udcffb", "not UTF-8, or with a NUL"),
    ("translate {run} a\udcffb", "not UTF-8, or with a NUL"),
    ("train {toy}/toy.yaml --output a\0b", "not UTF-8, or with a NUL"),
]


@pytest.mark.parametrize(("line", "words"), [(line, words) for line, *words in REFUSALS])
def test_a_command_is_refused_by_what_is_wrong_and_writes_nothing(refused, trained, toy, tmp_path, line, words):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "key.yaml").write_text("serch: {beam_size: 3}\n" + (toy / "toy.yaml").read_text())
    (tmp_path / "link").symlink_to(tmp_path / "link")
    places = {"toy": toy, "run": trained, "tmp": tmp_path}
    message = refused(*(word.format(**places) for word in line.split(" ")))
    assert [word for word in words if word.format(**places) not in message] == []
    assert len(message) < 500 + len(str(tmp_path))
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "letter.txt").read_bytes() == b"dear"


@pytest.fixture
def bad_run(trained, tmp_path):
    """A copy of the trained run, to spoil."""
    return shutil.copytree(trained, tmp_path / "bad run")


def test_invalid_utf8_on_stdin_is_named_with_its_line(refused, trained):
    assert "stdin, line 1: not UTF-8 (byte 0xff)" in refused("translate", trained, stdin=b"\xff\na\n")


@pytest.mark.parametrize("content", [b"", b"no weights at all", None])
def test_a_truncated_or_foreign_model_file_is_named(refused, bad_run, toy, content):
    file = bad_run / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100] if content is None else content)
    assert f"{file}: damaged or edited" in refused("translate", bad_run, toy / "test.src")
    (bad_run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    assert f"{file}: not the model" in refused("translate", bad_run, toy / "test.src")


def test_the_model_of_other_sizes_is_refused(refused, bad_run, toy):
    config = bad_run / "config.yaml"
    config.write_text(config.read_text().replace("embedding_size: 6", "embedding_size: 7"))
    (bad_run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    assert f"{bad_run / 'model.safetensors'}: not the model" in refused("translate", bad_run, toy / "test.src")


def test_a_run_without_its_model_says_how_to_go_on(refused, bad_run, toy):
    (bad_run / "model.safetensors").unlink()
    assert "--resume" in refused("translate", bad_run, toy / "test.src")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("model.embedding_size=99999999999", "a number of at most 1,000,000 is wanted"),
        ("model.encoder.layers=100000", "a number of at most 256 is wanted"),
        ("model.decoder.hidden_size=900000", "the model needs more than"),
        ("model.context.scorer.hidden_size=90000000000", "the model needs more than"),
        ("model.embedding_size=" + "9" * 5000, "a number of 5,000 digits"),
        ("text.vocabulary_size=99999999999", "a number less than 2,147,483,648 is wanted"),
        ("training.max_epochs=" + "9" * 30, "a number below 2^63 is wanted"),
        ("search.beam_size=99999999", "a number of at most 100,000 is wanted"),
        ("seed=4294967296", "a number less than 4,294,967,296 is wanted"),
        ("seed=-1", "a number of at least 0 is wanted"),
        ("training.optimizer.betas=[0.9, 1.0]", "a number less than 1 is wanted"),
        ("training.optimizer.betas=[-0.1, 0.9]", "a number of at least 0 is wanted"),
        ("training.optimizer.betas=[true, 0.9]", "a number is wanted"),
        ("training.optimizer.learning_rate=.inf", "a finite number is wanted"),
        ("training.optimizer.learning_rate=nan", "a finite number is wanted"),
        ("training.clip_norm=.nan", "a finite number is wanted"),
        ("training.batch_size=true", "a number is wanted"),
        ("model.context.normalizer={name: softmax, temperature: .inf}", "a finite number is wanted"),
        ("model.context.normalizer={name: softmax, temperature: true}", "a number is wanted"),
        ('data.train.source="a\\0b"', "a NUL"),
        ('data.train.source="a\\ud800b"', "half a surrogate pair"),
        ("data.train.source=a\udcffb", "not UTF-8"),
        (".".join("a" * 2000) + "=1", "2,000 nested keys"),
        ("seed=" + "[" * 20000, "levels of nesting"),
        ("seed=!!int x", "the tag"),
        ("model={null: 1}", "not text but null"),
        ("model={kind: a, kind: b}", "occurs twice"),
        ("seed=" + "a" * 100_000, "at most 50,000"),
    ],
)
def test_a_value_that_no_training_takes_is_refused_in_a_short_line(
    refused, toy, tmp_path, monkeypatch, override, reason
):
    monkeypatch.setattr("seq2seq_attn.runs.building.machine_memory", lambda: 10**9)  # on any machine
    message = refused("train", toy / "toy.yaml", "--output", tmp_path / "run", override)
    assert reason in message
    assert len(message) < 400
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["embedding_size: 6", "hidden_size: 5", "hidden_size: 11"])
def test_a_model_folder_of_4_000_000_units_is_refused_before_anything_is_allocated(refused, bad_run, toy, key):
    (bad_run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    config = bad_run / "config.yaml"
    config.write_text(config.read_text().replace(key, key.split()[0] + " 900000", 1))
    assert "model" in refused("translate", bad_run, toy / "test.src")
    config.write_text(config.read_text().replace("900000", "4000000"))
    assert "at most 1,000,000" in refused("translate", bad_run, toy / "test.src")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(refused, bad_run, toy, value):
    weights = load_file(bad_run / "model.safetensors")
    name = sorted(weights)[3]
    weights[name].view(-1)[-1] = value
    save_file(weights, bad_run / "model.safetensors")
    (bad_run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    assert f"{name} has values that are not finite" in refused("translate", bad_run, toy / "test.src")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("source.tokenizer.json", b"[" * 100_000),
        ("source.tokenizer.json", b'{"kind": "word", "options": {}, "files": [], "lowercase": [1]}'),
        ("source.tokenizer.json", b'{"kind": "sentencepiece", "options": {"model": 1}, "files": [], "lowercase": 1}'),
        ("metrics.json", b"null"),
        ("metrics.json", b"7"),
        ("metrics.json", b"[[1]]"),
        ("metrics.json", b"[" * 100_000),
        ("metrics.json", b'{"training": {}}'),
        ("metrics.json", b'{"training": {"best": 1, "epochs": 1, "seconds": 1}, "test": {"bleu": null}}'),
    ],
)  # fmt: skip
def test_a_damaged_file_of_a_run_is_named(refused, bad_run, name, content):
    (bad_run / name).write_bytes(content)
    assert f"{bad_run / name}: damaged or edited" in refused("evaluate", bad_run)
    (bad_run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    message = refused("evaluate", bad_run)
    assert f"{bad_run / name}: " in message
    assert message.endswith("; restore it, or train the run again\n")


def test_a_value_of_any_size_makes_a_message_of_one_screen(refused):
    message = refused("translate", "a" * 100_000)
    assert message.startswith("seq2seq-attn: aaa")
    assert len(message) < 2100


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["data", "list"], ["translate", "RUN"], ["walk", "--json"]]
)
def test_a_full_device_and_a_closed_stdout_are_named(trained, monkeypatch, capfd, arguments):
    arguments = [str(trained) if each == "RUN" else each for each in arguments]
    for device, reason in (("/dev/full", "No space left on device"), (None, "closed")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\n")))
        monkeypatch.setattr(sys, "stdout", device and os.fdopen(os.open(device, os.O_WRONLY), "w"))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        message = capfd.readouterr().err
        assert message.startswith("seq2seq-attn: stdout")
        assert reason in message
        assert message.count("\n") == 1


def test_memory_that_runs_out_is_one_line(refused, monkeypatch):
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ...")):
        monkeypatch.setattr("seq2seq_attn.walk", Mock(side_effect=error))
        assert "out of memory" in refused("walk")


def test_a_user_without_a_home_folder_has_one_that_cannot_be_written(program, monkeypatch):
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    monkeypatch.setenv("HOME", "as before")  # restored after the test
    assert program("--version").code == 0
    assert os.environ["HOME"] == os.devnull


def test_a_library_that_is_not_installed_is_named_with_the_command_that_installs_it(refused, monkeypatch, tmp_path):
    def load(paths):
        raise ModuleNotFoundError(name="yaml")

    monkeypatch.setattr("seq2seq_attn.runs.plugin.load_plugins", load)
    message = refused("scorers", "--plugin", tmp_path)
    assert "this command needs yaml, which is not installed: pip install 'seq2seq_attn' (in a clone: '.')" in message
