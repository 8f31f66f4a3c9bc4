"""Line charts and dot plots: ticks computed by hand, and all values within the axes."""

import re
from itertools import pairwise

import pytest

from seq2seq_attn.report import figures
from seq2seq_attn.report.charts import Chart, Series, Value, breakdown_chart, learning_curve_charts
from seq2seq_attn.report.html_charts import BOTTOM, LEFT, RIGHT, TOP, drawing, nice_step
from seq2seq_attn.results.breakdowns import Breakdown, GroupResult, GroupScore
from seq2seq_attn.results.curves import Curve
from seq2seq_attn.results.results import Results


def chart(series, ticks, as_dots=False):
    return drawing(Chart("", "", "", "", series, ticks, as_dots))


@pytest.mark.parametrize(("top", "step"), [(100, 20), (45.3, 5), (4.6, 0.5), (1, 0.2), (0.03, 0.005), (5000, 1000)])
def test_tick_steps_are_1_2_or_5_times_a_power_of_ten(top, step):
    assert nice_step(top) == pytest.approx(step)


def test_all_values_seeds_and_intervals_lie_within_the_axes():
    line = Series(
        "a", 0, [Value(2, 3.0, "", "", 1.0, 71.5), Value(7, 60.0, "", "", 50.0, 62.0)], [[Value(11, 80.0, "", "")]]
    )
    drawn = chart([line], [(2.0, ("2",))])
    (shown,) = drawn.lines
    for path in (shown.path, shown.band, *shown.seeds):
        for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path):
            assert LEFT <= float(x) <= RIGHT
            assert TOP <= float(y) <= BOTTOM
    assert drawn.y_ticks[0] == (BOTTOM, "0")
    assert drawn.y_ticks[-1] == (TOP, "80")


@pytest.mark.parametrize("values", [[], [Value(1, 0.0, "", "")]])
def test_an_empty_or_all_zero_chart_still_has_axes(values):
    drawn = chart([Series("a", 0, values)], [(1.0, ("1",))])
    assert [text for _, text in drawn.y_ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


def test_values_below_zero_are_drawn_on_axes_that_contain_zero():
    series = [Series("a", 0, [Value(1, -0.4, "", "", -0.5, -0.3), Value(2, -0.1, "", "")])]
    ticks = [(1.0, ("1",)), (2.0, ("2",))]
    lines = chart(series, ticks)
    assert [text for _, text in lines.y_ticks] == ["-0.5", "-0.4", "-0.3", "-0.2", "-0.1", "0"]
    heights = [y for y, _ in lines.y_ticks]
    assert (heights[0], heights[-1]) == (BOTTOM, TOP)
    assert [point.y for point in lines.lines[0].points] == pytest.approx([heights[1], heights[4]], abs=0.02)
    panel, _ = chart(series, ticks, as_dots=True).panels
    assert [text for _, text in panel.ticks][:: len(panel.ticks) - 1] == ["-0.6", "0"]
    axes = figures.Picture().subplots()
    figures._lines(axes, Chart("", "", "", "", series, ticks))
    assert axes.get_ylim()[0] < -0.5


def test_learning_curves_that_end_within_the_first_epoch_have_that_epoch_as_their_tick(values, write):
    results = Results.load(write(values) / "results.json")
    curve = Curve(1, (0.25, 0.5), (4.0, 3.0), (10.0, 20.0))
    for drawn in map(drawing, learning_curve_charts(results, {arm.name: [curve] for arm in results.arms})):
        assert [labels for _, labels in drawn.x_ticks] == [("1",)]
        assert all(LEFT <= point.x <= RIGHT for line in drawn.lines for point in line.points)


def test_the_scale_of_dots_far_from_zero_does_not_start_at_zero_and_intervals_fit_the_panel():
    rows = [
        Series(name, style, [Value(0, y, "", "", y - 1, y + 0.5), Value(1, y - 2, "", "", y - 3, y - 1.5)])
        for style, (name, y) in enumerate({"high": 66.5, "low": 61.0}.items())
    ]
    drawn = chart(rows, [(0.0, ("1-10",)), (1.0, ("11+",))], as_dots=True)
    assert [line.series.name for line in drawn.lines] == ["high", "low"]
    first, second = drawn.panels
    assert first.right < second.left
    assert [text for _, text in first.ticks] == [text for _, text in second.ticks]
    assert float(first.ticks[0][1]) == 58
    for line in drawn.lines:
        for panel, point in zip(drawn.panels, line.points, strict=True):
            left, right = point.ends
            assert panel.left <= left < point.x < right <= panel.right
    row = Series("a", 0, [Value(0, 9.0, "", ""), Value(1, 1.0, "", "")])
    near_zero = chart([row], [(0.0, ("1-10",)), (1.0, ("11+",))], as_dots=True)
    assert near_zero.panels[0].ticks[0][1] == "0"


@pytest.mark.parametrize(("score", "ticks"), [(100.0, ["0", "20", "40", "60", "80", "100"]), (0.0, ["0", "0.2"])])
def test_dots_that_all_lie_on_one_value_have_a_scale_from_zero(score, ticks):
    rows = [Series(name, 0, [Value(0, score, "", "", score, score)]) for name in "ab"]
    (panel,) = chart(rows, [(0.0, ("all",))], as_dots=True).panels
    assert [text for _, text in panel.ticks][: len(ticks)] == ticks


@pytest.mark.parametrize("names", [("additive", "dot"), ("additive attention with a name of two lines", "dot")])
def test_rows_of_two_charts_with_many_arms_line_up_beside_one_column_of_names(names):
    def drawn(ticks):
        rows = [
            Series(f"{name} {row}", row, [Value(x, 9.0, "", "") for x, _ in ticks])
            for row in range(10)
            for name in names
        ]
        return chart(rows, ticks, as_dots=True)

    one, other = drawn([(0, ("all",))]), drawn([(0, ("1-10", "(9)")), (1, ("11+", "(8)"))])
    heights = [line.points[0].y for line in one.lines]
    assert heights == [line.points[0].y for line in other.lines]
    assert len(one.names) == len({later - earlier for earlier, later in pairwise(heights)}) * 20
    for each in (one, other):
        longest = max(len(line) for name in each.names for line in name)
        assert each.panels[0].left > 8 * longest, "no name reaches into the first panel"
        assert each.panels[-1].right <= RIGHT


@pytest.mark.parametrize(("sizes", "drawn"), [((40, 12, 2), [0, 1]), ((40, 2, 12), [0, 2]), ((9, 3, 2), [0, 1, 2])])
def test_a_group_of_a_few_sentences_takes_no_room_unless_all_groups_are_small(values, write, sizes, drawn):
    results = Results.load(write(values) / "results.json")
    bands = [GroupResult(size, dict.fromkeys(("bleu", "chrf"), GroupScore(30.0, 29.0, 31.0))) for size in sizes]
    breakdown = Breakdown("depth", "", ("a", "b", "c"), {arm.name: bands for arm in results.arms})
    shown = breakdown_chart(results, breakdown)
    assert [place for place, _ in shown.ticks] == drawn
    assert all([value.x for value in series.values] == drawn for series in shown.series)
    assert len(shown.left_out) == 3 - len(drawn)
    assert all(each in shown.notes[-1] for each in shown.left_out)
