"""Sufficient statistics of metrics: counts of every sentence, whose sum over a corpus determines its score.

Tests that compute a score thousands of times count once and sum the counts for each resample or group. A metric that
says how it counts (`Counting`) has intervals, tests, groups and comparisons; BLEU and chrF count as sacrebleu does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu import CHRF
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from seq2seq_attn import __version__
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import Expected, bleu_metric, lc_norm_tok, of_lc_tok

Runs = Sequence[Sequence[str]]  # one list of translations per training seed; a single system is [translations]


@dataclass(frozen=True)
class Counting:
    """How the translations of one test set are counted.

    Args:
        count: The counts of each translation, one row per sentence of the test set: (sentences, k).
        score: The scores (rows,) of rows of summed counts (rows, k), of int or, as sacrebleu resamples, of float32.
        signature: All settings that the score depends on, in sacrebleu's form.
        meaning: What is counted, where that depends on the settings; "": as the metric says.
    """

    count: Callable[[Sequence[str]], NDArray[np.int64]]
    score: Callable[[NDArray[Any]], NDArray[np.float64]]
    signature: str
    meaning: str = ""

    def score_corpus(self, translations: Sequence[str]) -> float:
        """The score of the translations of the whole test set."""
        return float(self.score(self.count(translations).sum(axis=0, keepdims=True))[0])

    def score_sentences(self, translations: Sequence[str]) -> list[float]:
        """The score of each translation, as of a corpus of one sentence."""
        scores: list[float] = self.score(self.count(translations)).tolist()
        return scores


@dataclass(frozen=True)
class CorpusCounts:
    """The counts of a system's runs on a test set; their sum over sentences determines the score of a run."""

    counts: NDArray[np.int64]  # (runs, sentences, k)
    counting: Counting
    source_of: NDArray[np.int64] | None = None  # (sentences,): the number of its source; None if no two share one
    _resampled: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, counting: Counting, runs: Runs, sources: Sequence[str] = ()) -> CorpusCounts:
        """Counts the translations of each run; tests draw sentences together that have the same source, if given.

        Raises:
            UserError: There is no run, or one has another number of lines than the references.
        """
        if not runs:
            raise UserError("nothing to score: a system without runs; give the hypotheses of at least one")
        counts = np.array([counting.count(translations) for translations in runs], dtype=np.int64)
        return cls(counts, counting, number_sources(sources))

    @property
    def runs(self) -> int:
        return self.counts.shape[0]

    @property
    def sources(self) -> int:
        """The number of different sources, from which tests draw."""
        return self.by_source().shape[1]

    def select(self, rows: Sequence[int]) -> CorpusCounts:
        """The counts of these sentences only."""
        sources = None if self.source_of is None else self.source_of[rows]
        return replace(self, counts=self.counts[:, rows], source_of=sources)

    def by_source(self) -> NDArray[np.int64]:
        """(runs, sources, k): summed over the sentences with the same source, which no test may draw apart."""
        return sum_by_source(self.counts, self.source_of)

    def scores(self) -> NDArray[np.float64]:
        """(runs,): the score of each run on the test set as it is."""
        return self.counting.score(self.counts.sum(axis=1))

    def resampled_scores(self, resamples: int = 1000, seed: int = 12345) -> NDArray[np.float64]:
        """(runs, resamples): each run's score on each resample of the test set; the same resamples for every system."""
        if (resamples, seed) not in self._resampled:  # intervals and every comparison need the same
            # The sums are integers and exact; sacrebleu divides them in float32, so they are converted to that.
            counts = self.by_source()
            sums = (draws(counts.shape[1], resamples, seed) @ counts).astype(np.float32)  # (runs, resamples, counts)
            self._resampled[resamples, seed] = np.array([self.counting.score(run) for run in sums])
        return self._resampled[resamples, seed]

    def signature(self, **settings: object) -> str:
        """The signature with the settings of a test: `seed`, `bs` resamples, `ar` trials.

        They stand where sacrebleu has them: these three after the number of references, any others before the version.
        `sources` is their number, if some sentences share theirs.
        """
        if self.source_of is not None:
            settings["sources"] = self.sources
        first = [f"{key}:{settings.pop(key)}" for key in ("bs", "ar", "seed") if key in settings]
        last = [f"{key}:{value}" for key, value in settings.items()]
        references, *fields = self.counting.signature.split("|")
        end = next((place for place, each in enumerate(fields) if each.startswith("version:")), len(fields))
        return "|".join([references, *first, *fields[:end], *last, *fields[end:]])


