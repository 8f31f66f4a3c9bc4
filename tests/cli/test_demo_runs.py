"""`demo` in the place of a run folder, in an empty folder, as right after an installation."""

import json

import pytest

from seq2seq_attn.cli.arguments import complete_runs
from seq2seq_attn.runs import SHIPPED

SOURCE, TARGET = "Tom chases Jerry", "汤姆 追逐 杰瑞 。"


@pytest.fixture(autouse=True)
def pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.en").write_text(f"{SOURCE} .\n" * 2)
    (tmp_path / "pair.zh").write_text(f"{TARGET}\n" * 2)


def test_a_sentence_is_translated(program):
    answer = program("translate", "demo", stdin=f"{SOURCE}\n".encode())
    assert (answer.code, answer.out, answer.err) == (0, f"{TARGET}\n", "")
    distracted = program("translate", "demo/distracted", stdin=f"{SOURCE}\n".encode())
    assert distracted.out == "汤姆\n"  # one vector is a poor memory


def test_every_command_that_takes_a_run_takes_demo(program):
    assert program("align", "demo", "pair.en", "pair.zh").out == "0-0 1-1 2-2 3-3\n" * 2
    scores = [float(line) for line in program("score", "demo", "pair.en", "pair.zh").out.split()]
    assert all(-0.5 < score <= 0 for score in scores)
    found = json.loads(program("faithfulness", "demo", "pair.en", "pair.zh", "--json").out)
    assert found
    assert "ok     files: complete" in program("verify", "demo").out
    assert program("translate", "demo", "pair.en", "--ensemble", "demo/transformer").code == 0


def test_the_names_are_completed():
    assert complete_runs("demo/d") == ["demo/distracted"]


def test_serve_without_a_run_serves_the_models_of_the_demo(program, monkeypatch):
    from seq2seq_attn.serve import server

    served = []
    monkeypatch.setattr(server, "serve", lambda models, settings, say: served.extend(models))
    assert program("serve").code == 0
    assert [(each.name, each.source, each.target) for each in served] == [
        ("attention", "en", "zh"),
        ("distracted", "en", "zh"),
        ("transformer", "en", "zh"),
    ]
    assert served[0].model.folder == SHIPPED / "attention"
    served.clear()
    assert program("serve", "demo/transformer", "demo").code == 0
    assert [each.name for each in served] == ["transformer", "attention"]
