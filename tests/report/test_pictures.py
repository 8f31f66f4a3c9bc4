"""Figures show the numbers of the files, and nothing else."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from seq2seq_attn.report.figures import by_length_figure, learning_curve_figure, line_style, render
from seq2seq_attn.report.heat_maps import attention_figure, heads_figure, seen_figure
from seq2seq_attn.results.attention import ATTENTION, AttentionMap
from seq2seq_attn.results.curves import CURVES, Curve
from seq2seq_attn.results.results import Results


def lines(axes):
    """(x, y) of each labeled line, by label."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def thin_lines(axes):
    return [list(line.get_ydata()) for line in axes.get_lines() if line.get_linewidth() == 0.7]


def test_the_score_by_length_draws_the_bands_of_each_arm(folder):
    axes = by_length_figure(Results.load(folder / "results.json")).axes[0]
    assert lines(axes) == {
        "distracted (C at every step)": ([0, 1], [40.0, 12.3]),
        "mean of states": ([0, 1], [38.0, 10.0]),
        "注意力": ([0, 1], [47.5, 44.4]),
    }
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1-10\n(7)", "11+\n(5)"]
    assert axes.get_ylim()[0] == 0


def test_bands_have_intervals_and_hollow_marks_for_few_sentences(values, write):
    for low, high in values["results.json"]["by_length"]["arms"].values():
        for band, sentences, below, above in ((low, 30, 2, 3), (high, 29, 4, 5)):
            score = band["scores"]["bleu"]["value"]
            band["sentences"] = sentences
            band["scores"]["bleu"] |= {"low": score - below, "high": score + above}
    axes = by_length_figure(Results.load(write(values) / "results.json")).axes[0]
    limits = [(area.get_datalim(axes.transData).y0, area.get_datalim(axes.transData).y1) for area in axes.collections]
    assert sorted(limits) == [pytest.approx(each) for each in [(6.0, 41.0), (8.3, 43.0), (40.4, 50.5)]]
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white"]
    assert sorted(line.get_xydata()[0].tolist() for line in hollow if len(line.get_xdata())) == [
        [1, 10.0],
        [1, 12.3],
        [1, 44.4],
    ]
    assert "hollow: fewer than 30 sentences" in axes.get_title()


@pytest.mark.parametrize(("longer", "divided"), [((False, True), [0.5]), ((False, False), []), ((True, True), [])])
def test_a_line_separates_the_bands_that_are_longer_than_all_training_sentences(values, write, longer, divided):
    for bands in values["results.json"]["by_length"]["arms"].values():
        for band, is_longer in zip(bands, longer, strict=True):
            band["longer_than_training"] = is_longer
    axes = by_length_figure(Results.load(write(values) / "results.json")).axes[0]
    assert [line.get_xdata()[0] for line in axes.get_lines() if line.get_label() == "_divider"] == divided
    assert [(text.get_position()[0], text.get_text()) for text in axes.texts] == [
        (x, "longer than in training →") for x in divided
    ]


def test_many_arms_are_rows_of_dots_with_intervals_the_best_on_top(values, write):
    first, lengths = values["results.json"]["arms"][0], values["results.json"]["by_length"]
    bands = lengths["arms"][first["name"]]
    bands[0]["sentences"], bands[1]["sentences"] = 30, 12
    bands[0]["scores"]["bleu"] |= {"low": 35.0, "high": 41.5}
    bleu = {f"arm {n}": {**first["scores"]["bleu"], "mean": 18.9 + n % 5} for n in range(14)}
    arms = [{**first, "name": name, "scores": {"bleu": each}} for name, each in bleu.items()]
    lengths["arms"] = dict.fromkeys(bleu, bands)
    values["results.json"] |= {"arms": arms, "comparisons": []}
    figure = by_length_figure(Results.load(write(values) / "results.json"))
    assert figure._repr_png_()[0].startswith(b"\x89PNG"), "what a notebook shows"
    whole, short, long = figure.axes
    names = [label.get_text() for label in whole.get_yticklabels()]
    ranked = sorted((each["mean"] for each in bleu.values()), reverse=True)
    assert [bleu[name]["mean"] for name in names] == ranked
    assert [line.get_xdata()[0] for line in whole.get_lines() if line.get_marker() == "o"] == ranked
    assert whole.get_ylim()[0] > whole.get_ylim()[1], "the first row is on top"
    dots = [line for line in short.get_lines() if line.get_marker() == "o"]
    assert [tuple(line.get_xydata()[0]) for line in dots] == [(40.0, row) for row in range(14)]
    ends = [list(line.get_xdata()) for line in short.get_lines() if line.get_marker() != "o"]
    assert ends == [[35.0, 41.5]] * 14
    assert {line.get_markerfacecolor() for line in long.get_lines() if line.get_marker() == "o"} == {"white"}


