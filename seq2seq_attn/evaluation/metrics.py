"""The metrics that a test set is scored by: one record each.

Everything that deals with scores reads these records: validation, scoring a run, collecting runs over seeds,
statistics, tables, charts and conclusions. So a new metric is one more record here, or in a user's own file:

    from seq2seq_attn.evaluation.counts import percentage
    from seq2seq_attn.evaluation.metrics import Metric

    def first_word(expected):
        return percentage(expected, lambda ours, theirs: (ours.split()[:1] == theirs.split()[:1], 1), max)

    First = Metric("first", "first word", "First", 1, "higher", "% with the right first word", counting=first_word)

With `evaluation.metrics: [my_metrics.py:First, bleu]` it is one of a configuration; every run keeps the file. A metric
that says how it counts sentences (`counting`) may come first: then training validates by it, and arms are compared in
it. `register` adds a metric to those that are known by their keys, such as one of forced decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.errors import did_you_mean
from seq2seq_attn.evaluation.alignment import GoldCorpus, Links, alignment_error_rate
from seq2seq_attn.evaluation.attention_weights import attention_entropy
from seq2seq_attn.evaluation.corpus_scores import (
    Expected,
    Score,
    SentenceScores,
    bleu,
    comet,
    sentence_bleu,
    sentence_comet,
    sentence_lc_tok,
    sentence_ter,
    ter,
)
from seq2seq_attn.evaluation.counts import (
    CorpusCounts,
    Counting,
    Runs,
    bleu_counting,
    character_error_counting,
    chrf_counting,
    exact_match_counting,
    lc_tok_counting,
    word_error_counting,
)
from seq2seq_attn.evaluation.rouge import rouge_counting


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
    """A metric, and how it is computed: from translations, from counts of them, or from forced decoding.

    Args:
        key: Its name in the configuration, in metrics.json, results.json and the signatures.
        name: In lines of text.
        label: In tables and charts, and after a number in sentences.
        digits: Shown after the decimal point.
        direction: Which scores are better; None: neither.
        meaning: One sentence, without capital and full stop, as it follows the label and a colon.
        counting: How translations are counted; it gives None where the metric is not defined for the test set.
        from_translations: The score of a corpus, of a metric that does not count, or that has more to say than its
            counts: sacrebleu warns of lines that look tokenized. None as above.
        from_forced: The score by forced decoding; it gives None where the metric is not defined for model or test set.
        from_sentences: The scores of single translations, of a metric that does not count, or counts otherwise there:
            BLEU of a sentence leaves out the orders that it is too short for. None as above.
        signature: Of a metric from forced decoding; `{tokenizer}` stands for the model's tokenizer.
        floor: A worse score is that of a model that has learned nothing; None: every score carries information.
        gain: An improvement that matters, in points.
        needs: The field of `Expected` with a file that the metric cannot do without, and is always computed with.
        is_prominent: Shown even in a narrow terminal.

    Raises:
        ValueError: There is no way to compute it, or one from translations and one from forced decoding.
    """

    key: str
    name: str
    label: str
    digits: int
    direction: Literal["higher", "lower"] | None
    meaning: str
    counting: Callable[[Expected], Counting | None] | None = None
    from_translations: Callable[[Sequence[str], Expected], Score | None] | None = None
    from_forced: Callable[[ForcedTest], float | None] | None = None
    from_sentences: Callable[[Sequence[str], Expected], SentenceScores | None] | None = None
    signature: str = ""
    floor: float | None = None
    gain: float = 0.5
    needs: Literal["lc_tok", "comet"] | None = None
    is_prominent: bool = False

    def __post_init__(self) -> None:
        if self.is_of_translations == (self.from_forced is not None):
            raise ValueError(f"metric {self.key!r} needs either counting or from_translations, or from_forced")

    @property
    def is_of_translations(self) -> bool:
        return self.counting is not None or self.from_translations is not None

    @property
    def can_be_main(self) -> bool:
        """Whether training can be validated by it, and arms compared in it."""
        return self.counting is not None and self.needs is None

    @property
    def sign(self) -> int:
        """-1 if lower scores are better, else 1."""
        return -1 if self.direction == "lower" else 1

    def is_informative(self, score: float) -> bool:
        """Whether a score may be that of a model that has learned something; NaN may."""
        return self.floor is None or not self.sign * score < self.sign * self.floor

    def is_better(self, score: float, best: float | None) -> bool:
        """Whether a score is better than the best one; any number is better than a score that is not one.

        The first validations may have no score that carries information: then the latest is the best.
        """
        if best is None or math.isnan(best):
            return best is None or not math.isnan(score)
        if not self.is_informative(best):
            return not math.isnan(score)
        return self.sign * (score - best) > 0

    def counts(self, runs: Runs, expected: Expected) -> CorpusCounts | None:
        """The counts of each run's translations; None if the metric does not count, or not this test set."""
        counting = None if self.counting is None else self.counting(expected)
        return None if counting is None else CorpusCounts.of(counting, runs, expected.sources)

    def score(self, translations: Sequence[str], expected: Expected) -> Score | None:
        """The score of a corpus; None where the metric is not defined.

        Raises:
            UserError: The numbers of lines differ, or what the metric needs is missing.
        """
        if self.from_translations is not None:
            return self.from_translations(translations, expected)
        counting = None if self.counting is None else self.counting(expected)
        return None if counting is None else Score(counting.score_corpus(translations), counting.signature)

    def score_sentences(self, translations: Sequence[str], expected: Expected) -> SentenceScores | None:
        """The score of each translation; None where the metric is not defined, or has no score of single translations.

        Raises:
            UserError: As in `score`.
        """
        if self.from_sentences is not None:
            return self.from_sentences(translations, expected)
        counting = None if self.counting is None else self.counting(expected)
        return None if counting is None else SentenceScores(counting.score_sentences(translations), counting.signature)


