"""`translate`: lines in, lines out."""

import gzip
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading

import pytest
import yaml

from seq2seq_attn.ops.int8 import has_int8

needs_int8 = pytest.mark.skipif(not has_int8(), reason="no exact product of bytes here")


def lines(text):
    assert text.endswith("\n")
    return text[:-1].split("\n")


def test_every_input_line_gives_one_output_line_even_if_blank(program, trained):
    answer = program("translate", trained, stdin=b"a b c\n\n   \nd e\n")
    first, *blank, last = lines(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert first
    assert blank == ["", ""]
    assert last


def test_a_file_is_translated_as_stdin_is_compressed_or_not(program, trained, toy, tmp_path):
    content = (toy / "test.src").read_bytes()
    (tmp_path / "test.src.gz").write_bytes(gzip.compress(content))
    from_stdin = program("translate", trained, stdin=content).out
    assert len(lines(from_stdin)) == 7
    assert program("translate", trained, toy / "test.src").out == from_stdin
    assert program("translate", trained, tmp_path / "test.src.gz").out == from_stdin


def test_a_last_line_without_its_end_and_windows_line_ends_are_read_alike(program, trained):
    assert program("translate", trained, stdin=b"a b\r\nc").out == program("translate", trained, stdin=b"a b\nc\n").out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_without_a_traceback(forked, trained, number, code):
    waiting = forked("translate", trained)
    waiting.stdin.write(b"a b\n")
    assert waiting.stdout.readline().endswith(b"\n")
    os.kill(waiting.pid, number)
    assert waiting.wait() == (code, b"", b"")


def test_ctrl_c_while_the_program_is_imported_ends_it_without_a_traceback():
    code = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from seq2seq_attn.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_no_input_gives_no_output(program, trained):
    assert program("translate", trained, stdin=b"") == (0, "", "")


def test_json_gives_the_text_with_its_score(program, trained):
    plain = lines(program("translate", trained, stdin=b"a b c\n\n").out)
    first, blank = map(json.loads, lines(program("translate", trained, "--json", stdin=b"a b c\n\n").out))
    assert first["source"] == "a b c"
    (found,) = first["translations"]
    assert found["text"] == plain[0]
    length = len(found["text"].split()) + 1  # and </s>
    assert found["score"] == pytest.approx(found["log_probability"] / ((5 + length) / 6))
    assert blank == {"source": "", "tokens": [], "unknown": [], "translations": []}


def test_the_n_best_come_best_first_in_the_format_of_moses(program, trained):
    beam = "--n-best", "3", "--beam-size", "7"
    text = lines(program("translate", trained, *beam, stdin=b"a b c\n\nd\n").out)
    records = map(json.loads, lines(program("translate", trained, *beam, "--json", stdin=b"a b c\n\nd\n").out))
    expected = []
    for number, record in enumerate(records):
        expected += [f"{number} ||| {each['text']} ||| {each['score']:.6f}" for each in record["translations"]]
        expected += [] if record["translations"] else [f"{number} |||  ||| 0.000000"]  # every line has its number
    assert text == expected
    assert len(text) == 3 + 1 + 3


def test_options_override_those_of_the_run(program, trained):
    def words(*options):
        return [len(line.split()) for line in lines(program("translate", trained, *options, stdin=b"a\nb c\n").out)]

    assert words("--min-length", "8", "--max-length", "8") == [7, 7]  # and </s>
    assert max(words("--max-length", "2")) <= 2
    ranked = json.loads(program("translate", trained, "--length-penalty", "0", "--json", stdin=b"a b\n").out)
    assert ranked["translations"][0]["score"] == ranked["translations"][0]["log_probability"]


def test_a_line_over_the_limit_is_cut_and_named(program, trained, monkeypatch):

    monkeypatch.setattr("seq2seq_attn.api.model.CHUNK", 2)  # the number of the line counts from the start all the same
    long, cut = "a b c d e a b c d", "a b c d e a b c"
    answer = program("translate", trained, stdin=f"a\nb\n{long}\n".encode())
    assert answer.err == "line 3: 9 tokens, cut to data.max_length=8\n"
    assert lines(answer.out)[2] == lines(program("translate", trained, stdin=f"{cut}\n".encode()).out)[0]


def test_what_was_read_before_a_bad_line_is_answered_first(program, trained):
    answer = program("translate", trained, stdin=b"a\nb\nc\ncaf\xe9\n")
    assert answer.code == 2
    assert len(lines(answer.out)) == 3
    assert "stdin, line 4: not UTF-8 (byte 0xe9)" in answer.err


def test_a_typed_line_is_answered_at_once(forked, trained):
    keyboard, terminal = pty.openpty()
    process = forked("translate", trained, stdin=(terminal, keyboard))
    assert b"Ready" in process.stderr.readline()
    for line in (b"a b c\n", b"d\n"):
        assert process.stderr.read(2) == b"> "
        process.stdin.write(line)
        assert process.stdout.readline().strip()  # comes before the next line is typed
    process.stdin.write(b"\x04")  # Ctrl-D
    assert process.wait() == (0, b"", b"> \n")


def test_a_line_in_a_pipe_is_answered_at_once_and_a_closed_pipe_ends_quietly(forked, trained):
    process = forked("translate", trained)
    for line in (b"a b c\n", b"d\n", b"e\nb\n"):
        process.stdin.write(line)
        for _ in range(line.count(b"\n")):
            assert process.stdout.readline().strip()  # comes before the next line is written
    process.stdout.close()
    process.stdin.write(b"a\n")
    assert process.wait() == (141, b"", b"")


def test_free_memory_is_returned_between_many_lines(program, trained, monkeypatch):
    returned = []
    monkeypatch.setattr("seq2seq_attn.api.shards.give_back_freed_memory", lambda: returned.append(1))
    monkeypatch.setattr("seq2seq_attn.api.model.CHUNK", 2)
    monkeypatch.setattr("seq2seq_attn.api.shards.TIDY", 3)
    assert len(lines(program("translate", trained, stdin=b"a\n" * 9).out)) == 9
    assert len(returned) == 2


def test_a_source_that_is_a_pipe_is_read_once(program, trained, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a b\n\nc\n",))
    writer.start()
    answer = program("translate", trained, tmp_path / "pipe")
    writer.join()
    assert answer.out == program("translate", trained, stdin=b"a b\n\nc\n").out


def test_a_file_is_checked_to_its_end_before_anything_is_translated(refused, trained, tmp_path):
    (tmp_path / "long").write_bytes(b"a\n" * 2000 + b"\xff\n")
    assert "line 2001: not UTF-8" in refused("translate", trained, tmp_path / "long")
    assert "a folder" in refused("translate", trained, tmp_path)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("int8", marks=needs_int8)])
