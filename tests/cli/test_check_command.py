"""`check`: the laws of attention on the command line."""

import json

import pytest

from seq2seq_attn.testing.laws import LAWS

SCORER = """
import torch
from seq2seq_attn.attention import Scorer


class Distance(Scorer):
    needs_equal_sizes = True

    def __init__(self, query_size: int, key_size: int, scale: float = 2.0) -> None:
        super().__init__(query_size, key_size)
        self.scale = scale

    def prepare(self, keys):
        return keys

    def forward(self, query, prepared):
        return -self.scale * (query[:, :, None] - prepared[:, None]).abs().mean(dim=-1)


class Sideways(Distance):
    def forward(self, query, prepared):
        return super().forward(prepared, query)


class Half(Scorer):
    pass
"""


@pytest.fixture(autouse=True)
def _in_this_process(forget_parts, parts_in_this_process):
    """`tests/testing/test_command.py` has the processes; the registry is restored."""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(SCORER)
    return tmp_path / "mine.py"


def test_a_scorer_of_a_file_gets_one_line_per_law(program, file):
    answer = program("check", f"{file}:Distance")
    assert (answer.code, answer.err) == (0, "")
    first, *lines = answer.out.rstrip().splitlines()
    assert first == "Distance(query_size=16, key_size=16), mine.py, line 6"
    assert [line.split()[:2] for line in lines[:-1]] == [["holds", law] for law in LAWS["scorer"]]
    assert lines[-1] == f"{len(LAWS['scorer'])} hold, 0 broken, 0 warned of, 0 skipped"


def test_sizes_and_options_on_the_command_line_are_used(program, file, only_laws):
    only_laws("saturation")
    report = "check", f"{file}:Distance", "query_size=5", "--json"
    (plain,), (scaled,) = (json.loads(program(*report, *more).out) for more in ([], ["scale=1e+3"]))
    assert plain["part"] == "Distance(query_size=5, key_size=5)"
    assert [each["laws"][-1]["verdict"] for each in (plain, scaled)] == ["holds", "warning"]


def test_the_exit_code_is_1_if_one_of_several_scorers_is_broken(program, file, only_laws):
    only_laws("padding")
    answer = program("check", "dot", f"{file}:Sideways", "seq2seq_attn.attention:General", "--json")
    assert answer.code == 1
    dot, sideways, general = json.loads(answer.out)
    assert [dot["is_broken"], sideways["is_broken"], general["is_broken"]] == [False, True, False]
    verdicts = {each["law"]: each["verdict"] for each in sideways["laws"]}
    assert (verdicts["shapes"], verdicts["padding"]) == ("broken", "skipped")
    assert general["part"] == "General(query_size=16, key_size=24)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dto"], ["no scorer 'dto'", "'dot'", "my_scorer.py:MyScorer"]),
        (["{file}:Distanc"], ["{file}: 'Distanc' is not a class", "'Distance'"]),
        (["{file}:torch"], ["{file}: 'torch' is not a class", "it has: Distance, Sideways\n"]),
        (["{file}:Half"], ["Half is an abstract scorer; implement forward, prepare"]),
        (["nowhere.py:Distance"], ["nowhere.py: no such Python file"]),
        (["nowhere:Distance"], ["nowhere: cannot be imported", "a file ends in .py"]),
        (["hidden_size=16"], ["no part is named"]),
        (["additive", "hidden_size=many"], ["hidden_size=many", "Additive takes int"]),
        (["additive", "hidden_sizes=5"], ["'hidden_sizes'", "it has: hidden_size"]),
        (["{file}:Distance", "key_size=5"], ["Distance needs query_size == key_size, got 16 and 5"]),
        (["additive", "dto"], ["no scorer 'dto'"]),
        (["additive", "query_size=99999999999"], ["Additive(query_size=99999999999", "cannot be constructed"]),
    ],
)
def test_what_cannot_be_examined_is_refused_in_one_line(refused, file, arguments, words):
    message = refused("check", *(each.format(file=file) for each in arguments))
    for word in words:
        assert word.format(file=file) in message


def test_a_file_that_fails_to_import_is_refused_with_its_line(refused, tmp_path):
    (tmp_path / "broken.py").write_text("import math\n\nmath.sqrt(-1)\n")
    assert "broken.py, line 3: ValueError: " in refused("check", f"{tmp_path / 'broken.py'}:Distance")


MISTAKES = """
from __future__ import annotations

from typing import TYPE_CHECKING

from seq2seq_attn.attention import Dot

if TYPE_CHECKING:
    from collections.abc import Sequence


class Typo(Dot):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, query_size)
        self.size = self.keysize


class Typed(Dot):
    def __init__(self, query_size: int, key_size: int, sizes: Sequence[int] = ()) -> None:
        super().__init__(query_size, query_size)
"""


def test_the_commonest_mistakes_in_a_scorer_are_one_line_and_the_others_are_still_listed(refused, program, tmp_path):
    file = tmp_path / "mistakes.py"
    file.write_text(MISTAKES)
    typo = "mistakes.py, line 15: AttributeError: 'Typo' object has no attribute 'keysize'"
    assert typo in refused("check", f"{file}:Typo")
    typed = "Typed: the type of an option cannot be evaluated: name 'Sequence' is not defined"
    assert typed in refused("check", f"{file}:Typed")
    listed = {each["name"]: each for each in json.loads(program("scorers", "--plugin", str(file), "--json").out)}
    assert listed["typo"]["error"].startswith("AttributeError: 'Typo' object has no attribute 'keysize'")
    assert listed["typed"]["error"] == typed
    assert listed["dot"]["error"] is None or "use General" in listed["dot"]["error"]