def test_curves_show_each_seed_and_the_mean_over_epochs_that_all_seeds_reached(folder):
    figure = learning_curve_figure(Results.load(folder / "results.json"), CURVES.load(folder))
    bleu, loss = figure.axes
    # seed 2 stops after epoch 2; epoch 1 has no BLEU
    nothing = {"distracted (C at every step)": ([], [])}
    assert lines(bleu) == nothing | {"注意力": ([2], [22.0]), "mean of states": ([1, 2], [5.0, 6.0])}
    assert thin_lines(bleu) == [[20.0, 30.0], [24.0]]
    assert lines(loss) == nothing | {"注意力": ([1, 2], [4.0, 2.25]), "mean of states": ([1, 2], [4.0, 3.5])}
    assert thin_lines(loss) == [[3.0, 2.0, 1.0], [5.0, 2.5]]
    assert "thin: each seed" in figure.get_suptitle()


def test_a_heat_map_draws_the_weights_from_0_to_1_under_their_words(folder):
    axes = attention_figure(ATTENTION.load(folder)[:1]).axes[0]
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05]])
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Tom", "chases", "Jerry"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["汤姆", "追逐"]
    assert axes.get_xlabel() == "注意力"


def test_gold_links_are_outlined_at_source_column_and_target_row(folder):
    shown, without = ATTENTION.load(folder)[:2]
    axes = attention_figure([shown]).axes[0]
    boxes = [patch.get_bbox().bounds for patch in axes.patches if isinstance(patch, Rectangle)]
    assert boxes == [(-0.5, -0.5, 1, 1), (1.5, 0.5, 1, 1)]  # links 0-0 and 2-1
    assert "gold" in attention_figure([shown]).get_suptitle()
    assert not attention_figure([without]).axes[0].patches
    assert "gold" not in attention_figure([without]).get_suptitle()


def test_three_arms_of_a_long_sentence_leave_the_fourth_panel_blank():
    words = [f"w{i}" for i in range(9)]
    long = AttentionMap("a", tuple(words), ("t",), ((0.1,) * 9,), None)
    panels = attention_figure([long] * 3).axes[:4]
    assert [axes.axison for axes in panels] == [True, True, True, False]


LONG = ("Donaudampfschifffahrtsgesellschaft", *(f"word{number}" for number in range(9)), "</s>")
ARMS = ("attention", "no attention, but the mean of all states at each step", "b")


@pytest.mark.parametrize(
    ("arms", "source", "target"),
    [(("a",), ("a",), ("b",)), (ARMS, ("a",), LONG), (ARMS, ("Tom", "."), ("المكتبة", "</s>")), (ARMS, LONG, LONG)],
)
def test_no_text_of_a_heat_map_is_cut_or_hides_another(arms, source, target):
    weights = ((1 / len(source),) * len(source),) * len(target)
    assert_readable(attention_figure([AttentionMap(arm, source, target, weights, ((0, 0),)) for arm in arms]))


def test_cells_are_squares_of_one_size_in_all_arms():
    maps = [AttentionMap("a", ("Tom", "runs"), ("x",) * rows, ((0.5, 0.5),) * rows, None) for rows in (1, 3)]
    figure = attention_figure(maps)
    FigureCanvasAgg(figure).draw()
    sizes = [axes.get_window_extent().size / figure.dpi for axes in figure.axes[:2]]
    np.testing.assert_allclose(sizes, [[0.7, 0.35], [0.7, 1.05]])


@pytest.mark.parametrize(
    ("heads", "columns", "rows"),
    [((1,), ("a",), ("b",)), ((2,), LONG, ("b",)), ((2, 1, 2), ("Tom", "runs", "."), LONG)],
)
def test_no_text_of_a_grid_of_heads_is_cut_or_hides_another(heads, columns, rows):
    layers = [np.full((count, len(rows), len(columns)), 1 / len(columns)) for count in heads]
    assert_readable(heads_figure(layers, columns, rows, "cross-attention of the decoder"))


@pytest.mark.parametrize("grid", [1, 4])
def test_no_text_beside_the_picture_of_a_source_is_cut_or_hides_another(grid):
    layers, rows = [np.full((count, 3, 12), 1 / 12) for count in (1, 2)], (LONG[0], "a", "</s>")
    assert_readable(seen_figure(layers, np.zeros((20, 90)), None, grid, rows, "attention"))


