"""Commands that are killed while they write leave nothing behind once they have been run again."""

import os
import signal

import pytest


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
def test_what_a_killed_command_was_writing_is_gone_after_the_next_one(
    arguments, forked, program, trained, toy, tmp_path
):
    def kill(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    out = tmp_path / "out"
    arguments = [each.format(run=trained, toy=toy, out=out) for each in arguments]
    ended = forked(*arguments, before=lambda: setattr(os, "replace", kill))  # where a file is given its name
    assert ended.wait()[0] == -signal.SIGKILL
    place = trained if arguments[0] == "evaluate" else out
    assert {path.suffix for path in place.rglob(".seq2seq_attn*")} == {".part", ".lock"}
    answer = program(*arguments)
    assert answer.code == 0, answer.err
    assert list(place.rglob(".seq2seq_attn*")) == []
