"""Help, version and usage: what the program answers before it works."""

import subprocess
import sys

import pytest

COMMANDS = [
    "demo", "train", "translate", "evaluate", "compare", "report",
    "align", "score", "verify", "faithfulness", "average", "export", "scorers", "walk", "check",
]  # fmt: skip
DATA_COMMANDS = ["list", "get", "split", "stats"]
HEAVY = {"torch", "sacrebleu", "sacremoses", "sentencepiece", "matplotlib", "numpy", "scipy", "safetensors"}
WRONG_AND_LIGHT = [
    "data split nowhere.tsv", "data stats revers", "data get multi30k", "walk --query x", "walk nowhere.py:Mine",
    "walk --words one", "walk self-attention --seed 1", "walk self-attention --words one", "scorers --json --markdown",
    "check nowhere.py:Mine",
]  # fmt: skip
WRONG = [
    "translate missing", "translate run missing", "translate run text --attention x.csv",
    "translate run --precision fp8", "translate run --beam-size 0", "align run text missing",
    "align run text text --gold missing", "align run text text --reverse missing", "align run text text --plot x.jpg",
    "score missing text text", "faithfulness run missing text", "evaluate missing", "verify missing",
    "average missing --output missing", "average run --last 0 --output missing",
    "export missing --to onnx --output missing", "export run --to keras --output missing",
]  # fmt: skip


def test_help_completion_and_mistakes_of_a_command_line_need_nothing_that_takes_long_to_import(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.yaml").write_text("")
    (tmp_path / "text").write_text("a\n")
    every = ["", *COMMANDS, "data", *(f"data {command}" for command in DATA_COMMANDS)]
    script = f"""
import sys
from seq2seq_attn.cli import main
from seq2seq_attn.cli.arguments import complete_corpora, complete_runs, complete_scorers

def run(lines, code, heavy):
    for line in lines:
        try:
            main(line.split())
        except SystemExit as end:
            assert end.code == code, line
        assert not heavy & set(sys.modules), (line, heavy & set(sys.modules))

for complete in (complete_corpora, complete_runs, complete_scorers):
    complete("")
run({[f"{command} --help" for command in every]}, 0, {HEAVY})
run({WRONG_AND_LIGHT}, 2, {HEAVY - {"safetensors", "sacremoses", "sentencepiece"}})
run({WRONG}, 2, {{"torch"}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\nseq2seq-attn: ") == len(WRONG_AND_LIGHT) + len(WRONG) - 1


@pytest.mark.parametrize("command", [*([c] for c in COMMANDS), *(["data", c] for c in DATA_COMMANDS)])
def test_every_command_explains_itself_with_an_example(program, command):
    answer = program(*command, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"\n    seq2seq-attn {' '.join(command)}" in answer.out


def test_no_line_of_the_command_list_is_truncated(program):
    answer = program("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in answer.out
    assert "..." not in answer.out.partition("Commands:")[2].partition("Examples:")[0]


@pytest.mark.parametrize("group", [[], ["data"]])
def test_without_a_command_the_help_is_shown(program, group):
    assert program(*group) == program(*group, "--help")


def test_the_version(program):
    import seq2seq_attn

    assert program("--version").out == f"seq2seq-attn {seq2seq_attn.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], ["trian", "'train'", "seq2seq-attn --help"]),
        (["train"], ["CONFIG", "seq2seq-attn train --help"]),
        (["train", "x.yaml", "--outptu", "y"], ["--outptu", "--output"]),
        (["scorers", "--query-size", "many"], ["--query-size", "integer"]),
        (["scorers", "--query-size", "0"], ["--query-size", "greater than or equal to 1"]),
        (["data", "fetch"], ["fetch", "seq2seq-attn data --help"]),
        (["translate"], ["RUN"]),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(refused, arguments, words):
    message = refused(*arguments)
    for word in words:
        assert word in message


def test_a_defect_keeps_its_traceback(monkeypatch):
    from seq2seq_attn.api import data
    from seq2seq_attn.cli import main

    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr(data, "known_corpora", broken)
    with pytest.raises(ZeroDivisionError):
        main(["data", "list"])


def test_an_interruption_says_nothing_where_nothing_is_lost(program, monkeypatch):
    from seq2seq_attn.api import data

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "known_corpora", interrupted)
    assert program("data", "list") == (130, "", "")


def test_a_second_ctrl_c_at_the_end_of_the_process_is_quiet():
    code = """
import atexit, os, signal
from seq2seq_attn.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)  # while a library cleans up
main(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("options", [["--json"], []])  # without: a table, which rich prints
def test_a_reader_that_goes_away_is_no_error(forked, options):
    listing = forked("data", "list", *options)
    listing.stdout.close()
    assert listing.wait() == (141, b"", b"")
