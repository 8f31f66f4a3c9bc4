"""Commands that are killed while they write leave nothing behind once they have been run again."""

import signal
import subprocess
import sys

import pytest

from seq2seq_attn.cli import main

# The process kills itself where it would give a file its name.
KILLED = (
    "import os, signal, sys; from seq2seq_attn.cli import main; "
    "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL); main(sys.argv[1:])"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "get", "copy", "--output", "{out}"],
        ["data", "split", "--source", "{toy}/train.src", "--target", "{toy}/train.tgt", "--validation", "5", "--test",
         "5", "--source-language", "en", "--target-language", "de", "--output", "{out}"],
        ["translate", "{run}", "{toy}/test.src", "--attention", "{out}/weights.jsonl"],
        ["align", "{run}", "{toy}/test.src", "{toy}/test.tgt", "--attention", "{out}/weights.npz"],
        ["evaluate", "{run}"],
    ],
    ids=["data get", "data split", "translate", "align", "evaluate"],
)  # fmt: skip
def test_what_a_killed_command_was_writing_is_gone_after_the_next_one(arguments, trained, toy, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = [each.format(run=trained, toy=toy, out=out) for each in arguments]
    ended = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    place = trained if arguments[0] == "evaluate" else out
    assert {path.suffix for path in place.rglob(".seq2seq_attn*")} == {".part", ".lock"}
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0, capsys.readouterr().err
    assert list(place.rglob(".seq2seq_attn*")) == []
