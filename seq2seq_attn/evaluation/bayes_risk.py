"""Minimum-Bayes-risk decoding: of several candidates, the one that is most like all of them.

The expected utility of a candidate is estimated by its mean over the candidates themselves, from a search (Kumar and
Byrne 2004, with equal weights) or drawn from the model (Eikema and Aziz 2020).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sacrebleu import CHRF
from sacrebleu.metrics.base import Metric

from seq2seq_attn.evaluation.corpus_scores import bleu_metric


def mean_utilities(candidates: Sequence[str], metric: Metric) -> list[float]:
    """1/N sum_j u(candidate_i, candidate_j) for each of N candidates, 0 to 100.

    u is the sentence score of the first with the second as its reference, 100 for equal texts, so that a candidate that
    occurs often supports itself. Takes time in proportion to the square of the number of distinct candidates.
    """
    counts = Counter(candidates)

    def utility(ours: str, theirs: str) -> float:
        return 100.0 if ours == theirs else float(metric.sentence_score(ours, [theirs]).score)

    mean = {
        ours: sum(count * utility(ours, theirs) for theirs, count in counts.items()) / len(candidates)
        for ours in counts
    }
    return [mean[each] for each in candidates]


def utility_metric(name: str, tokenize: str) -> Metric:
    """The metric `chrf`, chrF2, or `bleu`, BLEU of the n-gram orders that a sentence has, over sacrebleu's tokens."""
    return CHRF() if name == "chrf" else bleu_metric(tokenize, lowercase=False, by_sentence=True)
