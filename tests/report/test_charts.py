"""Lines over axes: ticks worked by hand, and everything within the axes."""

import re

import pytest

from seq2seq_attn.report.html_page import BOTTOM, LEFT, RIGHT, TOP, Series, Value, chart, nice_step


@pytest.mark.parametrize(("top", "step"), [(100, 20), (45.3, 5), (4.6, 0.5), (1, 0.2), (0.03, 0.005), (5000, 1000)])
def test_ticks_are_at_ones_twos_and_fives(top, step):
    assert nice_step(top) == pytest.approx(step)


def test_all_values_seeds_and_intervals_lie_within_the_axes():
    line = Series("a", 0, [Value(2, 3.0, "", 1.0, 71.5), Value(7, 60.0, "", 50.0, 62.0)], [[Value(11, 80.0, "")]])
    drawn = chart("", "", "", [line], [(2.0, ("2",))])
    (shown,) = drawn.lines
    for path in (shown.path, shown.band, *shown.seeds):
        for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path):
            assert LEFT <= float(x) <= RIGHT
            assert TOP <= float(y) <= BOTTOM
    assert drawn.y_ticks[0] == (BOTTOM, "0")
    assert drawn.y_ticks[-1] == (TOP, "80")


@pytest.mark.parametrize("values", [[], [Value(1, 0.0, "")]])
def test_a_chart_of_nothing_or_of_zeros_has_axes_all_the_same(values):
    drawn = chart("", "", "", [Series("a", 0, values)], [(1.0, ("1",))])
    assert [text for _, text in drawn.y_ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
