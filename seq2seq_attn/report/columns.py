"""The comparison table as columns: one cell per arm, under a header.

The main metric and other prominent ones come first, then the differences from the baseline with their tests, the main
metric by source length, costs, all other metrics, and intervals. Tables in every format are built from these columns,
of which at most eight are for the first look; the others are optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from seq2seq_attn.evaluation.attention_weights import HeadMeasures
from seq2seq_attn.results.breakdowns import GroupResult
from seq2seq_attn.results.differences import Difference, PairedComparison, Test, p_text
from seq2seq_attn.results.results import ArmResult, MetricRecord, Results

OVER_SEEDS = "", "std"
LIMITS = "low", "high"
P, DIFFERENCE = "p", "Difference"
TESTS: dict[Test, str] = {  # what the reported p-value is, by the test that it is of
    "joint": "of the joint test over training runs and {items}; below 0.05 an arm is better or worse",
    "randomization": "of paired approximate randomization of these training runs alone: the probability of a "
    "difference at least this large if there were none, corrected for all comparisons",
    "paired_bootstrap": "of sacrebleu's paired bootstrap of these training runs alone; without a true difference, "
    "its raw p-value is below 0.05 on one test set in ten",
}


class TableCell(NamedTuple):
    """A cell as text, with the unrounded numbers that it shows."""

    value: str
    detail: str = ""  # the second line in the terminal
    numbers: tuple[float, ...] = ()

    @property
    def line(self) -> str:
        """The cell on one line."""
        return f"{self.value} {self.detail}".rstrip()


NOTHING = TableCell("–")


def number(value: float | None, form: str = ",") -> TableCell:
    """A cell with one number, which may be unknown."""
    return NOTHING if value is None else TableCell(f"{value:{form}}", numbers=(value,))


class Column(NamedTuple):
    """One cell per arm, under a header."""

    header: str
    cells: Sequence[TableCell]
    meaning: str = ""  # a note below the table
    optional: bool = False  # omitted in the terminal, folded on pages; files contain all columns
    parts: tuple[str, ...] = ("",)  # the suffix of the header for each number of a cell

    @property
    def width(self) -> int:
        texts = [self.header, *(text for cell in self.cells for text in (cell.value, cell.detail))]
        return max(cell_len(text) for text in texts)


def columns(results: Results) -> list[Column]:
    """The whole table, the names of the arms first."""
    arms = results.arms
    main, *others = (each for each in results.metrics if any(each.key in arm.scores for arm in arms))
    prominent = [_scores(results, metric) for metric in others if metric.is_prominent]
    return [
        Column("Arm", [TableCell(arm.name) for arm in arms]),
        Column("Parameters", [number(arm.parameters) for arm in arms], _widened(arms), optional=True),
        _scores(results, main)._replace(  # the first of all scores explains their format
            meaning=f"{main.explanation}; mean over seeds ± standard deviation"
        ),
        *(column._replace(optional=place > 0) for place, column in enumerate(prominent)),
        *_differences(results),
        *lengths(results),
        Column(
            "Training",
            [
                TableCell(_duration(arm.train_seconds), "still improving" * bool(arm.unconverged), (arm.train_seconds,))
                for arm in arms
            ],
            "Training: time per run, mean over the seeds that were trained on the hardware of the first",
            parts=("seconds",),
        ),
        *(_scores(results, metric)._replace(optional=True) for metric in others if not metric.is_prominent),
        *_intervals(results),
        *_speed(arms),
    ]


def head_columns(measures: Sequence[HeadMeasures]) -> list[Column]:
    """Measures of the heads of a model, the names of the heads first; those that were not measured are left out."""

    def name(layer: int | None, head: int | None) -> str:
        if layer is None:
            return "mean"
        return f"layer {layer}, {'mean' if head is None else f'head {head}'}"

    def column(header: str, values: Sequence[float | None], meaning: str = "", form: str = ".3f") -> Column:
        return Column(header, [number(value, form) for value in values], meaning)

    rates = [each.agreement.rates for each in measures if each.agreement]
    correlations = [each.correlation for each in measures]
    found = [
        Column("Head", [TableCell(name(each.layer, each.head)) for each in measures]),
        column(
            "Entropy",
            [each.entropy for each in measures],
            "Entropy: mean over target words in bits; 0 where each attends to a single position of the source",
        ),
    ]
    if rates:
        found += [
            column(
                "AER", [each["aer"] for each in rates], "AER: alignment error rate against gold links; lower is better"
            ),
            column("Precision", [each["precision"] for each in rates]),
            column("Recall", [each["recall"] for each in rates]),
        ]
    if any(each is not None for each in correlations):
        meaning = (
            "τ: rank correlation (Kendall's τ-b) of the weights with the given importance of positions of the source"
        )
        found.append(column("τ", correlations, meaning, "+.3f"))
    return found


def signature_header(results: Results, key: str) -> str:
    """The header of the column that a signature belongs to, given its key in results.json."""
    return P if key in TESTS else results.labels.get(key, key)


def _scores(results: Results, metric: MetricRecord) -> Column:
    """The scores of the arms in one metric."""

    def cell(arm: ArmResult) -> TableCell:
        score = arm.scores.get(metric.key)
        if score is None or len(arm.seeds) == 1:
            return number(None if score is None else score.mean, f".{metric.digits}f")
        return TableCell(metric.text(score.mean), f"± {metric.text(score.std)}", (score.mean, score.std))

    cells = [cell(arm) for arm in results.arms]
    return Column(metric.label, cells, metric.explanation, parts=OVER_SEEDS)


def _widened(arms: Sequence[ArmResult]) -> str:
    """The decoders that are wider than configured, with their sizes."""
    sizes = [f"{arm.name} to {arm.matched_hidden_size}" for arm in arms if arm.matched_hidden_size is not None]
    return f"Parameters: decoders were widened to match the largest arm: {', '.join(sizes)}" if sizes else ""


def _tests(results: Results, pairs: Sequence[PairedComparison]) -> list[Column]:
    """The difference, the p-value and the detectable difference, one cell per pair; results.json has all tests.

    No p-value if no arm has learned anything.
    """
    main, items = results.main, f"{results.item}s"
    found = {pair.test for pair in pairs if pair.p_reported is not None}
    is_joint = any(pair.joint for pair in pairs)
    over = f"training runs and {items}" if is_joint else "resampled test sets, of the same training runs"
    if is_joint and not all(pair.joint for pair in pairs):
        over += f" (with a single run or copies of one, over {items} alone)"
    decided = [
        Column(
            P,
            [NOTHING if pair.p_reported is None else _p(pair.p_reported) for pair in pairs],
            f"{P}: {'; or '.join(meaning.format(items=items) for test, meaning in TESTS.items() if test in found)}",
        ),
        Column(
            "Detectable",
            [number((pair.joint and pair.joint.detectable) or None, f".{main.digits}f") for pair in pairs],
            f"Detectable: the true difference in {main.label} that the joint test detects with 80 % power in an "
            "experiment like this, with p corrected",
            optional=True,
        ),
    ]
    others = [metric for metric in results.metrics if any(metric.key in pair.others for pair in pairs)]
    return [
        Column(
            DIFFERENCE,
            [_difference(pair, main) for pair in pairs],
            f"{DIFFERENCE}: {main.label} minus the baseline's, with its 95 % interval over {over}",
            parts=("", *LIMITS),
        ),
        *(decided if results.is_learned else []),
        *(
            Column(
                f"{metric.label} difference",
                [_difference(pair.others.get(metric.key), metric) for pair in pairs],
                f"{metric.label} difference: {metric.label} minus the baseline's, with its 95 % interval over {over}",
                optional=True,
                parts=("", *LIMITS),
            )
            for metric in others
        ),
    ]


def _differences(results: Results) -> Iterator[Column]:
    """The tests against the baseline, each comparison in the row of its arm."""
    for column in _tests(results, results.comparisons) if results.baseline else ():
        if any(cell != NOTHING for cell in column.cells):
            cells = dict(zip((pair.arm for pair in results.comparisons), column.cells, strict=True))
            cells[results.baseline or ""] = TableCell("baseline" if column.header == DIFFERENCE else "")
            yield column._replace(cells=[cells.get(arm.name, NOTHING) for arm in results.arms])


def contrast_columns(results: Results) -> list[Column]:
    """The same tests for the planned contrasts, one row each."""
    pairs = results.contrasts
    return [
        Column("Contrast", [TableCell(f"{pair.arm} against {pair.baseline}") for pair in pairs]),
        *(
            column._replace(optional=False)
            for column in _tests(results, pairs)
            if any(cell != NOTHING for cell in column.cells)
        ),
    ]


def _difference(pair: PairedComparison | Difference | None, metric: MetricRecord) -> TableCell:
    """A difference with its interval, or alone if all resamples have the same: those of a single sentence."""
    if pair is None:
        return NOTHING
    low, high = pair.interval
    interval = "" if low == high else f"[{metric.text(low, '+')}, {metric.text(high, '+')}]"
    return TableCell(metric.text(pair.difference, "+"), interval, (pair.difference, low, high))


def _p(p: float) -> TableCell:
    return TableCell(p_text(p), numbers=(p,))


def lengths(results: Results) -> list[Column]:
    """One column per length band, of which the shortest and the longest one with enough sentences are not optional.

    The first of these two explains all columns: where optional ones are left out, it is there.
    """
    by_length, metric, unit = results.by_length, results.main, results.unit
    bands = next(iter(by_length.arms.values()))
    counts = ", ".join(str(band.sentences) for band in bands if band is not None)
    meaning = (
        f"{', '.join(by_length.groups)}: {metric.label} of the {results.item}s with this many source {unit} "
        f"({counts} {results.item}s)"
    )
    longer = [label for label, band in zip(by_length.groups, bands, strict=True) if band and band.longer_than_training]
    if longer:
        meaning += f"; {', '.join(longer)}: longer than all training {results.item}s"
    enough = [place for place, band in enumerate(bands) if band and not band.few] or range(len(bands))
    return [
        Column(
            label,
            [_in_band(groups[place], metric) for groups in by_length.arms.values()],
            meaning if place == enough[0] else "",
            optional=place not in (enough[0], enough[-1]),
            parts=("", *LIMITS),
        )
        for place, label in enumerate(by_length.groups)
    ]


def _in_band(band: GroupResult | None, metric: MetricRecord) -> TableCell:
    """The score without its interval: with an interval in every band, the table would be too wide to read."""
    if band is None:
        return NOTHING
    return TableCell(metric.text(band.main.value), numbers=(band.main.value, band.main.low, band.main.high))


def _intervals(results: Results) -> list[Column]:
    """Intervals of the main metric over test sentences, over seeds, and over both."""
    scores, metric, items = [results.score(arm) for arm in results.arms], results.main, f"{results.item}s"
    kinds = {
        "95 %": ("joint_", "interval of {} over training runs and " + items),
        f"95 % {items}": ("", "interval of {} over resampled test sets, of the same training runs"),
        "95 % seeds": ("seeds_", "t interval of {} over seeds, on the same test set"),
    }
    found = [
        Column(
            header,
            [_limits(getattr(score, f"{prefix}low"), getattr(score, f"{prefix}high"), metric) for score in scores],
            f"{header}: {meaning.format(metric.label)}",
            optional=True,
            parts=LIMITS,
        )
        for header, (prefix, meaning) in kinds.items()
    ]
    return [column for column in found if set(column.cells) != {NOTHING}]


def _limits(low: float | None, high: float | None, metric: MetricRecord) -> TableCell:
    if low is None or high is None:
        return NOTHING
    return TableCell(f"[{metric.text(low)}, {metric.text(high)}]", numbers=(low, high))


def _speed(arms: Sequence[ArmResult]) -> list[Column]:
    meaning = "Tokens/s: target tokens per second of training, without validation"
    cells = [number(arm.tokens_per_second, ",.0f") for arm in arms]
    return [Column("Tokens/s", cells, meaning, optional=True)] if any(arm.tokens_per_second for arm in arms) else []


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
