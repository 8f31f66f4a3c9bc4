"""What attention brings, over all tasks: the tables of README.md and its picture, from the results of the experiments.

    python experiments/what-attention-brings/table.py

Reads results.json of each experiment below, and published.yaml; writes the tables between the comments of README.md,
and gain.png and gain-dark.png. A task whose experiment has no results yet is a row without figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import yaml

from seq2seq_attn.report.figures import Picture, drawing, render
from seq2seq_attn.report.table import markdown_table
from seq2seq_attn.results.differences import LEVEL
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results
from seq2seq_attn.results.test_sets import difference_between, mean_difference

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"
SEEDS = 3  # training runs of each arm, at least
TEXTS = "metric", "test set", "source", "read"  # columns of the tables without numbers


@dataclass(frozen=True)
class Task:
    """A row: what is read and written, and the two arms that tell what attention brings."""

    name: str
    experiment: str  # its folder beside this one
    without: str  # arms, by their names
    attention: str
    metric: str = ""  # by its key; the main one unless given
    results: str = "results"
    published: str = ""  # by its id: the same question in the literature


TASKS = (
    Task(
        "made sentences, English to Chinese",
        "tom-and-jerry",
        "distracted (C at every step)",
        "additive attention",
        published="bahdanau-2015",
    ),
    Task("captions, English to German", "multi30k-en-de", "distracted", "additive attention", published="luong-2015"),
    Task("Bible verses, English to German", "bible", "distracted", "additive attention"),
    Task(
        "everyday sentences, English to French",
        "tatoeba-en-fr",
        "distracted",
        "additive attention",
        published="bahdanau-2015",
    ),
    Task(
        "commands to longer actions", "scan-length", "C at every step", "additive", "exact_match", published="lake-2018"
    ),
    Task(
        "commands to longer actions, tuned",
        "scan-length",
        "C at every step",
        "additive",
        "exact_match",
        results="results-held-out",
    ),
    Task(
        "pronunciation, SIGMORPHON 2020", "pronunciation-2020", "C at every step", "additive", published="gorman-2020"
    ),
    Task("pronunciation, CMUdict", "pronunciation", "C at every step", "additive", published="cmudict"),
    Task("inflection, CoNLL-SIGMORPHON 2017", "inflection", "C at every step", "additive", published="wu-2019"),
    Task("inflection, 1,000 forms", "inflection", "C at every step", "additive", results="results-medium"),
    Task("spoken digits, single", "spoken-digits", "C at every step", "additive", results="results-single"),
    Task("spoken digits, strings", "spoken-digits", "C at every step", "additive", published="chorowski-2015"),
    Task("spoken sentences", "spoken-prompts", "C at every step", "additive", published="chan-2016"),
    Task("handwritten digits, strings", "digit-strings", "C at every step", "additive attention"),
    Task("pictograms to names", "pictograms", "C at every step", "additive attention", published="xu-2015"),
    Task(
        "package descriptions to synopses",
        "package-summaries",
        "C at every step",
        "additive attention",
        published="see-2017",
    ),
    Task("dialogue, made", "dialog-babi", "C at every step", "additive", published="madotto-2018-task-5"),
    Task(
        "dialogue, recorded",
        "dialog-babi",
        "C at every step",
        "additive",
        results="results-dstc2",
        published="madotto-2018-dstc2",
    ),
)


@dataclass(frozen=True)
class Gain:
    """What attention brings to a task: means over its test sets, if it has several, as of languages."""

    task: Task
    metric: MetricRecord
    test_sets: int
    items: int
    without: float
    attention: float
    difference: float
    low: float  # 95 % interval of the difference, over training runs and items
    high: float
    decided: bool  # whether a test tells the two apart, see `gain_of`
    error_rate: float | None  # of alignment, against gold links
    improving: tuple[bool, ...]  # without, with: whether a training run was still improving when it stopped

    @property
    def name(self) -> str:
        return self.task.name if self.test_sets == 1 else f"{self.task.name}, {self.test_sets} languages"

    @property
    def sign(self) -> int:
        """-1 if lower scores are better."""
        return self.metric.sign

    def points(self, score: float) -> float:
        """Out of 100, the more the better: 100 minus an error rate, or 0 where that is above 100."""
        return score if self.sign > 0 else max(0.0, 100 - score)


def gain_of(task: Task, root: Path = FOLDER.parent) -> Gain | None:
    """What the results of its experiment say; None if there are none yet.

    A difference on one test set is decided by the joint test of the experiment, corrected for all comparisons there;
    one over several test sets by that of their mean.
    """
    folder = root / task.experiment / task.results
    found = [Results.load(path) for path in sorted([*folder.glob("results.json"), *folder.glob("*/results.json")])]
    if not found:
        return None
    metric = next(each for each in found[0].metrics if each.key == (task.metric or found[0].main.key))
    arms = [[_arm(each, name) for each in found] for name in (task.without, task.attention)]
    if min(len(arm.seeds) for each in arms for arm in each) < SEEDS:
        raise ValueError(f"{task.experiment}: a task has {SEEDS} training runs of each arm at least")
    without, attention = (fmean(arm.scores[metric.key].mean for arm in each) for each in arms)
    compared = task.attention, task.without, metric.key
    change = mean_difference(found, *compared)
    if len(found) == 1:
        joint = difference_between(found[0], *compared).joint
        decided = joint is not None and joint.significant
    else:
        decided = change.p_value is not None and change.p_value < LEVEL
    rates = [arm.scores["aer"].mean for arm in arms[1] if "aer" in arm.scores]
    return Gain(
        task,
        metric,
        len(found),
        sum(each.sentences for each in found),
        without,
        attention,
        change.difference,
        change.low,
        change.high,
        decided,
        fmean(rates) if rates else None,
        tuple(any(arm.unconverged for arm in each) for each in arms),
    )


def _arm(results: Results, name: str) -> ArmResult:
    return next(arm for arm in results.arms if arm.name == name)


def read_published(path: Path = FOLDER / "published.yaml") -> dict[str, dict[str, object]]:
    """The entries by their ids."""
    return {entry["id"]: entry for entry in yaml.safe_load(path.read_text(encoding="utf-8"))}


def gains_table(gains: Sequence[Gain], missing: Sequence[Task], published: dict[str, dict[str, object]]) -> str:
    """Markdown: a row per task, the largest gain first; those that have not been run below."""
    header = ["task", "metric", "items", "without attention", "with attention", "difference", "AER", "published"]
    rows = [
        [
            f"[{gain.name}](../{gain.task.experiment}/README.md)",
            f"{gain.metric.label}{'' if gain.sign > 0 else ' ↓'}",
            f"{gain.items:,}",
            *_scores(gain),
            _difference(gain),
            "–" if gain.error_rate is None else f"{gain.error_rate:.3f}",
            _published_pair(published.get(gain.task.published)),
        ]
        for gain in by_gain(gains)
    ]
    rows += [
        [task.name, "", "", "not yet run", "", "", "", _published_pair(published.get(task.published))]
        for task in missing
    ]
    return markdown_table(header, rows, TEXTS)


def published_table(published: dict[str, dict[str, object]]) -> str:
    """Markdown: a row per published pair."""
    read = {
        "paper": "in the paper",
        "copy": "in copies of the table",
        "abstract": "in the abstract",
        "memory": "not looked up",
    }
    header = ["task", "metric", "without", "with", "test set", "source", "read"]
    rows = [
        [
            *(str(entry[key]) for key in ("task", "metric")),
            *(str(entry.get(key, "–")) for key in ("without", "with")),
            *(str(entry[key]) for key in ("test", "source")),
            read[str(entry["seen"])],
        ]
        for entry in published.values()
    ]
    return markdown_table(header, rows, TEXTS)


def verdict(gains: Sequence[Gain]) -> str:
    """What the tests say over all tasks, in a few sentences."""
    better = sorted(gain.sign * gain.difference for gain in gains if gain.decided and gain.sign * gain.difference > 0)
    points = f"by {better[0]:.1f} to {better[-1]:.1f} points"
    found = [f"Attention is better on {len(better)} of {len(gains)} tasks, {points}."]
    others = {
        "On {}, it is worse.": [gain for gain in gains if gain.decided and gain.sign * gain.difference < 0],
        "On {}, the training runs do not tell which is better.": [gain for gain in gains if not gain.decided],
    }
    for sentence, each in others.items():
        *first, last = [f"*{gain.name}*" for gain in each] or [""]
        if last:
            found.append(sentence.format(f"{', '.join(first)} and {last}" if first else last))
    return f"**{' '.join(found)}**"


def by_gain(gains: Sequence[Gain]) -> list[Gain]:
    """The largest gain first."""
    return sorted(gains, key=lambda gain: -gain.sign * gain.difference)


def _difference(gain: Gain) -> str:
    middle, low, high = (gain.metric.text(each, "+") for each in (gain.difference, gain.low, gain.high))
    return f"**{middle} [{low}, {high}]**" if gain.decided else f"{middle} [{low}, {high}]"


def _scores(gain: Gain) -> list[str]:
    """Without attention and with it, each with the mark of one that was still improving."""
    both = zip((gain.without, gain.attention), gain.improving, strict=True)
    return [f"{gain.metric.text(score)}{' ↑' if improving else ''}" for score, improving in both]


def _published_pair(entry: dict[str, object] | None) -> str:
    if entry is None:
        return ""
    mark = "" if entry["seen"] != "memory" else " ¹"
    return f"{entry.get('without', '–')} → {entry.get('with', '–')} {entry['metric']}{mark}"


LIGHT = {"text": "#1F2328", "soft": "#6E7781", "grid": "#D8DEE4", "paper": "#FFFFFF", "gain": "#0072B2"}
DARK = {"text": "#E6EDF3", "soft": "#8B949E", "grid": "#30363D", "paper": "#0D1117", "gain": "#56B4E9"}


def picture(gains: Sequence[Gain], theme: dict[str, str]) -> Picture:
    """A line per task, from the score without attention to that with it, in points out of 100."""
    ordered = by_gain(gains)
    with drawing([gain.name for gain in ordered]):
        figure = Picture(figsize=(8.4, 1.1 + 0.36 * len(ordered)), layout="constrained", facecolor=theme["paper"])
        axes = figure.add_subplot(facecolor=theme["paper"])
        for row, gain in enumerate(ordered):
            start, end = gain.points(gain.without), gain.points(gain.attention)
            limits = [gain.points(gain.without + each) for each in (gain.low, gain.high)]
            axes.plot([start, end], [row, row], color=theme["gain"], linewidth=2.5, solid_capstyle="butt", zorder=2)
            axes.plot(limits, [row, row], color=theme["gain"], linewidth=9, alpha=0.3, solid_capstyle="butt", zorder=1)
            axes.plot(start, row, "o", markersize=8, color=theme["soft"], markerfacecolor=theme["paper"], zorder=3)
            axes.plot(end, row, "o", markersize=8, color=theme["gain"], zorder=3)
            ends = (start, start - end, "soft"), (end, end - start, "text")
            for score, (x, side, color) in zip(_scores(gain), ends, strict=True):
                axes.annotate(
                    score,
                    (x, row),
                    (9 if side > 0 else -9, 0),
                    textcoords="offset points",
                    ha="left" if side > 0 else "right",
                    va="center",
                    color=theme[color],
                )
            change = f"{gain.metric.text(gain.difference, '+')} {gain.metric.label}"
            axes.text(1.0, row, change, transform=axes.get_yaxis_transform(), va="center", color=theme["text"])
        axes.set_yticks(range(len(ordered)), [gain.name for gain in ordered], color=theme["text"])
        axes.set_ylim(len(ordered) - 0.5, -0.6)
        axes.set_xlim(-22, 118)  # room for scores beside the dots at both ends
        axes.set_xticks(range(0, 101, 20))
        axes.tick_params(length=0, colors=theme["text"])
        axes.tick_params(axis="x", colors=theme["soft"])
        axes.grid(visible=False, axis="y")
        axes.grid(color=theme["grid"], axis="x")
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_xlabel("points out of 100; an error rate counts as 100 minus itself, or as 0", color=theme["soft"])
        figure.suptitle(
            "A decoder with a fixed vector ○ and with attention ●",
            x=0.01,
            ha="left",
            color=theme["text"],
            size=13,
        )
    return figure


def page_with(page: str, tables: dict[str, str]) -> str:
    """The page with these tables between its comments, as in <!-- gains --> ... <!-- end -->."""
    for name, table in tables.items():
        page, count = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda found, table=table: f"{found[1]}{table}\n{found[2]}",
            page,
            flags=re.DOTALL,
        )
        assert count == 1, f"{PAGE}: no place for the table {name!r}"
    return page


def tables() -> dict[str, str]:
    """What stands between the comments of the page."""
    gains = all_gains()
    missing = [task for task in TASKS if task not in {gain.task for gain in gains}]
    published = read_published()
    return {
        "verdict": verdict(gains),
        "gains": gains_table(gains, missing, published),
        "published": published_table(published),
    }


def all_gains() -> list[Gain]:
    """Of the tasks that have been run."""
    return [gain for task in TASKS if (gain := gain_of(task)) is not None]


def main() -> None:
    """Write the page and its picture."""
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
    for name, theme in (("gain.png", LIGHT), ("gain-dark.png", DARK)):
        (FOLDER / name).write_bytes(render(picture(all_gains(), theme), "png"))


if __name__ == "__main__":
    main()
