"""Help, version and usage: what the program answers before it works."""

import json
import subprocess
import sys

import pytest

COMMANDS = [
    "demo", "train", "translate", "evaluate", "compare", "report",
    "align", "score", "verify", "faithfulness", "average", "export", "scorers", "walk", "check",
]  # fmt: skip
DATA_COMMANDS = ["list", "get", "split", "stats"]
HEAVY = {"torch", "sacrebleu", "sacremoses", "sentencepiece", "matplotlib", "numpy", "safetensors"}


def test_help_imports_nothing_heavy():
    every = [[], *([command] for command in COMMANDS), ["data"], *(["data", command] for command in DATA_COMMANDS)]
    script = f"""
import json, sys
from seq2seq_attn.cli import main
for command in {every}:
    try:
        main([*command, "--help"])
    except SystemExit as exit:
        assert exit.code == 0, command
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(done.stderr))


def test_errors_in_arguments_come_before_torch_is_imported(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("")
    (tmp_path / "text").write_text("a\n")
    run, text, missing = map(str, (run, tmp_path / "text", tmp_path / "missing"))
    wrong = [
        ["translate", missing],
        ["translate", run, missing],
        ["translate", run, text, "--attention", "x.csv"],
        ["translate", run, "--precision", "fp8"],
        ["translate", run, "--beam-size", "0"],
        ["align", run, text, missing],
        ["align", run, text, text, "--gold", missing],
        ["align", run, text, text, "--reverse", missing],
        ["align", run, text, text, "--plot", "x.jpg"],
        ["score", missing, text, text],
        ["faithfulness", run, missing, text],
        ["evaluate", missing],
        ["verify", missing],
        ["average", missing, "--output", missing],
        ["average", run, "--last", "0", "--output", missing],
        ["export", missing, "--to", "onnx", "--output", missing],
        ["export", run, "--to", "keras", "--output", missing],
    ]
    script = f"""
import sys
from seq2seq_attn.cli import main
for arguments in {wrong}:
    try:
        main(arguments)
    except SystemExit as exit:
        assert exit.code == 2, arguments
    assert not {{"torch"}} & set(sys.modules), arguments
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("seq2seq-attn: ") == len(wrong)


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
def test_a_reader_that_goes_away_is_no_error(options):
    command = [sys.executable, "-m", "seq2seq_attn", "data", "list", *options]
    listing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    listing.stdout.close()
    assert listing.stderr.read() == b""
    assert listing.wait() == 141
    listing.stderr.close()
