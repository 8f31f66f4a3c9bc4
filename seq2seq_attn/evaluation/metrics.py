"""The metrics that a test set is scored by: one record each.

Everything that deals with scores loops over `METRICS`: scoring a run, collecting runs over seeds, the columns of the
tables and the signatures below them. So a new metric is one more record here, or in a user's own file:

    from seq2seq_attn.evaluation.metrics import Metric, register
    from seq2seq_attn.evaluation.corpus_scores import Score

    def word_ratio(test):
        words = [sum(len(line.split()) for line in side) for side in (test.translations, test.references)]
        return Score("length ratio", words[0] / words[1], "words:whitespace")

    register(Metric("length_ratio", "length ratio", "Ratio", 2, None, "words per reference word", word_ratio))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.evaluation.alignment import GoldCorpus, Links, alignment_error_rate
from seq2seq_attn.evaluation.attention_weights import attention_entropy
from seq2seq_attn.evaluation.corpus_scores import Score, bleu, bleu_lc_tok, chrf, comet, exact_match, ter


class TranslatedTest(NamedTuple):
    """A test set and its translations by one system, line by line."""

    translations: Sequence[str]
    references: Sequence[str]  # one of each line
    tokenize: str = "13a"  # sacrebleu's tokenizer for BLEU
    lowercase: bool = False  # whether case is ignored
    lc_tok: Sequence[str] | None = None  # references that are lowercased, normalized and tokenized; None: not available
    language: str = "en"  # of the translations, for `lc_tok`
    sources: Sequence[str] | None = None  # for COMET
    comet: Path | None = None  # the checkpoint of a COMET model; None: not scored by COMET
    further: Sequence[Sequence[str]] = ()  # further references, blank where one is missing

    @property
    def all_references(self) -> list[Sequence[str]]:
        return [self.references, *self.further]


class ForcedTest(NamedTuple):
    """Observations of one model during forced decoding of a test set's references.

    `log_likelihood` sums log p(y_i | y_1 .. y_{i-1}, X), natural, over all `tokens`, `</s>` included.
    """

    log_likelihood: float
    tokens: int
    weights: Sequence[NDArray[np.float64]]  # (T, S) attention weights of each pair; zeros if the model has none
    links: Sequence[Links]  # of each pair, each target word with its most attended source word
    gold: GoldCorpus | None = None  # gold links of each pair


def perplexity(log_probability: float) -> float:
    """exp(-log p), of the mean log-probability of a token; infinite above the largest number, 1.8e308."""
    try:
        return math.exp(-log_probability)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Metric:
    """A metric, and how it is computed: from translations or from forced decoding, exactly one of the two.

    ValueError: neither or both ways to compute it are given.
    """

    key: str  # in metrics.json, results.json and the signatures
    name: str  # in lines of text
    header: str  # of its column in tables
    digits: int  # shown after the decimal point in tables
    direction: Literal["higher", "lower"] | None  # which is better; None: neither
    meaning: str  # one sentence, without capital and full stop, as it follows the header and a colon
    from_translations: Callable[[TranslatedTest], Score | None] | None = None  # None: not defined for this test set
    from_forced: Callable[[ForcedTest], float | None] | None = None  # None: not defined for this model or test set
    signature: str = ""  # of a metric from forced decoding; `{tokenizer}` stands for the model's tokenizer
    is_main: bool = False  # shown even in a narrow terminal

    def __post_init__(self) -> None:
        if (self.from_translations is None) == (self.from_forced is None):
            raise ValueError(f"metric {self.key!r} needs either from_translations or from_forced")

    @property
    def explanation(self) -> str:
        """The meaning with the better direction, as notes below a table have it."""
        better = "" if self.direction is None else f", {self.direction} is better"
        return f"{self.header}: {self.meaning}{better}"


METRICS: dict[str, Metric] = {}  # by key, in the order of the columns


def register(metric: Metric) -> Metric:
    """Add a metric to `METRICS`. ValueError: there is one with this key."""
    if metric.key in METRICS:
        raise ValueError(f"there is a metric {metric.key!r} already: {METRICS[metric.key].name}")
    METRICS[metric.key] = metric
    return metric


def score_translations(test: TranslatedTest, skip: Sequence[str] = ()) -> dict[str, Any]:
    """All metrics of translations that are defined for the test set, as {key: {value, signature}}.

    Keys in `skip` are left out. UserError: as in `corpus_scores.bleu`.
    """
    scores: dict[str, Any] = {}
    for metric in METRICS.values():
        if metric.from_translations is not None and metric.key not in skip:
            score = metric.from_translations(test)
            if score is not None:
                scores[metric.key] = {"value": score.value, "signature": score.signature}
    return scores


def score_forced(test: ForcedTest) -> dict[str, float | None]:
    """All metrics of forced decoding, as {key: value}; None where a metric is not defined."""
    return {metric.key: metric.from_forced(test) for metric in METRICS.values() if metric.from_forced is not None}


def score_value(scores: Mapping[str, Any], key: str) -> float | None:
    """The value of a metric in what `score_translations` and `score_forced` return; None if it was not measured."""
    score = scores.get(key)
    value: float | None = score["value"] if isinstance(score, Mapping) else score
    return value


def _lc_tok(test: TranslatedTest) -> Score | None:
    return None if test.lc_tok is None else bleu_lc_tok(test.translations, test.lc_tok, test.language)


def _comet(test: TranslatedTest) -> Score | None:
    if test.sources is None or test.comet is None:
        return None
    return comet(test.sources, test.translations, test.references, test.comet)


def _aer(test: ForcedTest) -> float | None:
    if test.gold is None or not any(test.links):
        return None
    return alignment_error_rate(test.links, *test.gold)


register(
    Metric(
        "bleu",
        "BLEU",
        "BLEU",
        1,
        "higher",
        "cased, detokenized",
        from_translations=lambda test: bleu(test.translations, test.all_references, test.tokenize, test.lowercase),
        is_main=True,
    )
)
register(
    Metric(
        "bleu_lc_tok",
        "BLEU lc.norm.tok",
        "BLEU lc",
        1,
        "higher",
        "lowercased and tokenized",
        from_translations=_lc_tok,
        is_main=True,
    )
)
register(
    Metric(
        "aer",
        "AER",
        "AER",
        3,
        "lower",
        "alignment error rate against gold links, 0 to 1",
        from_forced=_aer,
        is_main=True,
    )
)
register(
    Metric(
        "chrf",
        "chrF2",
        "chrF",
        1,
        "higher",
        "F2 of character n-grams",
        from_translations=lambda test: chrf(test.translations, test.all_references, test.lowercase),
    )
)
register(
    Metric(
        "ter",
        "TER",
        "TER",
        1,
        "lower",
        "edits per 100 reference words",
        from_translations=lambda test: ter(test.translations, test.all_references),
    )
)
register(
    Metric("comet", "COMET", "COMET", 1, "higher", "score of a trained model, times 100", from_translations=_comet)
)
register(
    Metric(
        "exact_match",
        "exact match",
        "Exact",
        1,
        "higher",
        "% of translations identical to the reference",
        from_translations=lambda test: exact_match(test.translations, test.all_references, test.lowercase),
    )
)
register(
    Metric(
        "attention_entropy",
        "attention entropy",
        "Entropy",
        2,
        None,
        "mean entropy in bits of the attention weights on the references; 0 if a single source position has all weight",
        from_forced=lambda test: attention_entropy(test.weights),
    )
)
register(
    Metric(
        "perplexity",
        "perplexity",
        "Perplexity",
        2,
        "lower",
        "per token of the references, in the model's own vocabulary",
        from_forced=lambda test: perplexity(test.log_likelihood / max(1, test.tokens)),
        signature="nrefs:1|tok:{tokenizer}|eos:yes|unit:token",  # the unit is a token, so it depends on the tokenizer
    )
)
