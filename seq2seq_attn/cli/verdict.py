"""What a comparison says, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq_attn.report.results import Comparison, Results


def verdict(results: Results) -> list[str]:
    """A sentence for each arm that is compared with the baseline, the largest difference first."""
    ordered = sorted(results.comparisons, key=lambda pair: -abs(pair.bleu_difference))
    return [_sentence(pair) for pair in ordered]


def _sentence(pair: Comparison) -> str:
    """A difference counts as certain where its 95 % interval leaves out 0."""
    how_sure = f"95 % interval {pair.low:+.1f} to {pair.high:+.1f}, {_p(pair.p_value)}"
    if pair.low <= 0 <= pair.high:
        return (
            f"{pair.arm} is not certainly different from {pair.baseline}: "
            f"{pair.bleu_difference:+.1f} BLEU ({how_sure})."
        )
    direction = "better" if pair.bleu_difference > 0 else "worse"
    return f"{pair.arm} is {direction} than {pair.baseline} by {abs(pair.bleu_difference):.1f} BLEU ({how_sure})."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
