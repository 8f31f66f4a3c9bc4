"""Counts of the runs of a system, as the tests of statistics need them."""

from __future__ import annotations

from seq2seq_attn.evaluation.counts import CorpusCounts, bleu_counting, chrf_counting


def bleu_counts(runs, references, tokenize="13a", lowercase=False, sources=()):
    return CorpusCounts.of(bleu_counting(references, tokenize, lowercase), runs, sources)


def chrf_counts(runs, references, lowercase=False, sources=()):
    return CorpusCounts.of(chrf_counting(references, lowercase), runs, sources)