@lru_cache(maxsize=1)  # many systems and rates are resampled over the same test set, one after another
def draws(sentences: int, resamples: int = 1000, seed: int = 12345) -> NDArray[np.float64]:
    """(resamples, sentences): how often each sentence occurs in a resample; sacrebleu's random numbers."""
    picks = np.random.default_rng(seed).choice(sentences, size=(resamples, sentences), replace=True)
    cells = picks + sentences * np.arange(resamples)[:, None]
    times = np.bincount(cells.ravel(), minlength=resamples * sentences)
    drawn = times.reshape(resamples, sentences).astype(np.float64)
    drawn.flags.writeable = False
    return drawn


def number_sources(sources: Sequence[str]) -> NDArray[np.int64] | None:
    """(sentences,): the number of each sentence's source, in order of first appearance; None if no two share one."""
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(source, len(numbers)) for source in sources]
    return np.array(found) if len(numbers) < len(found) else None


def sum_by_source(counts: NDArray[np.int64], source_of: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """(runs, sources, counts) from counts of sentences, (runs, sentences, counts); sources stay in order."""
    if source_of is None:
        return counts
    order = np.argsort(source_of, kind="stable")
    _, starts = np.unique(source_of[order], return_index=True)
    return np.add.reduceat(counts[:, order], starts, axis=1)


def bleu_of_counts(rows: NDArray[Any]) -> NDArray[np.float64]:
    """BLEU (rows,) from both lengths and the numbers of n-grams in both and of hypotheses: (rows, 2 + 4 + 4).

    As sacrebleu computes it, for all rows at once and to the last digit: orders without a match are smoothed by halving
    (method "exp"), and a row without any match, or without an n-gram of some order, scores 0.
    """
    rows = rows.astype((100.0 * rows.dtype.type(1)).dtype)  # sacrebleu's precision, which depends on NumPy's release
    matches, ours = rows[:, 2:6], rows[:, 6:]
    known = (ours > 0).all(axis=1) & (matches > 0).any(axis=1)
    matches, ours = matches[known], ours[known]
    halvings = (matches == 0).cumsum(axis=1).astype(rows.dtype)
    precisions = np.where(matches > 0, 100.0 * matches / ours, 100.0 / (2.0**halvings * ours))
    lengths = rows[known, :2].astype(np.float64)
    brevity = np.minimum(1 - lengths[:, 1] / lengths[:, 0], 0)
    scores = np.zeros(len(rows))
    scores[known] = [  # in Python, as NumPy's logarithms, exponentials and sums may differ in the last digit
        math.exp(brief) * math.exp(sum(map(math.log, row)) / 4)
        for brief, row in zip(brevity.tolist(), precisions.tolist(), strict=True)
    ]
    return scores


def _sacrebleu_counting(
    metric: SacrebleuMetric,
    expected: Expected,
    score: Callable[[NDArray[Any]], NDArray[np.float64]],
    meaning: str = "",
) -> Counting:
    """What one of sacrebleu's metrics, made with these references, counts of each sentence.

    Counting takes most of the time of all statistics, so each system is counted once.
    """

    @cache
    def count(translations: tuple[str, ...]) -> NDArray[np.int64]:
        expected.require_pairs(translations)
        return np.array(metric._extract_corpus_statistics(translations, None), dtype=np.int64)

    return Counting(lambda translations: count(tuple(translations)), score, str(metric.get_signature()), meaning)


def bleu_counting(expected: Expected) -> Counting:
    """The counts of BLEU: lengths and n-grams. Errors as in `corpus_scores.bleu`."""
    tokenize, lowercase = expected.tokenize, expected.lowercase
    metric = bleu_metric(tokenize, lowercase, references=expected.for_sacrebleu)
    meaning = "lowercased, detokenized" if lowercase else "cased, detokenized"
    if tokenize == "none":
        meaning = "of the tokens between spaces, as the test set has them"
    return _sacrebleu_counting(metric, expected, bleu_of_counts, meaning)


def lc_tok_counting(expected: Expected) -> Counting | None:
    """The counts of BLEU of raw or detokenized lines against those of a `*.lc.norm.tok.LANGUAGE` file, if there is one.

    Comparable with papers that do the same, and not with BLEU of the cased text. The signature is sacrebleu's with the
    preprocessing appended. Errors as in `corpus_scores.bleu`.
    """
    if (found := of_lc_tok(expected)) is None:
        return None
    lowercased, steps = found
    plain = bleu_counting(lowercased)

    def count(translations: Sequence[str]) -> NDArray[np.int64]:
        return plain.count([lc_norm_tok(line, expected.language) for line in translations])

    return Counting(count, plain.score, f"{plain.signature}|{steps}")


def chrf_of_counts(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], matches: NDArray[np.float64]
) -> NDArray[np.float64]:
    """chrF2 (...) from the numbers of n-grams of hypotheses, of references and in both, each (..., orders).

    As sacrebleu computes it, for all at once: F_beta of the mean precision and recall over the orders. Orders without
    any n-gram, in the hypotheses or in the references, do not count.
    """
    ours, theirs, matches = np.broadcast_arrays(ours, theirs, matches)
    counted = (ours > 0) & (theirs > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    precision, recall = (
        np.divide(matches, whole, out=np.zeros(matches.shape), where=counted).sum(axis=-1) / orders
        for whole in (ours, theirs)
    )
    weight = CHRF.BETA**2
    denominator = weight * precision + recall
    score = np.divide((1 + weight) * precision * recall, denominator, out=np.zeros(recall.shape), where=recall > 0)
    return np.asarray(100 * score)


def chrf_counting(expected: Expected) -> Counting:
    """The counts of chrF2 (Popović, 2015), F2 of character n-grams up to 6: of translations, references and both.

    Of several references, the most similar one counts. Errors as in `corpus_scores.bleu`.
    """

    def score(sums: NDArray[Any]) -> NDArray[np.float64]:
        rows = sums.astype(np.float64)
        return chrf_of_counts(rows[:, 0::3], rows[:, 1::3], rows[:, 2::3])

    metric = CHRF(lowercase=expected.lowercase, references=expected.for_sacrebleu)
    return _sacrebleu_counting(metric, expected, score)


Distance = Callable[[str, str], tuple[int, int]]  # translation, reference -> a part, and the whole that it is a part of


def percentage(
    expected: Expected, distance: Distance, best: Callable[..., tuple[int, int]], *settings: str
) -> Counting:
    """A percentage, 100 Σ part / Σ whole: each sentence has two counts, those of its best reference.

    Args:
        expected: The references, and whether case is ignored: then `distance` is given lowercased lines.
        distance: The counts of a translation and a reference.
        best: `max` or `min`, which chooses among the counts for several references.
        settings: Fields of the signature.
    """

    case: Callable[[str], str] = str.lower if expected.lowercase else str
    lists = [[None if line is None else case(line) for line in each] for each in expected.for_sacrebleu]

    def count(translations: Sequence[str]) -> NDArray[np.int64]:
        expected.require_pairs(translations)
        rows = zip(map(case, translations), *lists, strict=True)
        return np.array(
            [best(distance(ours, theirs) for theirs in known if theirs is not None) for ours, *known in rows],
            dtype=np.int64,
        )

    def score(sums: NDArray[Any]) -> NDArray[np.float64]:
        parts, wholes = sums.astype(np.float64).T
        return np.asarray(100 * parts / np.maximum(wholes, 1))

    number = "var" if any(None in each for each in lists) else len(lists)
    fields = [f"nrefs:{number}", f"case:{'lc' if expected.lowercase else 'mixed'}", *settings]
    return Counting(count, score, "|".join([*fields, f"version:seq2seq_attn-{__version__}"]))


def exact_match_counting(expected: Expected) -> Counting:
    """Whether a translation is identical to a reference of its sentence, ignoring blanks at both ends."""

    def is_same(ours: str, theirs: str) -> tuple[int, int]:
        return int(ours.strip() == theirs.strip()), 1

    return percentage(expected, is_same, max, "strip:yes")


def word_error_counting(expected: Expected) -> Counting:
    """Word error rate: edits and lengths in words that white space separates; of several references, the nearest."""

    def edits(ours: str, theirs: str) -> tuple[int, int]:
        return edit_distance(ours.split(), theirs.split()), len(theirs.split())

    return percentage(expected, edits, min, "unit:word")


def character_error_counting(expected: Expected) -> Counting:
    """Character error rate: edits and lengths in characters, with a single blank between words."""

    def edits(ours: str, theirs: str) -> tuple[int, int]:
        one, other = (" ".join(line.split()) for line in (ours, theirs))
        return edit_distance(one, other), len(other)

    return percentage(expected, edits, min, "unit:character")


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other (Levenshtein, 1966).

    Row by row of Levenshtein's table. Within a row, d_j = min over k <= j of c_k + (j - k), with c_k the cost without
    a preceding insertion; so the running minimum of c_k - k gives the whole row.
    """
    numbers: dict[str, int] = {}
    a, b = (np.array([numbers.setdefault(each, len(numbers)) for each in side], dtype=int) for side in (one, other))
    places = np.arange(len(b) + 1)
    row = places
    for deleted, token in enumerate(a, start=1):
        costs = np.minimum(row[1:] + 1, row[:-1] + (b != token))
        row = np.minimum.accumulate(np.concatenate([[deleted], costs]) - places) + places
    return int(row[-1])
