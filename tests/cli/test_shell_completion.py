"""Completion in a shell: names of corpora, scorers and run folders, found without torch."""

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
