"""The columns of the comparison table that lay the arms beside their baseline."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq_attn.report.column import NOTHING, Cell, Column
from seq2seq_attn.results.results import Comparison, Results


def difference_columns(results: Results) -> list[Column]:
    """The difference, a p-value for each test that was made of it, and which differences would have been found."""
    if results.baseline is None:
        return []
    columns = [
        _column(
            results,
            "Difference",
            _difference,
            "Difference: BLEU minus the baseline's, with its 95 % interval over resampled test sets",
            of_baseline="baseline",
            parts=("", "low", "high"),
        ),
        _column(
            results,
            "p rand.",
            lambda pair: NOTHING if pair.randomisation is None else _p(pair.randomisation.p_holm),
            "p rand.: how likely so large a difference would be if there were none (paired approximate randomisation)",
        ),
        _column(
            results,
            "p seeds",
            lambda pair: NOTHING if pair.seeds is None else _p(pair.seeds.p_holm),
            "p seeds: how likely so large a difference would be if other trainings did not differ (Welch's t test)",
            optional=True,
        ),
        _column(
            results,
            "Detectable",
            _detectable,
            "Detectable: the true difference in BLEU that is found at 5 % in 80 % of cases, by such a test set and by "
            "so many seeds",
            optional=True,
            parts=("", "seeds"),
        ),
        _column(
            results,
            "p boot.",
            lambda pair: _p(pair.p_value if pair.p_holm is None else pair.p_holm),
            "p boot.: sacrebleu's paired bootstrap; where there is no difference, its raw p is below 0.05 on one test "
            "set of ten",
            optional=True,
        ),
    ]
    return [column for column in columns if set(column.cells) - {NOTHING, Cell("")}]


def _column(
    results: Results,
    header: str,
    cell: Callable[[Comparison], Cell],
    meaning: str,
    optional: bool = False,
    of_baseline: str = "",
    parts: tuple[str, ...] = ("",),
) -> Column:
    """A cell a comparison, beside its arm."""
    cells = {pair.arm: cell(pair) for pair in results.comparisons} | {results.baseline: Cell(of_baseline)}
    return Column(header, [cells.get(arm.name, NOTHING) for arm in results.arms], meaning, optional, parts)


def _difference(pair: Comparison) -> Cell:
    numbers = pair.bleu_difference, pair.low, pair.high
    return Cell(f"{pair.bleu_difference:+.1f}", f"[{pair.low:+.1f}, {pair.high:+.1f}]", numbers)


def _p(p: float) -> Cell:
    return Cell("< 0.001" if p < 0.001 else f"{p:.3f}", numbers=(p,))


def _detectable(pair: Comparison) -> Cell:
    if not pair.detectable:  # not computed, or the two say the same on every resample
        return NOTHING
    value = f"{pair.detectable:.1f}"
    if pair.seeds is None:
        return Cell(value, numbers=(pair.detectable,))
    return Cell(value, f"seeds {pair.seeds.detectable:.1f}", (pair.detectable, pair.seeds.detectable))
