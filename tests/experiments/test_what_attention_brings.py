"""experiments/what-attention-brings: its table by hand, and the committed page, which is what the script makes."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments/what-attention-brings"


@pytest.fixture(scope="module")
def made():
    return SimpleNamespace(**runpy.run_path(str(FOLDER / "table.py")))


@pytest.fixture(scope="module")
def task(made):
    return made.Task("a task", "an-experiment", "none", "attention", "wer")


def results_of(folder, means, difference, ends, *, baseline="none", unconverged=(), p=0.01):
    """Results of two arms in WER, written as `compare` writes them; `unconverged` are seeds of the arm none."""
    arms = [
        {
            "name": name,
            "parameters": 1,
            "seeds": [1, 2, 3],
            "scores": {"wer": {"mean": mean, "std": 1.0, "low": mean - 1, "high": mean + 1}},
            "train_seconds": 1.0,
            "unconverged": list(unconverged) if name == "none" else [],
        }
        for name, mean in zip(("none", "attention"), means, strict=True)
    ]
    joint = {
        "p_value": p,
        "p_holm": p,
        "low": ends[0],
        "high": ends[1],
        "degrees_of_freedom": 4.0,
        "paired": False,
    }
    pair = {
        "arm": next(each["name"] for each in arms if each["name"] != baseline),
        "baseline": baseline,
        "difference": difference,
        "low": ends[0],
        "high": ends[1],
        "p_value": 0.01,
        "p_holm": 0.01,
        "joint": {**joint, "detectable": None},
    }
    metric = {"key": "wer", "label": "WER", "digits": 1, "direction": "lower", "meaning": "errors"}
    results = {
        "experiment": "an-experiment",
        "metrics": [metric],
        "sentences": 450,
        "arms": arms,
        "comparisons": [pair],
        "by_length": {"name": "", "meaning": "", "groups": ["1+"], "arms": {"none": [None], "attention": [None]}},
        "signatures": {},
        "version": "1",
        "commit": "",
        "hardware": "",
    }
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


def test_a_task_without_results_has_no_figures(made, task, tmp_path):
    assert made.gain_of(task, tmp_path) is None
    assert "| a task |  |  | not yet run |" in made.gains_table([], [task], {})


def test_the_difference_is_of_attention_whatever_the_baseline_of_the_experiment(made, task, tmp_path):
    results_of(
        tmp_path / "an-experiment/results", (40.0, 30.0), 10.0, (7.0, 14.0), baseline="attention", unconverged=[2]
    )
    gain = made.gain_of(task, tmp_path)
    assert (gain.difference, gain.low, gain.high) == (-10.0, -14.0, -7.0)
    assert made.gains_table([gain], [], {}).splitlines()[2] == (
        "| [a task](../an-experiment/README.md) | WER ↓ | 450 | 40.0 ↑ | 30.0 | **-10.0 [-14.0, -7.0]** | – |  |"
    )
    assert made.verdict([gain]) == "**Attention is better on 1 of 1 tasks, by 10.0 to 10.0 points.**"


@pytest.mark.parametrize(("half", "is_decided"), [(11.0, True), (18.0, False)])
def test_several_test_sets_are_one_row_and_their_mean_may_be_decided_where_none_of_them_is(
    made, task, tmp_path, half, is_decided
):
    for name, means in (("one", (40.0, 30.0)), ("two", (20.0, 10.0))):
        ends = -10.0 - half, -10.0 + half
        results_of(tmp_path / "an-experiment/results" / name, means, -10.0, ends, p=0.2)
    gain = made.gain_of(task, tmp_path)
    assert gain.name == "a task, 2 languages"
    assert (gain.items, gain.without, gain.attention, gain.difference) == (900, 30.0, 20.0, -10.0)
    assert gain.low < -10 - half / 2  # of more degrees of freedom than one of them, half / √2 at most
    assert gain.high < -10 + half / 2**0.5
    assert gain.decided == is_decided
    alone = replace(task, experiment="an-experiment", results="results/one")
    assert not made.gain_of(alone, tmp_path).decided


def test_an_error_rate_above_100_is_drawn_at_0_points(made, task, tmp_path):
    results_of(tmp_path / "an-experiment/results", (40.0, 120.0), 80.0, (60.0, 100.0))
    gain = made.gain_of(task, tmp_path)
    assert (gain.points(gain.without), gain.points(gain.attention)) == (60.0, 0.0)


def test_the_picture_has_a_line_per_task_the_largest_gain_first(made, task, tmp_path):
    results_of(tmp_path / "an-experiment/results", (40.0, 30.0), -10.0, (-14.0, -7.0))
    gain = made.gain_of(task, tmp_path)
    larger = replace(gain, task=replace(task, name="another"), without=60.0, attention=25.0, difference=-35.0)
    axes = made.picture([gain, larger], made.DARK).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["another", "a task"]
    drawn = {(tuple(line.get_xdata()), line.get_ydata()[0]) for line in axes.lines}
    assert {((40.0, 75.0), 0), ((60.0, 70.0), 1)} <= drawn  # an error rate counts as 100 minus itself


def test_published_figures_say_where_they_were_read(made):
    published = made.read_published()
    assert {task.published for task in made.TASKS} - {""} <= published.keys()
    for entry in published.values():
        assert {"task", "metric", "test", "source", "seen"} <= entry.keys()
        assert {"without", "with"} & entry.keys()
    assert made.published_table(published).count("\n") == len(published) + 1


def test_the_committed_page_is_what_the_script_makes(made):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert made.page_with(page, made.tables()) == page
    assert all((FOLDER / name).is_file() for name in ("gain.png", "gain-dark.png"))
