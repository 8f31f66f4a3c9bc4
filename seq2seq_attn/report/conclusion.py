"""What a comparison permits to conclude, in words."""

from __future__ import annotations

from seq2seq_attn.report.results import ArmResult, Comparison, Results

ENOUGH = 30  # sentences; the BLEU of a handful says nothing


def conclusion(results: Results) -> list[str]:
    """Each arm against the baseline, the largest difference first; then what is to be said of single arms.

    That is what length does to the best arm and to the baseline, how well the best arm aligns, and what one seed
    cannot tell.
    """
    best = max(results.arms, key=lambda arm: arm.bleu.mean)
    shown = [arm for arm in results.arms if arm is best or arm.name == results.baseline]
    sentences = [_verdict(pair) for pair in sorted(results.comparisons, key=lambda pair: -abs(pair.bleu_difference))]
    sentences += filter(None, map(_length, shown))
    if best.aer is not None:
        sentences.append(f"Read as an alignment, {best.name} has an error rate (AER) of {best.aer.mean:.3f}.")
    if any(len(arm.seeds) == 1 for arm in results.arms):
        sentences.append(
            "One seed: the intervals speak of other test sentences, not of other trainings; "
            "compare several seeds before you publish."
        )
    return sentences


def _verdict(pair: Comparison) -> str:
    """A difference counts as certain where its 95 % interval leaves out 0."""
    p = "p < 0.001" if pair.p_value < 0.001 else f"p = {pair.p_value:.3f}"
    how_sure = f"95 % interval {pair.low:+.1f} to {pair.high:+.1f}, {p}"
    if pair.low <= 0 <= pair.high:
        difference = f"{pair.bleu_difference:+.1f} BLEU ({how_sure})"
        return f"{pair.arm} is not certainly different from {pair.baseline}: {difference}."
    direction = "better" if pair.bleu_difference > 0 else "worse"
    return f"{pair.arm} is {direction} than {pair.baseline} by {abs(pair.bleu_difference):.1f} BLEU ({how_sure})."


def _length(arm: ArmResult) -> str | None:
    """From the shortest to the longest band that has sentences enough to speak of; None if there are not two."""
    bands = [band for band in arm.bleu_by_length if band.sentences >= ENOUGH]
    if len(bands) < 2 or bands[0].bleu == 0:
        return None
    first, last = bands[0], bands[-1]
    return (
        f"On sentences of {last.label} words {arm.name} keeps {last.bleu / first.bleu:.0%} "
        f"of its BLEU on those of {first.label} ({first.bleu:.1f} to {last.bleu:.1f})."
    )