def assert_readable(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = {}
    for text in figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_text() and artist.get_visible()):
        drawn = text.axes is None or text.axes.axison
        if drawn:
            boxes[text] = text.get_window_extent()
    areas = [axes.get_window_extent() for axes in figure.axes if axes.axison]
    for box in [*boxes.values(), *areas]:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
    for (one, box), (other, second) in combinations(boxes.items(), 2):
        assert not box.padded(-0.5).overlaps(second.padded(-0.5)), (one.get_text(), other.get_text())
    for text, box in boxes.items():
        assert not any(box.padded(-0.5).overlaps(area) for area in areas), text.get_text()


def test_an_arm_has_the_same_style_in_every_figure(folder):
    names = ["distracted (C at every step)", "mean of states", "注意力"]
    results = Results.load(folder / "results.json")
    figures = by_length_figure(results), learning_curve_figure(results, CURVES.load(folder))
    for name in names:
        looks = {
            (line.get_color(), line.get_marker(), line.get_linestyle())
            for figure in figures
            for axes in figure.axes
            for line in axes.get_lines()
            if line.get_label() == name
        }
        assert len(looks) == 1


def test_all_arms_have_different_styles():
    assert len({tuple(line_style(number).values()) for number in range(56)}) == 56


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_equal_figures_have_equal_bytes_and_the_settings_of_matplotlib_do_not_change(kind, start):
    before = dict(matplotlib.rcParams)
    shown = AttentionMap("$_$", ("$x_$", r"$\frac$"), ("$$",), ((0.25, 0.75),), None)  # text, not mathematics
    first = render(attention_figure([shown]), kind)
    assert first == render(attention_figure([shown]), kind)
    assert first.startswith(start)
    assert b"<text" not in first
    assert b"dc:date" not in first
    assert dict(matplotlib.rcParams) == before


def test_many_arms_have_a_panel_each_with_the_others_in_gray(values, write):
    def run(arm, seed):
        return Curve(seed, (1.0, 2.0), (4.0 + arm, 3.0 + arm + seed), (10.0 * arm, 10.0 * arm + 2 * seed))

    first, lengths = values["results.json"]["arms"][0], values["results.json"]["by_length"]
    lengths["arms"] = {f"arm {arm}": lengths["arms"][first["name"]] for arm in range(8)}
    values["results.json"] |= {"arms": [{**first, "name": name} for name in lengths["arms"]], "comparisons": []}
    results = Results.load(write(values) / "results.json")
    figure = learning_curve_figure(results, {f"arm {arm}": [run(arm, 1), run(arm, 2)] for arm in range(8)})
    bleu, loss = (part.axes for part in figure.subfigs)
    assert [axes.get_title() for axes in bleu] == [f"arm {arm}" for arm in range(8)] + [""] * 2
    assert [axes.axison for axes in bleu] == [True] * 8 + [False] * 2
    for arm, axes in enumerate(bleu[:8]):
        assert lines(axes) == {f"arm {arm}": ([1, 2], [10.0 * arm, 10.0 * arm + 3])}
        grays = [list(line.get_ydata()) for line in axes.get_lines() if line.get_color() == "#BBBBBB"]
        assert grays == [[10.0 * other, 10.0 * other + 3] for other in range(8) if other != arm]
        thin = [list(line.get_ydata()) for line in axes.get_lines() if line.get_linewidth() == 0.7]
        assert thin == [[10.0 * arm, 10.0 * arm + 2], [10.0 * arm, 10.0 * arm + 4]]
    assert lines(loss[3]) == {"arm 3": ([1, 2], [7.0, 7.5])}
    assert bleu[0].get_ylim()[0] == 0
    assert "gray: the other arms" in figure.get_suptitle()


def test_heads_are_a_grid_with_tokens_at_its_left_and_top():
    first, second = np.full((2, 4, 3), 0.25), np.arange(12).reshape(1, 4, 3) / 12
    figure = heads_figure([first, second], ["Tom", "runs", "."], ["汤姆", "跑", "。", "</s>"], "cross")
    *panels, colors = figure.axes
    assert [axes.axison for axes in panels] == [True, True, True, False]
    np.testing.assert_array_equal(panels[2].images[0].get_array(), second[0])
    assert all(axes.images[0].get_clim() == (0, 1) for axes in panels[:3])
    columns = [[label.get_text() for label in axes.get_xticklabels()] for axes in panels[:3]]
    rows = [[label.get_text() for label in axes.get_yticklabels()] for axes in panels[:3]]
    assert columns == [["Tom", "runs", "."]] * 2 + [["", "", ""]]
    assert rows == [["汤姆", "跑", "。", "</s>"], [""] * 4, ["汤姆", "跑", "。", "</s>"]]
    assert [axes.get_title() for axes in panels[:2]] == ["head 0", "head 1"]
    assert [panels[0].get_ylabel(), panels[2].get_ylabel()] == ["layer 0", "layer 1"]
    assert (figure.get_suptitle(), colors.get_ylabel()) == ("cross", "attention weight")