# What training minimizes, as the metric that a run without a better one is validated by.
LOSS = Metric(
    "loss",
    "loss",
    "loss",
    3,
    "lower",
    "nats per target token",
    from_forced=lambda test: -test.log_likelihood / max(1, test.tokens),
)


def register(metric: Metric) -> Metric:
    """Adds a metric to `METRICS`, in place of an earlier one of the user's own with its key.

    Raises:
        ValueError: The package has a metric with this key.
    """
    if metric.key in PACKAGE_KEYS:
        raise ValueError(f"there is a metric {metric.key!r} already: {METRICS[metric.key].name}")
    METRICS[metric.key] = metric
    return metric


def find_metrics(names: Sequence[str], load: Callable[[str], ModuleType]) -> list[Metric]:
    """The metrics with these keys, or of these names in a user's own files, as in `my_metrics.py:First`.

    Those of files are registered, so that their scores are shown wherever those of others are.

    Args:
        names: One at least; the first is the main metric.
        load: Imports the module of a file.

    Raises:
        ValueError: There is no such metric of outputs (the nearest is named), one is given twice, or the first
            does not count sentences.
    """
    known = {key: metric for key, metric in METRICS.items() if metric.is_of_translations}
    metrics = []
    for name in names:
        place, _, own = name.rpartition(":")
        metric = getattr(load(place), own, None) if place else known.get(own)
        if not isinstance(metric, Metric) and place:
            raise ValueError(f"{place}: {own!r} is not a Metric")
        if metric is None:
            hint = did_you_mean(own, known, "choose another.")
            raise ValueError(
                f"there is no metric {own!r} of outputs; {hint} There are {', '.join(known)}; "
                "name one of your own by its file, as in my_metrics.py:First"
            )
        metrics.append(register(metric) if place else metric)
    if not metrics or len({metric.key for metric in metrics}) < len(metrics):
        raise ValueError("give at least one metric, each once")
    if not metrics[0].can_be_main:
        able = ", ".join(key for key, metric in known.items() if metric.can_be_main)
        raise ValueError(
            f"{metrics[0].key!r} cannot come first: neither validation nor comparison is by it; these can: {able}"
        )
    return metrics


def with_given_files(metrics: Iterable[Metric], expected: Expected) -> list[Metric]:
    """These metrics, and those that need a file, if there is one."""
    with_file = [each for each in METRICS.values() if each.needs and getattr(expected, each.needs) is not None]
    return list(dict.fromkeys([*metrics, *with_file]))


def score_translations(translations: Sequence[str], expected: Expected, metrics: Iterable[Metric]) -> dict[str, Any]:
    """The metrics that are defined for the test set, as {key: {value, signature}}. UserError: as in `Metric.score`."""
    scores = {metric.key: metric.score(translations, expected) for metric in metrics}
    return {key: {"value": each.value, "signature": each.signature} for key, each in scores.items() if each is not None}


