"""`scorers`: the list of scorers, normalizers and windows."""

import json

import pytest

from seq2seq_attn.attention import normalizer_classes, position_classes, scorer_classes, window_classes

KINDS = {
    "scorer": scorer_classes,
    "normalizer": normalizer_classes,
    "window": window_classes,
    "position": position_classes,
}


@pytest.fixture
def listed(program):
    def run(*arguments):
        return {each["name"]: each for each in json.loads(program("scorers", *arguments, "--json").out)}

    return run


def test_every_part_is_listed_with_its_equation_and_source(listed):
    found = listed()
    for kind, classes in KINDS.items():
        for name, part in classes().items():
            entry = found[name]
            assert (entry["kind"], entry["equation"], entry["source"]) == (kind, part.equation, part.source)


def test_parameters_depend_on_the_given_sizes(listed):
    found = listed("--query-size", "5", "--key-size", "7")
    assert found["general"]["parameters"] == 5 * 7
    assert found["additive"]["parameters"] == 5 * 5 + 7 * 5 + 5 + 5  # W, U, b and v, with 5 hidden units
    assert found["additive"]["options"] == {"hidden_size": None}


def test_incompatible_sizes_are_reported(listed, program):
    assert listed("--query-size", "5", "--key-size", "5")["dot"]["parameters"] == 0
    found = listed("--query-size", "5", "--key-size", "7")["dot"]
    assert found["parameters"] is None
    assert "got 5 and 7; use General" in found["error"]
    assert "got 5 and 7; use General" in program("scorers", "--query-size", "5", "--key-size", "7").out


def test_the_table_names_every_part_under_its_kind(program):
    answer = program("scorers")
    assert (answer.code, answer.err) == (0, "")
    first_words = [line.split()[0] for line in answer.out.splitlines() if line[0] != " "]
    assert first_words == [word for kind, classes in KINDS.items() for word in (f"{kind.upper()}S", *classes())]


def test_the_page_is_markdown_with_its_own_command(program, refused):
    answer = program("scorers", "--query-size", "5", "--key-size", "5", "--markdown")
    assert "seq2seq-attn scorers --query-size 5 --key-size 5 --markdown" in answer.out
    for classes in KINDS.values():
        assert all(f"\n| `{name}` |" in answer.out for name in classes())
    assert "give one of them" in refused("scorers", "--markdown", "--json")
