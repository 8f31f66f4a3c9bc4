"""Minimum-Bayes-risk decoding: of several candidates, the one that is most like all of them.

The expected utility of a candidate is estimated by its mean over the candidates themselves, from a search (Kumar and
Byrne 2004, with equal weights) or drawn from the model (Eikema and Aziz 2020).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu import CHRF

from seq2seq_attn.evaluation.corpus_scores import Expected, bleu_metric
from seq2seq_attn.evaluation.counts import chrf_of_counts
from seq2seq_attn.evaluation.metrics import Metric

Matrix = NDArray[np.float64]
Utility = Callable[[Sequence[str]], Matrix]  # (N, N): the score of text i with text j as its reference, 0 to 100


def mean_utilities(candidates: Sequence[str], utility: Utility) -> list[float]:
    """1/N sum_j u(candidate_i, candidate_j) for each of N candidates, 0 to 100.

    The utility of equal texts is 100, so that a candidate that occurs often supports itself.
    """
    counts = Counter(candidates)
    utilities = utility(list(counts))
    np.fill_diagonal(utilities, 100.0)
    mean = utilities @ np.array(list(counts.values())) / max(len(candidates), 1)
    of_text = dict(zip(counts, mean.tolist(), strict=True))
    return [of_text[text] for text in candidates]


def utility(metric: Metric, tokenize: str, lowercase: bool = False) -> Utility:
    """The score of a sentence by a metric that counts; 100 minus the score where less is better.

    BLEU and words are of the tokens of sacrebleu's tokenizer `tokenize`.
    """
    if metric.key == "chrf":
        return chrf_matrix
    if metric.key == "bleu":
        return partial(bleu_matrix, tokenize=tokenize, lowercase=lowercase)
    return partial(_matrix, metric, tokenize, lowercase)


def _matrix(metric: Metric, tokenize: str, lowercase: bool, texts: Sequence[str]) -> Matrix:
    def scores(reference: str) -> NDArray[np.float64]:
        counting = metric.counting and metric.counting(Expected([[reference] * len(texts)], (), tokenize, lowercase))
        if counting is None:
            raise ValueError(f"{metric.key!r} does not count sentences")
        found = counting.score(counting.count(texts))
        return found if metric.sign > 0 else 100 - found

    return np.array([scores(theirs) for theirs in texts]).reshape(len(texts), len(texts)).T


def bleu_matrix(texts: Sequence[str], tokenize: str, lowercase: bool = False) -> Matrix:
    """sacrebleu's sentence BLEU, over the orders of n-grams that a sentence is long enough for, of all pairs."""
    metric = bleu_metric(tokenize, lowercase, by_sentence=True)
    scores = [[metric.sentence_score(ours, [theirs]).score for theirs in texts] for ours in texts]
    return np.array(scores).reshape(len(texts), len(texts))


def chrf_matrix(texts: Sequence[str]) -> Matrix:
    """sacrebleu's chrF2 of all pairs.

    The n-grams of a text are counted once; sacrebleu would count them again for every pair.
    """
    characters = ["".join(text.split()) for text in texts]
    counts = [_ngram_counts(characters, order) for order in range(1, CHRF.CHAR_ORDER + 1)]
    totals = np.stack([each.sum(axis=1, dtype=np.float64) for each in counts], axis=-1)  # (N, orders)
    matches = np.stack([_matches(each) for each in counts], axis=-1)  # (N, N, orders)
    return chrf_of_counts(totals[:, None], totals, matches)


def _ngram_counts(texts: Sequence[str], order: int) -> NDArray[Any]:
    """(N, G): how often each of the G distinct n-grams occurs in each text."""
    found = [Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in texts]
    column = {ngram: index for index, ngram in enumerate(dict.fromkeys(ngram for each in found for ngram in each))}
    counts = np.zeros((len(texts), len(column)), dtype=np.float32)
    for row, each in enumerate(found):
        counts[row, [column[ngram] for ngram in each]] = list(each.values())
    return counts


def _matches(counts: NDArray[Any]) -> Matrix:
    """(N, N): sum_g min(c_ig, c_jg), as products, since min(a, b) = sum_t [a >= t] [b >= t] over t = 1, 2, ..."""
    matches = np.zeros((len(counts), len(counts)))
    for least in range(1, int(counts.max(initial=0)) + 1):
        counts = counts[:, (counts >= least).any(axis=0)]
        is_reached = (counts >= least).astype(np.float32)
        matches += is_reached @ is_reached.T
    return matches
