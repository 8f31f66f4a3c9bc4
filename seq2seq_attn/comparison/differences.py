"""Each arm of a comparison against its baseline: the difference in BLEU, three tests of it, and what they could see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import scipy

from seq2seq_attn.evaluation.bootstrap import paired_bootstrap
from seq2seq_attn.evaluation.counts import BleuCounts
from seq2seq_attn.evaluation.holm import holm
from seq2seq_attn.evaluation.power import detectable_difference
from seq2seq_attn.evaluation.randomisation import approximate_randomisation
from seq2seq_attn.evaluation.seeds import SeedsResult, welch
from seq2seq_attn.results.results import AcrossSeeds, Comparison, Significance


class Differences(NamedTuple):
    """The comparisons of a table, and how each test was made."""

    comparisons: list[Comparison]
    signatures: dict[str, str]


def differences(arms: Mapping[str, BleuCounts], baseline: str) -> Differences:
    """Compares every other arm with the baseline, in their order.

    Bootstrap and randomisation ask about other test sentences, and pool the runs of an arm; the test over seeds asks
    about other trainings. As each asks once an arm, the p-values of each test are corrected over the arms.
    """
    others = [arm for arm in arms if arm != baseline]
    if not others:
        return Differences([], {})
    bootstraps = [paired_bootstrap(arms[arm], arms[baseline]) for arm in others]
    randomisations = [approximate_randomisation(arms[arm], arms[baseline]) for arm in others]
    trainings = [welch(arms[arm].bleu().tolist(), arms[baseline].bleu().tolist()) for arm in others]
    rows = zip(
        others,
        bootstraps,
        holm([pair.p_value for pair in bootstraps]),
        randomisations,
        holm([pair.p_value for pair in randomisations]),
        _across_seeds(trainings),
        strict=True,
    )
    comparisons = [
        Comparison(
            arm,
            baseline,
            pair.difference,
            pair.low,
            pair.high,
            pair.p_value,
            p_holm=p_holm,
            detectable=detectable_difference(pair.standard_error),
            randomisation=Significance(randomisation.p_value, randomised_p_holm),
            seeds=seeds,
        )
        for arm, pair, p_holm, randomisation, randomised_p_holm, seeds in rows
    ]
    signatures = {"paired_bootstrap": bootstraps[0].signature, "randomisation": randomisations[0].signature}
    if any(trainings):
        signatures["seeds"] = f"test:welch|version:scipy-{scipy.__version__}"
    return Differences(comparisons, signatures)


def _across_seeds(trainings: list[SeedsResult | None]) -> Iterator[AcrossSeeds | None]:
    """One an arm; p-values are corrected over the arms that have one."""
    corrected = iter(holm([test.p_value for test in trainings if test is not None]))
    for test in trainings:
        if test is None:
            yield None
        else:
            detectable = detectable_difference(test.standard_error, test.degrees_of_freedom)
            yield AcrossSeeds(test.p_value, next(corrected), test.low, test.high, test.degrees_of_freedom, detectable)
