"""`scorers`: the listing of what attention can be made of."""

import json

import pytest

from seq2seq_attn.attention import scorer_classes


@pytest.fixture
def listed(program):
    def run(*arguments):
        return {each["name"]: each for each in json.loads(program("scorers", *arguments, "--json").out)}

    return run


def test_every_scorer_is_listed_with_its_equation_and_source(listed):
    found = listed()
    for name, scorer in scorer_classes().items():
        assert (found[name]["equation"], found[name]["source"]) == (scorer.equation, scorer.source)


def test_parameters_are_those_at_the_sizes_given(listed):
    found = listed("--query-size", "5", "--key-size", "7")
    assert found["general"]["parameters"] == 5 * 7
    assert found["additive"]["parameters"] == 5 * 5 + 7 * 5 + 5 + 5  # W, U, b and v, with 5 hidden units
    assert found["additive"]["options"] == {"hidden_size": None}


def test_sizes_that_do_not_fit_say_so(listed, program):
    assert listed("--query-size", "5", "--key-size", "5")["dot"]["parameters"] == 0
    found = listed("--query-size", "5", "--key-size", "7")["dot"]
    assert found["parameters"] is None
    assert "got 5 and 7; use General" in found["error"]
    assert "got 5 and 7; use General" in program("scorers", "--query-size", "5", "--key-size", "7").out


def test_the_table_names_every_scorer(program):
    answer = program("scorers")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in answer.out.splitlines() if line[0] != " "] == list(scorer_classes())
