"""`check`, `scorers`, `walk` and `demo` from Python: what they take, return and show."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import seq2seq_attn as s2s
from seq2seq_attn.attention import Additive, Attention, Dot, Scorer
from seq2seq_attn.cli import main
from seq2seq_attn.comparison import compare as comparison_file
from seq2seq_attn.comparison import demo as demo_file
from seq2seq_attn.comparison.experiment import experiment_grid


@pytest.fixture
def printed(capfd, monkeypatch):
    """What a command prints to stdout, in a terminal of 120 columns."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        with pytest.raises(SystemExit):
            main([str(argument) for argument in arguments])
        return capfd.readouterr().out

    return run


def without_trailing_blanks(text):
    return "\n".join(line.rstrip() for line in text.splitlines())


# check


def test_a_part_is_a_class_an_instance_or_a_name(only_laws):
    only_laws("padding")
    for part, options in ((Additive, {}), (Additive, {"hidden_size": 3}), ("seq2seq_attn.attention:Additive", {})):
        report = s2s.check(part, query_size=5, key_size=7, **options)
        assert report.part == "Additive(query_size=5, key_size=7)"
        assert [each.law for each in report.outcomes] == ["shapes", "determinism", "padding"]
        assert not report.is_broken
    assert s2s.check(Additive(3, 2)).part == "Additive(query_size=3, key_size=2)"


@pytest.mark.usefixtures("parts_in_this_process")
def test_a_report_is_what_the_command_prints(only_laws, printed):
    only_laws("saturation")
    report = s2s.check(Dot, query_size=8)
    assert f"{report}\n\n" == printed("check", "dot", "query_size=8")
    assert "2 hold, 0 broken, 1 warned of, 0 skipped" in repr(report)


# scorers


def test_the_catalog_is_that_of_the_command(printed):
    found = s2s.scorers(query_size=5, key_size=7)
    sizes = "--query-size", 5, "--key-size", 7
    assert without_trailing_blanks(printed("scorers", *sizes)) == repr(found)
    assert printed("scorers", *sizes, "--markdown") == found.markdown()
    listed = json.loads(printed("scorers", *sizes, "--json"))
    records = found.to_records()
    assert [each["name"] for each in listed] == [each.name for each in found] == [each["name"] for each in records]
    general = next(each for each in records if each["name"] == "general")
    assert (general["kind"], general["parameters"]) == ("scorer", 5 * 7)
    assert {each.kind for each in found.of("window")} == {"window"}
    assert found._repr_html_().count("<tr") == 1 + len(found)