def test_other_precisions_are_near_fp32_and_none_but_those_are_taken(program, trained, precision):
    def log_probability(*options):
        answer = program("translate", trained, "--json", "--max-length", "1", *options, stdin=b"a b c\n")
        return json.loads(answer.out)["translations"][0]["log_probability"]

    exact, near = log_probability(), log_probability("--precision", precision)
    assert near == pytest.approx(exact, abs=0.1)
    assert near != exact
    answer = program("translate", trained, "--precision", "fp8", stdin=b"a\n")
    assert answer.code == 2
    assert "fp8" in answer.err


def test_a_shortlist_of_the_whole_vocabulary_changes_nothing_and_its_lexicon_is_learned_once(
    program, trained, toy, tmp_path
):
    run, content = shutil.copytree(trained, tmp_path / "run"), (toy / "test.src").read_bytes()
    plain = program("translate", run, stdin=content)
    first, again = (program("translate", run, "--shortlist", "50", stdin=content) for _ in range(2))
    assert first.out == again.out == plain.out
    assert (first.err.count("learning a lexicon"), again.err) == (1, "")
    assert (run / "lexicon.safetensors").exists()


def test_a_shortlist_of_the_run_is_used_unless_it_is_refused(program, refused, trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"]["train"]["source"] = str(tmp_path / "gone.src")
    config["search"]["shortlist"] = 1
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (run / "SHA256SUMS").write_text("# seq2seq_attn\n")
    plain = program("translate", run, "--shortlist", "0", stdin=b"a b c\n")
    assert (plain.code, plain.err) == (0, "")
    for command in (["translate", run], ["evaluate", run]):
        assert "gone.src" in refused(*command, stdin=b"a b c\n")
    assert not (run / "lexicon.safetensors").exists()


def test_translations_begin_with_the_lines_of_a_file_or_the_text_after_a_tab(program, trained, tmp_path):
    (tmp_path / "begun").write_text("b a\n\nc\n")
    beside = program("translate", trained, "--prefix", tmp_path / "begun", stdin=b"a b c\na\nd e\n")
    assert beside.code == 0
    first, second, third = lines(beside.out)
    assert first.split()[:2] == ["b", "a"]
    assert second == lines(program("translate", trained, stdin=b"a\n").out)[0]
    assert third.startswith("c")
    assert program("translate", trained, "--tabs", "prefix", stdin=b"a b c\tb a\na\nd e\tc\n").out == beside.out
    assert "d" not in program("translate", trained, "--avoid", "d", "--avoid", "e", stdin=b"d e\n").out


def test_translations_contain_the_phrases_of_a_file_after_tabs_or_of_a_glossary(program, trained, tmp_path):
    (tmp_path / "phrases").write_text("b a\te\n\n")
    beside = program("translate", trained, "--json", "--constraints", tmp_path / "phrases", stdin=b"a b c\na\n")
    first, second = map(json.loads, lines(beside.out))
    text = first["translations"][0]["text"].split()
    assert [" ".join(text[slice(*each["steps"])]) for each in first["translations"][0]["constraints"]] == ["b a", "e"]
    assert "constraints" not in second["translations"][0]
    after_tab = program("translate", trained, "--json", "--tabs", "constraints", stdin=b"a b c\tb a\te\na\n")
    assert after_tab.out == beside.out
    (tmp_path / "terms").write_text("b\te e\n")
    assert "e e" in lines(program("translate", trained, "--glossary", tmp_path / "terms", stdin=b"a b\n").out)[0]


def test_what_ranks_translations_is_an_option(program, trained):
    coverage = ("--coverage-penalty", "0.5", "--length-reward", "0.2", "--length-penalty", "0")
    groups = ("--beam-size", "6", "--beam-groups", "3", "--diversity", "1", "--n-best", "3")
    found = program("translate", trained, "--json", *coverage, *groups, stdin=b"a b c\n")
    (line,) = map(json.loads, lines(found.out))
    assert len({each["text"] for each in line["translations"]}) == 3
    for each in line["translations"]:  # coverage is at most 0
        assert each["score"] < each["log_probability"] + 0.2 * (len(each["text"].split()) + 1)
    assert program("translate", trained, "--beam-groups", "2", "--beam-size", "5", stdin=b"a\n").code == 2


@pytest.mark.parametrize("content", ["b\n", "b\n\n\n"])
def test_a_file_of_prefixes_with_other_lines_than_the_source_is_refused(program, trained, tmp_path, content):
    (tmp_path / "begun").write_text(content)
    answer = program("translate", trained, "--prefix", tmp_path / "begun", stdin=b"a\nb\n")
    assert answer.code == 2
    assert str(tmp_path / "begun") in answer.err
    assert len(lines(answer.err)) == 1


def test_a_file_is_translated_into_a_folder_of_shards(program, trained, toy, tmp_path):
    expected = program("translate", trained, toy / "test.src").out
    answer = program("translate", trained, toy / "test.src", "--output", tmp_path / "out")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'out'}\n")
    assert (tmp_path / "out" / "00000000-00000006.txt").read_text() == expected


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--output", "out"], "SOURCE"),
        (["test.src", "--output", "out", "--attention", "a.npz"], "--attention"),
        (["test.src", "--output", "out", "--prefix", "test.src"], "--tabs"),
        (["test.src", "--on", "ray"], "--output"),
        (["test.src", "--jobs", "2"], "--output"),
        (["test.src", "--gpus", "1"], "--output"),
        (["test.src", "--output", "out", "--n-best", "9"], "n_best"),
    ],
    ids=["stdin", "attention", "prefix", "on", "jobs", "gpus", "search"],
)
def test_what_shards_cannot_do_is_refused(refused, trained, toy, tmp_path, monkeypatch, options, named):
    monkeypatch.chdir(tmp_path)
    shutil.copy(toy / "test.src", "test.src")
    assert named in refused("translate", trained, *options)
    assert not (tmp_path / "out").exists()
