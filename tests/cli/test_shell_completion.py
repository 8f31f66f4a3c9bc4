"""Completion in a shell: names of corpora, scorers and run folders, found without torch."""

import json
import subprocess
import sys

import pytest

from seq2seq_attn.attention import scorer_classes
from seq2seq_attn.cli.arguments import complete_runs, complete_scorers


@pytest.fixture(params=["bash", "zsh"])
def completed(request, program, monkeypatch):
    """What the shell offers for the last word of a command line."""

    def complete(line):
        words = f"seq2seq-attn {line}"
        monkeypatch.setenv("_SEQ2SEQ_ATTN_COMPLETE", f"complete_{request.param}")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words)
        return program().out

    return complete


def test_commands_and_corpora_are_completed(completed):
    assert "translate" in completed("trans")
    assert "multi30k-en-de" in completed("data get mu")
    answer = completed("data stats t")
    assert "tom-and-jerry" in answer
    assert "tatoeba" in answer
    assert "reverse" not in answer


def test_scorers_are_completed(completed):
    assert "scaled_dot" in completed("walk sc")
    assert "self-attention" in completed("walk se")
    assert "normalized_additive" in completed("check dot no")


def test_run_folders_are_completed_at_any_depth(completed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("runs/mine/additive/seed-1", "runs/single"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "model.safetensors").touch()
    (tmp_path / "runs" / "unfinished").mkdir()
    for typed in ("ru", "runs/"):
        answer = completed(f"translate {typed}")
        assert "runs/mine/additive/seed-1" in answer
        assert "runs/single" in answer
        assert "unfinished" not in answer
    assert complete_runs("runs/s") == ["runs/single"]
    assert complete_runs(str(tmp_path / "runs" / "mine")) == [str(tmp_path / "runs/mine/additive/seed-1")]


def test_the_completed_scorers_are_those_of_the_package():
    assert complete_scorers("") == sorted(
        name for name, part in scorer_classes().items() if part.__module__.startswith("seq2seq_attn.")
    )


def test_there_is_a_script_for_each_shell(program, monkeypatch):
    for shell, word in (("bash", "complete -o default -F"), ("zsh", "#compdef seq2seq-attn")):
        monkeypatch.setenv("_SEQ2SEQ_ATTN_COMPLETE", f"source_{shell}")
        assert word in program().out
    monkeypatch.delenv("_SEQ2SEQ_ATTN_COMPLETE")
    assert "--install-completion" in program("--help").out


def test_completion_and_wrong_arguments_import_nothing_heavy(tmp_path):
    heavy = {"torch", "numpy", "scipy", "sacrebleu", "matplotlib"}
    wrong = [
        ["data", "split", "nowhere.tsv"],
        ["data", "stats", "revers"],
        ["data", "get", "multi30k"],
        ["walk", "--query", "1 x"],
        ["walk", "nowhere.py:Mine"],
        ["walk", "--words", "one"],
        ["walk", "self-attention", "--seed", "1"],
        ["walk", "self-attention", "--words", "one"],
        ["scorers", "--json", "--markdown"],
        ["check", "nowhere.py:Mine"],
    ]
    script = f"""
import json, sys
from seq2seq_attn.cli import main
from seq2seq_attn.cli.arguments import complete_corpora, complete_runs, complete_scorers
for complete in (complete_corpora, complete_runs, complete_scorers):
    complete("")
for arguments in {wrong}:
    try:
        main(arguments)
    except SystemExit as exit:
        assert exit.code == 2, arguments
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not heavy & set(json.loads(done.stdout))
    assert done.stderr.count("\n") == len(wrong)