def score_lines(
    outputs: Sequence[tuple[str, Sequence[str]]], expected: Expected, metrics: Iterable[Metric]
) -> dict[str, Any]:
    """The score of each line of each output by each metric, as plain values.

    Args:
        outputs: Translations of the test set, each with a name.
        expected: What they are scored against.
        metrics: A metric without a score of single translations has no values, and None for its signature.

    Returns:
        `signatures` by the keys of the metrics, and `lines`, a list of {output, line, KEY: value, ...}, line from 1.

    Raises:
        UserError: As in `Metric.score`.
    """
    signatures: dict[str, str | None] = {}
    lines: list[dict[str, Any]] = []
    chosen = list(metrics)
    for name, translations in outputs:
        found = {metric.key: metric.score_sentences(translations, expected) for metric in chosen}
        signatures = {key: each and each.signature for key, each in found.items()}
        columns = {key: each.values for key, each in found.items() if each is not None}
        lines += (
            {"output": name, "line": number + 1} | {key: values[number] for key, values in columns.items()}
            for number in range(len(translations))
        )
    return {"signatures": signatures, "lines": lines}


def score_forced(test: ForcedTest) -> dict[str, float | None]:
    """All metrics of forced decoding, as {key: value}; None where a metric is not defined."""
    return {metric.key: metric.from_forced(test) for metric in METRICS.values() if metric.from_forced is not None}


def score_value(scores: Mapping[str, Any], key: str) -> float | None:
    """The value of a metric in what `score_translations` and `score_forced` return; None if it was not measured."""
    score = scores.get(key)
    value: float | None = score["value"] if isinstance(score, Mapping) else score
    return value


def _error_rate(test: ForcedTest) -> float | None:
    return alignment_error_rate(test.links, *test.gold) if test.gold is not None and any(test.links) else None


_OF_THE_PACKAGE = (
    Metric(
        "bleu",
        "BLEU",
        "BLEU",
        1,
        "higher",
        "n-grams of words that the reference has as well",
        counting=bleu_counting,
        from_translations=bleu,
        from_sentences=sentence_bleu,
        floor=1.0,
        is_prominent=True,
    ),
    Metric(
        "bleu_lc_tok",
        "BLEU lc.norm.tok",
        "BLEU lc",
        1,
        "higher",
        "lowercased and tokenized",
        counting=lc_tok_counting,
        from_sentences=sentence_lc_tok,
        needs="lc_tok",
        is_prominent=True,
    ),
    Metric("chrf", "chrF2", "chrF", 1, "higher", "F2 of character n-grams", counting=chrf_counting, floor=1.0),
    # sacrebleu takes a minute for a thousand long, bad translations, too long to count them for every comparison.
    Metric(
        "ter",
        "TER",
        "TER",
        1,
        "lower",
        "edits per 100 reference words",
        from_translations=ter,
        from_sentences=sentence_ter,
    ),
    Metric(
        "comet",
        "COMET",
        "COMET",
        1,
        "higher",
        "score of a trained model, times 100",
        from_translations=comet,
        from_sentences=sentence_comet,
        needs="comet",
    ),
    Metric(
        "exact_match",
        "exact match",
        "Exact",
        1,
        "higher",
        "% of outputs identical to the reference",
        counting=exact_match_counting,
        floor=0.1,
    ),
    Metric(
        "wer",
        "word error rate",
        "WER",
        1,
        "lower",
        "edits per 100 words of the reference",
        counting=word_error_counting,
        floor=100.0,
    ),
    Metric(
        "cer",
        "character error rate",
        "CER",
        1,
        "lower",
        "edits per 100 characters of the reference",
        counting=character_error_counting,
        floor=100.0,
    ),
    *(
        Metric(
            f"rouge_{kind.lower()}",
            f"ROUGE-{kind}",
            f"ROUGE-{kind}",
            1,
            "higher",
            f"F1 of {counted} that summary and reference share, mean over sentences",
            counting=rouge_counting(f"rouge{kind}"),
            floor=1.0,
        )
        for kind, counted in (
            ("1", "words"),
            ("2", "pairs of neighboring words"),
            ("L", "the longest sequence of words"),
        )
    ),
    Metric(
        "aer",
        "AER",
        "AER",
        3,
        "lower",
        "alignment error rate against gold links, 0 to 1",
        from_forced=_error_rate,
        is_prominent=True,
    ),
    Metric(
        "attention_entropy",
        "attention entropy",
        "Entropy",
        2,
        None,
        "mean entropy in bits of the attention weights on the references; 0 if a single source position has all weight",
        from_forced=lambda test: attention_entropy(test.weights),
    ),
    Metric(
        "perplexity",
        "perplexity",
        "Perplexity",
        2,
        "lower",
        "per token of the references, in the model's own vocabulary",
        from_forced=lambda test: perplexity(test.log_likelihood / max(1, test.tokens)),
        signature="nrefs:1|tok:{tokenizer}|eos:yes|unit:token",  # the unit is a token, so it depends on the tokenizer
    ),
)
METRICS: dict[str, Metric] = {metric.key: metric for metric in _OF_THE_PACKAGE}  # by key; and those of the user's own
PACKAGE_KEYS = frozenset(METRICS)