def test_what_is_installed_and_broken_is_said_as_a_warning(monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.registry.load_installed", lambda: ("the entry point x is broken",))
    with pytest.warns(UserWarning, match="not listed: the entry point x is broken"):
        s2s.scorers(5, 5)


# walk


def test_the_walk_is_that_of_the_command(printed):
    assert printed("walk") == f"{s2s.walk()!r}\n"
    walked = s2s.walk(
        {"name": "additive", "hidden_size": 4}, [[1, -2]], [[0, 1], [5, 0]], [[1], [2]],
        words="Tom runs", normalizer={"name": "softmax", "temperature": 2}, seed=7,
    )  # fmt: skip
    assert printed(
        "walk", "additive", "hidden_size=4", "--query", "1 -2", "--states", "0 1; 5 0", "--values", "1; 2",
        "--words", "Tom runs", "--normalizer", "softmax temperature=2", "--seed", 7,
    ) == f"{walked}\n"  # fmt: skip


def test_rows_may_be_lists_arrays_or_tensors_and_are_computed_in_double():
    rows, states = [[0.1, 0.2]], [[0.3, 0.4], [0.5, 0.6]]
    expected = torch.tensor([0.1 * 0.3 + 0.2 * 0.4, 0.1 * 0.5 + 0.2 * 0.6], dtype=torch.float64)
    for convert in (list, np.array, lambda given: torch.tensor(given, dtype=torch.float64)):
        step = s2s.walk("dot", convert(rows), convert(states)).steps[0]
        torch.testing.assert_close(step.scores, expected, rtol=0, atol=1e-15)


def test_an_attention_of_one_s_own_is_walked_through_as_it_is():
    attention = Attention(Additive(2, 3))
    walked = s2s.walk(attention, [[1, 2]], [[1, 2, 3], [4, 5, 6]])
    assert walked.attention is attention
    keys, query = torch.tensor([[[1.0, 2, 3], [4, 5, 6]]]), torch.tensor([[[1.0, 2]]])
    torch.testing.assert_close(walked.steps[0].context, attention(query, attention.prepare(keys))[0][0, 0].detach())
    for ignored in ({"normalizer": "sparsemax"}, {"seed": 2}):
        with pytest.raises(s2s.UserError, match="an Attention is walked through as it is"):
            s2s.walk(attention, [[1, 2]], [[1, 2, 3], [4, 5, 6]], **ignored)


def test_a_class_is_a_scorer_as_its_name_is(forget_parts):
    class Constant(Scorer):
        """c for every key."""

        equation, source = "c", "this test"

        def __init__(self, query_size: int, key_size: int, c: float = 3.0) -> None:
            super().__init__(query_size, key_size)
            self.c = c

        def prepare(self, keys):
            return keys

        def forward(self, query, prepared):
            return query.new_full((len(query), query.shape[1], prepared.shape[1]), self.c)

    assert s2s.walk(Constant).steps[0].scores.tolist() == [3.0] * 4
    assert s2s.walk({"name": Constant, "c": 5}).steps[0].weights.tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"query": [[1, 2], [3]]}, "query: .*; give rows of numbers"),
        ({"query": [1, 2, 3]}, "query: not rows of finite numbers"),
        ({"states": [[1, 2, float("nan")]]}, "states: not rows of finite numbers"),
        ({"states": []}, "states: not rows of finite numbers"),
        ({"words": ["Tom"]}, "1 words for 4 states"),
        ({"values": [[1]]}, "1 values for 4 states"),
        ({"query": [[1, 2]]}, "a query of size 2 and states of size 3: Dot needs query_size == key_size"),
        ({"scorer": "dto"}, "did you mean 'dot'"),
    ],
)
def test_what_cannot_be_walked_through_is_refused(given, words):
    with pytest.raises(s2s.UserError, match=words):
        s2s.walk(**given)


# demo


@pytest.mark.usefixtures("no_figures")
def test_the_demo_returns_its_comparison_and_the_command_shows_it(backwards, tmp_path, monkeypatch, capfd):
    """With a small experiment in the place of the demo's, which trains for a minute."""
    arms = {"distracted": {"model": {"context": {"kind": "fixed"}}}, "attention": ["model.context.scorer=dot"]}
    changes = {"model.encoder.hidden_size": 12, "training.max_epochs": 1, "training.validate_every": 1}
    values = {"name": "tom-and-jerry-quick", "baseline": "distracted", "arms": arms, "base": backwards[1]}
    grid = experiment_grid(values, None, list(changes.items()))
    asked = []
    monkeypatch.setattr(demo_file, "demo_grid", lambda quick: asked.append(quick) or grid)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(comparison_file, "eflomal_program", lambda: None)  # its links are drawn at random

    found = s2s.demo(quick=True, silent=True)
    assert capfd.readouterr() == ("", "")
    assert (asked, found.folder) == ([True], Path("comparisons/demo-quick"))
    assert [arm.name for arm in found.results.arms] == ["distracted", "attention"]
    assert found.report in found.files
    assert found.report.exists()

    monkeypatch.setattr(sys, "argv", ["seq2seq-attn", "demo", "--quick"])
    with pytest.raises(SystemExit) as exit:
        main(["demo", "--quick"])
    assert exit.value.code == 0
    shown = capfd.readouterr()
    assert str(found.table()) in without_trailing_blanks(shown.out)
    assert "open comparisons/demo-quick/report.html" in shown.out
    assert re.search(r"next: \S*seq2seq-attn demo\n$", shown.err)
