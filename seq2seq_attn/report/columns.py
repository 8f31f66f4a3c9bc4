"""The comparison as columns: what is measured of each arm, and between them."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_attn.report.column import NOTHING, Cell, Column
from seq2seq_attn.report.difference_columns import difference_columns
from seq2seq_attn.results.results import ArmResult, BandResult, Results, Spread

OVER_SEEDS = "", "std"
LIMITS = "low", "high"


def columns(results: Results) -> list[Column]:
    """The whole table, the names of the arms first."""
    arms = results.arms
    return [
        Column("Arm", [Cell(arm.name) for arm in arms]),
        Column("Parameters", [Cell(f"{arm.parameters:,}", numbers=(arm.parameters,)) for arm in arms], _widened(arms)),
        Column(
            "BLEU",
            [_over_seeds(arm, arm.bleu) for arm in arms],
            "BLEU: cased, detokenised, higher is better; mean over seeds ± their standard deviation",
            parts=OVER_SEEDS,
        ),
        *_where_known(
            "BLEU lc",
            arms,
            [arm.bleu_lc_tok for arm in arms],
            "BLEU lc: lowercased and tokenised, higher is better",
        ),
        *difference_columns(results),
        *_lengths(arms),
        *_where_known(
            "AER",
            arms,
            [arm.aer for arm in arms],
            "AER: alignment error rate, 0 to 1, lower is better",
            digits=3,
        ),
        Column(
            "Training",
            [Cell(_duration(arm.train_seconds), numbers=(arm.train_seconds,)) for arm in arms],
            "Training: time of a run, mean over seeds",
            parts=("seconds",),
        ),
        *_where_known("chrF", arms, [arm.chrf for arm in arms], "chrF: higher is better", optional=True),
        *_where_known("TER", arms, [arm.ter for arm in arms], "TER: lower is better", optional=True),
        *_intervals(arms),
        *_where_known(
            "Exact",
            arms,
            [arm.exact_match for arm in arms],
            "Exact: translations of 100 that are the reference itself",
            optional=True,
        ),
        *_where_known(
            "Entropy",
            arms,
            [arm.attention_entropy for arm in arms],
            "Entropy: of the attention weights on the references, in bits; 0 where one source position is read",
            digits=2,
            optional=True,
        ),
        *_where_known(
            "Perplexity",
            arms,
            [arm.perplexity for arm in arms],
            "Perplexity: of a token of the references, lower is better; tokens are those of the model's vocabulary",
            digits=2,
            optional=True,
        ),
        *_speed(arms),
    ]


def _widened(arms: Sequence[ArmResult]) -> str:
    """Which decoders are wider than the arm's configuration says, and how wide."""
    sizes = [f"{arm.name} to {arm.matched_hidden_size}" for arm in arms if arm.matched_hidden_size is not None]
    return f"Parameters: decoder.hidden_size was widened to match the largest arm: {', '.join(sizes)}" if sizes else ""


def _over_seeds(arm: ArmResult, spread: Spread, digits: int = 1) -> Cell:
    mean = f"{spread.mean:.{digits}f}"
    if len(arm.seeds) == 1:
        return Cell(mean, numbers=(spread.mean,))
    return Cell(mean, f"± {spread.std:.{digits}f}", (spread.mean, spread.std))


def _where_known(
    header: str,
    arms: Sequence[ArmResult],
    spreads: Sequence[Spread | None],
    meaning: str,
    digits: int = 1,
    optional: bool = False,
) -> list[Column]:
    """A column if any arm has the score."""
    if not any(spreads):
        return []
    cells = [
        NOTHING if spread is None else _over_seeds(arm, spread, digits)
        for arm, spread in zip(arms, spreads, strict=True)
    ]
    return [Column(header, cells, meaning, optional, OVER_SEEDS)]


def _intervals(arms: Sequence[ArmResult]) -> list[Column]:
    """Of BLEU: where other sentences would take it, and where other trainings."""
    sentences = [_limits(arm.bleu.low, arm.bleu.high) for arm in arms]
    seeds = [_limits(arm.bleu.seeds_low, arm.bleu.seeds_high) for arm in arms]
    columns = [
        Column(
            "95 % sentences",
            sentences,
            "95 % sentences: interval of BLEU over resampled test sets, of these very trainings",
            optional=True,
            parts=LIMITS,
        ),
        Column(
            "95 % seeds",
            seeds,
            "95 % seeds: t interval of BLEU over seeds, on this very test set",
            optional=True,
            parts=LIMITS,
        ),
    ]
    return [column for column in columns if set(column.cells) != {NOTHING}]


def _limits(low: float | None, high: float | None) -> Cell:
    return NOTHING if low is None or high is None else Cell(f"[{low:.1f}, {high:.1f}]", numbers=(low, high))


def _speed(arms: Sequence[ArmResult]) -> list[Column]:
    rates = [arm.tokens_per_second for arm in arms]
    if not any(rates):
        return []
    cells = [NOTHING if rate is None else Cell(f"{rate:,.0f}", numbers=(rate,)) for rate in rates]
    return [
        Column("Tokens/s", cells, "Tokens/s: target tokens a second in training, validation excluded", optional=True)
    ]


def _lengths(arms: Sequence[ArmResult]) -> list[Column]:
    """A column a length band; the first says what all of them mean."""
    bands = arms[0].bleu_by_length
    labels = ", ".join(band.label for band in bands)
    counts = ", ".join(str(band.sentences) for band in bands)
    meaning = f"{labels}: BLEU of the sentences with so many source words ({counts} sentences)"
    return [
        Column(
            band.label,
            [_in_band(arm.bleu_by_length[index]) for arm in arms],
            meaning if index == 0 else "",
            parts=("", *LIMITS),
        )
        for index, band in enumerate(bands)
    ]


def _in_band(band: BandResult) -> Cell:
    """BLEU alone: with an interval in every band the table would be too wide to be read."""
    limits = [limit for limit in (band.bleu_low, band.bleu_high) if limit is not None]
    return Cell(f"{band.bleu:.1f}", numbers=(band.bleu, *limits))


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
