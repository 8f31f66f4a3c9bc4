"""Files that cannot be used: exit code 2, one line that names the file and the way out, and nothing written."""

import shutil

import pytest


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
    assert f"{file}: not the model" in refused("translate", bad_run, toy / "test.src")


def test_the_model_of_other_sizes_is_refused(refused, bad_run, toy):
    config = bad_run / "config.yaml"
    config.write_text(config.read_text().replace("embedding_size: 6", "embedding_size: 7"))
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
