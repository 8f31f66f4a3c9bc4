"""The comparison table as columns: one cell per arm, under a header.

Metrics come from `evaluation.metrics`, in its order; between them are the differences from the baseline with their
tests, BLEU by source length, intervals and costs. Tables in every format are built from these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.cells import cell_len

from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.results.results import ArmResult, BandResult, PairedComparison, Results, Spread, Test

OVER_SEEDS = "", "std"
LIMITS = "low", "high"
P = "p"
TESTS: dict[Test, str] = {  # what the reported p-value is, by the test that it is of
    "joint": "of the joint test over training runs and sentences; below 0.05 an arm is better or worse",
    "randomization": "of paired approximate randomization of these training runs alone: the probability of a "
    "difference at least this large if there were none",
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


class Column(NamedTuple):
    """One cell per arm, under a header."""

    header: str
    cells: Sequence[TableCell]
    meaning: str = ""  # a note below the table
    optional: bool = False  # omitted in a terminal that is too narrow; files contain all columns
    parts: tuple[str, ...] = ("",)  # the suffix of the header for each number of a cell

    @property
    def width(self) -> int:
        texts = [self.header, *(text for cell in self.cells for text in (cell.value, cell.detail))]
        return max(cell_len(text) for text in texts)


def columns(results: Results) -> list[Column]:
    """The whole table, the names of the arms first."""
    arms = results.arms
    metrics = METRICS.values()
    translation_keys = [metric.key for metric in metrics if metric.from_translations is not None]
    main_keys = [metric.key for metric in metrics if metric.is_main]
    unregistered = [key for key in dict.fromkeys(key for arm in arms for key in arm.further) if key not in METRICS]
    return [
        Column("Arm", [TableCell(arm.name) for arm in arms]),
        Column(
            "Parameters", [TableCell(f"{arm.parameters:,}", numbers=(arm.parameters,)) for arm in arms], _widened(arms)
        ),
        *_scores(results, [key for key in main_keys if key in translation_keys]),
        *_differences(results),
        *_lengths(arms),
        *_scores(results, [key for key in main_keys if key not in translation_keys]),
        Column(
            "Training",
            [TableCell(_duration(arm.train_seconds), _stopped(arm), (arm.train_seconds,)) for arm in arms],
            "Training: time per run, mean over the seeds that were trained on the hardware of the first",
            parts=("seconds",),
        ),
        *_scores(results, [key for key in translation_keys if key not in main_keys]),
        *_intervals(arms),
        *_scores(results, [key for key in METRICS if key not in main_keys and key not in translation_keys]),
        *_scores(results, unregistered),
        *_speed(arms),
    ]


def signature_header(key: str) -> str:
    """The header of the column that a signature belongs to, given its key in results.json."""
    if key in METRICS:
        return METRICS[key].header
    return P if key in TESTS else key


def _scores(results: Results, keys: Iterable[str]) -> Iterator[Column]:
    """One column per metric that any arm has; the header of an unregistered metric is its key."""
    for key in keys:
        scores = [arm.score(key) for arm in results.arms]
        if not any(scores):
            continue
        header, digits, meaning, optional = key, 2, "", True
        if (metric := METRICS.get(key)) is not None:
            own_signature = results.signature.partition(";")[0]  # after it, that of other BLEU
            if key == "bleu" and "|tok:none|" in own_signature:
                metric = replace(metric, meaning="of the tokens between spaces, as the test set has them")
            elif key == "bleu" and "|case:lc|" in own_signature:
                metric = replace(metric, meaning="lowercased, detokenized")
            header, digits, meaning, optional = metric.header, metric.digits, metric.explanation, not metric.is_main
        if key == "bleu":  # the first of all scores explains their format
            meaning = f"{meaning}; mean over seeds ± standard deviation"
        cells = [
            NOTHING if score is None else _over_seeds(arm, score, digits)
            for arm, score in zip(results.arms, scores, strict=True)
        ]
        yield Column(header, cells, meaning, optional, OVER_SEEDS)


def _over_seeds(arm: ArmResult, score: Spread, digits: int) -> TableCell:
    mean = f"{score.mean:.{digits}f}"
    if len(arm.seeds) == 1:
        return TableCell(mean, numbers=(score.mean,))
    return TableCell(mean, f"± {score.std:.{digits}f}", (score.mean, score.std))


def _widened(arms: Sequence[ArmResult]) -> str:
    """The decoders that are wider than configured, with their sizes."""
    sizes = [f"{arm.name} to {arm.matched_hidden_size}" for arm in arms if arm.matched_hidden_size is not None]
    return f"Parameters: decoders were widened to match the largest arm: {', '.join(sizes)}" if sizes else ""


class _Test(NamedTuple):
    """A column about comparisons."""

    header: str
    cell: Callable[[PairedComparison], TableCell]
    meaning: str
    optional: bool = False
    parts: tuple[str, ...] = ("",)


def _tests(results: Results, pairs: Sequence[PairedComparison]) -> list[_Test]:
    """The difference, the p-value and the detectable difference; results.json has those of the other tests as well.

    No p-value if no arm has learned anything.
    """
    found = {pair.test for pair in pairs if pair.p_reported is not None}
    is_joint = any(pair.joint for pair in pairs)
    over = "training runs and sentences" if is_joint else "resampled test sets, of the same training runs"
    if is_joint and not all(pair.joint for pair in pairs):
        over += " (with a single run or copies of one, over sentences alone)"
    decided = [
        _Test(
            P,
            lambda pair: NOTHING if pair.p_reported is None else _p(pair.p_reported),
            f"{P}: {'; or '.join(meaning for test, meaning in TESTS.items() if test in found)}",
        ),
        _Test(
            "Detectable",
            _detectable,
            "Detectable: the true difference in BLEU that the joint test detects with 80 % power in an experiment like "
            "this, with p corrected",
            optional=True,
        ),
    ]
    return [
        _Test(
            "Difference",
            _difference,
            f"Difference: BLEU minus the baseline's, with its 95 % interval over {over}",
            parts=("", *LIMITS),
        ),
        *(decided if results.is_learned else []),
        _Test(
            "chrF difference",
            _chrf_difference,
            f"chrF difference: chrF minus the baseline's, with its 95 % interval over {over}",
            optional=True,
            parts=("", *LIMITS),
        ),
    ]


def _differences(results: Results) -> list[Column]:
    """The tests against the baseline, each comparison in the row of its arm."""
    if results.baseline is None:
        return []
    found = []
    for test in _tests(results, results.comparisons):
        cells = {pair.arm: test.cell(pair) for pair in results.comparisons}
        cells[results.baseline] = TableCell("baseline" if test.header == "Difference" else "")
        if set(cells.values()) - {NOTHING, TableCell("")}:
            row = [cells.get(arm.name, NOTHING) for arm in results.arms]
            found.append(Column(test.header, row, test.meaning, test.optional, test.parts))
    return found


def contrast_columns(results: Results) -> list[Column]:
    """The same tests for the planned contrasts, one row each."""
    pairs = results.contrasts
    tests = [(test, [test.cell(pair) for pair in pairs]) for test in _tests(results, pairs)]
    return [
        Column("Contrast", [TableCell(f"{pair.arm} against {pair.baseline}") for pair in pairs]),
        *(Column(test.header, cells, parts=test.parts) for test, cells in tests if set(cells) != {NOTHING}),
    ]


def _difference(pair: PairedComparison) -> TableCell:
    low, high = pair.interval
    return _with_limits(pair.bleu_difference, low, high)


def _chrf_difference(pair: PairedComparison) -> TableCell:
    if pair.chrf is None:
        return NOTHING
    shown = pair.chrf.joint or pair.chrf
    return _with_limits(pair.chrf.difference, shown.low, shown.high)


def _with_limits(difference: float, low: float, high: float) -> TableCell:
    """A difference with its interval, or alone if all resamples have the same: those of a single sentence."""
    interval = "" if low == high else f"[{low:+.1f}, {high:+.1f}]"
    return TableCell(f"{difference:+.1f}", interval, (difference, low, high))


def _p(p: float) -> TableCell:
    return TableCell("< 0.001" if p < 0.001 else f"{p:.3f}", numbers=(p,))


def _detectable(pair: PairedComparison) -> TableCell:
    found = None if pair.joint is None else pair.joint.detectable
    return TableCell(f"{found:.1f}", numbers=(found,)) if found else NOTHING


def _lengths(arms: Sequence[ArmResult]) -> list[Column]:
    """One column per length band; the first explains all of them."""
    bands = arms[0].bleu_by_length
    labels = ", ".join(band.label for band in bands)
    counts = ", ".join(str(band.sentences) for band in bands)
    meaning = f"{labels}: BLEU of the sentences with this many source words ({counts} sentences)"
    if longer := [band.label for band in bands if band.longer_than_training]:
        meaning += f"; {', '.join(longer)}: longer than all training sentences"
    return [
        Column(
            band.label,
            [_in_band(arm.bleu_by_length[index]) for arm in arms],
            meaning if index == 0 else "",
            parts=("", *LIMITS),
        )
        for index, band in enumerate(bands)
    ]


def _in_band(band: BandResult) -> TableCell:
    """BLEU without its interval: with an interval in every band, the table would be too wide to read."""
    limits = [limit for limit in (band.bleu_low, band.bleu_high) if limit is not None]
    return TableCell(f"{band.bleu:.1f}", numbers=(band.bleu, *limits))


def _intervals(arms: Sequence[ArmResult]) -> list[Column]:
    """Intervals of BLEU over test sentences, over seeds, and over both."""
    joint = [_limits(arm.bleu.joint_low, arm.bleu.joint_high) for arm in arms]
    sentences = [_limits(arm.bleu.low, arm.bleu.high) for arm in arms]
    seeds = [_limits(arm.bleu.seeds_low, arm.bleu.seeds_high) for arm in arms]
    found = [
        Column("95 %", joint, "95 %: interval of BLEU over training runs and sentences", optional=True, parts=LIMITS),
        Column(
            "95 % sentences",
            sentences,
            "95 % sentences: interval of BLEU over resampled test sets, of the same training runs",
            optional=True,
            parts=LIMITS,
        ),
        Column(
            "95 % seeds",
            seeds,
            "95 % seeds: t interval of BLEU over seeds, on the same test set",
            optional=True,
            parts=LIMITS,
        ),
    ]
    return [column for column in found if set(column.cells) != {NOTHING}]


def _limits(low: float | None, high: float | None) -> TableCell:
    return NOTHING if low is None or high is None else TableCell(f"[{low:.1f}, {high:.1f}]", numbers=(low, high))


def _speed(arms: Sequence[ArmResult]) -> list[Column]:
    rates = [arm.tokens_per_second for arm in arms]
    if not any(rates):
        return []
    cells = [NOTHING if rate is None else TableCell(f"{rate:,.0f}", numbers=(rate,)) for rate in rates]
    return [
        Column("Tokens/s", cells, "Tokens/s: target tokens per second of training, without validation", optional=True)
    ]


def _stopped(arm: ArmResult) -> str:
    """Marks an arm whose score is only a lower bound."""
    return "still improving" if arm.unconverged else ""


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
