"""Scores and counts against lists of references, as the tests of statistics need them."""

from __future__ import annotations

from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.counts import CorpusCounts, bleu_counting, chrf_counting
from seq2seq_attn.evaluation.metrics import METRICS


def expected(references, tokenize="13a", lowercase=False, sources=()):
    """From references that are a list of lines, or several such lists."""
    is_one = all(isinstance(line, str) for line in references)
    return Expected([references] if is_one else references, sources, tokenize, lowercase)


def scorer(key):
    def score(translations, references, tokenize="13a", lowercase=False):
        return METRICS[key].score(translations, expected(references, tokenize, lowercase))

    return score


bleu, chrf, ter, exact_match, word_errors, character_errors = map(
    scorer, ("bleu", "chrf", "ter", "exact_match", "wer", "cer")
)


def bleu_counts(runs, references, tokenize="13a", lowercase=False, sources=()):
    return CorpusCounts.of(bleu_counting(expected(references, tokenize, lowercase)), runs, sources)


def chrf_counts(runs, references, lowercase=False, sources=()):
    return CorpusCounts.of(chrf_counting(expected(references, lowercase=lowercase)), runs, sources)
