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


@pytest.fixture
def train(refused, toy, tmp_path):
    """Refused training with changes of the configuration; checks that no run folder is left."""

    def run(*overrides):
        message = refused("train", toy / "toy.yaml", "--output", tmp_path / "run", *overrides)
        assert not (tmp_path / "run").exists()
        return message

    return run


@pytest.fixture
def bad_run(trained, tmp_path):
    """A copy of the trained run, to spoil."""
    return shutil.copytree(trained, tmp_path / "bad run")


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def test_files_with_different_numbers_of_lines_are_named_with_both(train, toy, write):
    message = train(f"data.train.target={write('short', b'a' + bytes([10]) + b'b' + bytes([10]))}")
    assert "train.src has 60 lines" in message
    assert "short has 2" in message


def test_invalid_utf8_is_named_with_file_and_line(train, refused, trained, toy, write):
    bad = write("latin1", b"a b\nc\ncaf\xe9\n")
    for message in (
        train(f"data.train.source={bad}"),
        train(f"data.test.source={bad}"),
        refused("translate", trained, bad),
        refused("evaluate", "--hypotheses", bad, "--references", toy / "test.tgt"),
        refused("align", trained, bad, toy / "test.tgt"),
    ):
        assert f"{bad}, line 3: not UTF-8 (byte 0xe9)" in message


def test_invalid_utf8_on_stdin_is_named_with_its_line(refused, trained):
    assert "stdin, line 1: not UTF-8 (byte 0xff)" in refused("translate", trained, stdin=b"\xff\na\n")


def test_a_missing_file_is_named(train, refused, trained, toy, tmp_path):
    missing = tmp_path / "nowhere"
    for message in (
        train(f"data.validation.source={missing}"),
        train(f"data.test.alignments={missing}"),
        refused("train", missing),
        refused("compare", missing),
        refused("report", missing),
        refused("translate", trained, missing),
        refused("translate", missing, toy / "test.src"),
        refused("score", trained, toy / "test.src", missing),
        refused("align", trained, toy / "test.src", toy / "test.tgt", "--gold", missing),
        refused("data", "stats", "--source", missing, "--target", toy / "test.tgt"),
    ):
        assert str(missing) in message


def test_an_empty_file_is_named(train, refused, trained, write):
    empty = write("empty", b"")
    assert f"{empty}: the file is empty" in train(f"data.train.source={empty}")
    assert f"{empty}: the file is empty" in refused("translate", trained, empty)


def test_nothing_left_to_train_on_says_why(train, write, toy):
    blank = write("blank", b"\n" * 60)
    assert "60 with a blank side" in train(f"data.train.source={blank}")
    long = write("long", b"a b c d e f g h i\n" * 60)
    assert "60 with more than 8 tokens" in train(f"data.train.source={long}")


def test_a_test_set_without_text_is_refused_before_training(train, write):
    blank = write("blank", b"\n \n")
    message = train(f"data.test.source={blank}", f"data.test.target={write('text', b'a b' + bytes([10]) + b'c d')}")
    assert f"{blank} and" in message
    assert "no pair with text on both sides" in message


@pytest.mark.parametrize("arguments", [["train", "{toy}", "--output", "{link}"], ["train", "{link}"]])
def test_a_link_to_itself_is_refused(refused, toy, tmp_path, arguments):
    link = tmp_path / "link"
    link.symlink_to(link)
    assert str(link) in refused(*(each.format(toy=toy / "toy.yaml", link=link) for each in arguments))


def test_a_file_that_is_not_yaml_is_named_with_its_line(refused, write):
    assert "bad.yaml:2: not YAML" in refused("train", write("bad.yaml", b"seed: 1\ndata: a: b\n"))


def test_an_unknown_key_in_a_file_is_named_with_its_line(refused, toy, write):
    text = (toy / "toy.yaml").read_text() + "serch: {beam_size: 3}\n"
    message = refused("train", write("toy.yaml", text.encode()))
    assert (
        f"toy.yaml:{text.count(chr(10))}: unknown key 'serch.beam_size' (did you mean 'search.beam_size'?)" in message
    )


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


def test_a_folder_that_is_no_run_is_left_alone(refused, toy, write, tmp_path):
    file = write("letter.txt", b"dear")
    assert "is not a run" in refused("train", toy / "toy.yaml", "--output", tmp_path, "--overwrite")
    assert file.read_bytes() == b"dear"
    assert "not a run folder" in refused("translate", tmp_path, toy / "test.src")


def test_search_options_that_cannot_be_are_refused(refused, trained):
    assert "--n-best" in refused("translate", trained, "--n-best", "two")
    assert "seq2seq-attn: n_best=9 needs a beam at least as wide" in refused("translate", trained, "--n-best", "9")
    assert "'--beam-size': Input should be greater" in refused("translate", trained, "--beam-size", "0")


def test_gold_links_must_be_links_and_as_many_lines(refused, trained, toy, write):
    pairs = toy / "test.src", toy / "test.tgt"
    assert "5 lines for 7 sentence pairs" in refused("align", trained, *pairs, "--gold", write("gold", b"0-0\n" * 5))
    assert "line 2: '1:1' is not a link" in refused(
        "align", trained, *pairs, "--gold", write("gold", b"0-0\n1:1\n" + b"\n" * 5)
    )


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
def test_a_value_that_no_training_takes_is_refused_in_a_short_line(train, monkeypatch, override, reason):
    monkeypatch.setattr("seq2seq_attn.runs.model.machine_memory", lambda: 10**9)  # on any machine
    message = train(override)
    assert reason in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "content",
    [b"a: " + b"[" * 5000, b"a: &a [*a]", b"seed: 1\nseed: 2\n", b"1.5: 1\n", b"seed: !!int x\n", b"seed: \0\n"],
)
def test_yaml_that_surprises_is_refused_with_its_file(refused, write, content):
    for command in ("train", "compare"):
        assert "surprise.yaml" in refused(command, write("surprise.yaml", content))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_configuration_without_end_is_refused(refused):
    assert "/dev/zero, line 1: a NUL" in refused("train", "/dev/zero")


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


def test_numbers_of_thousands_of_digits_are_no_links(refused, trained, toy, write):
    links = write("links", b"0-" + b"9" * 5000 + b"\n" * 7)
    for arguments in (
        ("align", trained, toy / "test.src", toy / "test.tgt", "--gold", links),
        ("evaluate", "--links", links, "--gold", links),
    ):
        message = refused(*arguments)
        assert "line 1: '0-999" in message
        assert len(message) < 300


def test_pairs_that_would_take_minutes_are_refused(refused, trained, write):
    long = write("long", b"a\n" + b"a " * 20_000 + b"\n")
    for arguments in (
        ("score", trained, long, long),
        ("align", trained, long, long),
        ("faithfulness", trained, long, long),
    ):
        assert "line 2 of the source: 20,000 tokens, and this model reads 20 at most" in refused(*arguments)


def test_a_path_that_is_not_utf8_is_refused(refused, trained, toy):
    for arguments in (
        ("translate", "a\udcffb"),
        ("translate", trained, "a\udcffb"),
        ("train", toy / "toy.yaml", "--output", "a\0b"),
    ):
        assert "not UTF-8, or with a NUL" in refused(*arguments)


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
