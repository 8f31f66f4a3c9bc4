from __future__ import annotations

import pytest
from pydantic import ValidationError

from seq2seq_attn.search import SearchOptions


def test_the_length_penalty_is_equation_14_of_wu_et_al():
    assert SearchOptions(length_penalty=1.0).penalty(7) == pytest.approx(2.0)
    assert SearchOptions(length_penalty=0.5).penalty(19) == pytest.approx(2.0)
    assert SearchOptions(length_penalty=0.0).penalty(31) == 1.0
    assert SearchOptions(length_penalty=0.7).penalty(1) == 1.0


def test_the_limit_follows_the_source_up_to_the_maximum_length_and_not_below_the_minimum():
    options = SearchOptions(min_length=9, max_length=30, max_length_ratio=2.5, max_length_margin=3)
    assert [options.limit(length) for length in (1, 3, 10, 11)] == [9, 10, 28, 30]
    assert SearchOptions(max_length=30, max_length_ratio=None).limit(1) == 30


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam_size": 3, "n_best": 4}, "n_best=4 needs a beam .* got beam_size=3; set beam_size=4"),
        ({"beam_size": 5, "beam_groups": 2}, "beam_groups=2; set beam_size=6"),
        ({"beam_size": 4, "beam_groups": 2, "seed": 1}, "beam_groups=2"),
        ({"diversity": 0.5}, "beam_groups"),
        ({"beam_size": 1, "coverage_penalty": 0.2}, "coverage_penalty=0"),
        ({"temperature": 1.0, "coverage_penalty": 0.2}, "coverage_penalty=0"),
        ({"length_reward": -0.1}, "greater than or equal to 0"),
        ({"min_length": 8, "max_length": 5}, "min_length=8 exceeds max_length=5"),
        ({"beam_size": 0}, "greater than or equal to 1"),
        ({"length_penalty": -0.5}, "greater than or equal to 0"),
        ({"length_penalty": float("nan")}, "finite number"),
        ({"max_length": 0}, "greater than 0"),
        ({"beem_size": 3}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_options_are_an_error(wrong, message):
    with pytest.raises(ValidationError, match=message):
        SearchOptions(**wrong)


def test_greedy_search_leaves_out_what_only_a_beam_has():
    wide = SearchOptions(beam_size=4, beam_groups=2, diversity=1.0, coverage_penalty=0.2, length_reward=0.1)
    assert (
        wide.greedy()
        == SearchOptions(**wide.greedy().model_dump())
        == SearchOptions(beam_size=1, sampling=False, length_reward=0.1)
    )


def test_options_are_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        SearchOptions().beam_size = 7
