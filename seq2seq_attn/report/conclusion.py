"""What a comparison permits to conclude, in words, and what not."""

from __future__ import annotations

from seq2seq_attn.report.where_in_words import where_in_words
from seq2seq_attn.results.results import ENOUGH, LEVEL, AcrossSeeds, ArmResult, Comparison, Results


def conclusion(results: Results) -> list[str]:
    """Each arm against the baseline, the largest difference first; then what is to be said of single arms.

    That is what length does to the best arm and to the baseline, where else they lie apart, how well the best arm
    aligns, and what one seed cannot tell.
    """
    best = max(results.arms, key=lambda arm: arm.bleu.mean)
    shown = [arm for arm in results.arms if arm is best or arm.name == results.baseline]
    sentences = []
    for pair in sorted(results.comparisons, key=lambda pair: -abs(pair.bleu_difference)):
        sentences.append(_on_other_sentences(pair))
        if pair.seeds is not None:
            sentences.append(_in_other_trainings(pair, pair.seeds))
    sentences += filter(None, [_correction(results), *map(_length, shown)])
    sentences += where_in_words(results.where, best.name, results.baseline)
    if best.aer is not None:
        sentences.append(f"Read as an alignment, {best.name} has an error rate (AER) of {best.aer.mean:.3f}.")
    if any(len(arm.seeds) == 1 for arm in results.arms):
        sentences.append(
            "One seed: the intervals speak of other test sentences, not of other trainings; "
            "compare several seeds before you publish."
        )
    return sentences


def _on_other_sentences(pair: Comparison) -> str:
    """What the test set says of these trainings: by how much one is better, or what it could not have missed."""
    p = pair.p_value if pair.randomisation is None else pair.randomisation.p_holm
    how_sure = f"95 % interval {pair.low:+.1f} to {pair.high:+.1f}, {_p(p)}"
    if pair.significant:
        return (
            f"{pair.arm} is {_better(pair)} than {pair.baseline} by {abs(pair.bleu_difference):.1f} BLEU ({how_sure})."
        )
    difference = f"{pair.bleu_difference:+.1f} BLEU ({how_sure})"
    limit = f"; such a test set shows {_found(pair.detectable)}" if pair.detectable else ""
    return f"{pair.arm} cannot be told apart from {pair.baseline}: {difference}{limit}."


def _in_other_trainings(pair: Comparison, seeds: AcrossSeeds) -> str:
    """What the seeds say on this test set."""
    how_sure = f"95 % interval {seeds.low:+.1f} to {seeds.high:+.1f}, {_p(seeds.p_holm)}, Welch's t test over seeds"
    if seeds.p_holm >= LEVEL:
        return (
            f"Other trainings may come out otherwise: {pair.arm} against {pair.baseline}, {how_sure}; "
            f"so many seeds show {_found(seeds.detectable)}."
        )
    if pair.significant:
        return f"The seeds agree: {pair.arm} is {_better(pair)} than {pair.baseline} in other trainings ({how_sure})."
    return (
        f"The seeds agree, on these sentences alone: {pair.arm} is {_better(pair)} than {pair.baseline} ({how_sure}); "
        "a larger test set would have to show that it holds on others."
    )


def _correction(results: Results) -> str | None:
    """What the p-values above are."""
    count = len(results.comparisons)
    if count < 2 or any(pair.randomisation is None for pair in results.comparisons):
        return None
    return (
        f"Each p is corrected for the {count} comparisons made (Holm); no interval is. "
        "Those on other sentences are by approximate randomisation."
    )


def _better(pair: Comparison) -> str:
    return "better" if pair.bleu_difference > 0 else "worse"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _found(difference: float) -> str:
    return f"a difference of {difference:.1f} in four cases of five"


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
