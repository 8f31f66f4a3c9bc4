"""Where the arms of a comparison differ, from what their runs have left in their folders; no model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement, product

import numpy as np

from seq2seq_attn.comparison.arm import Arm
from seq2seq_attn.comparison.breakdowns import by_entropy, by_rarest_word, by_reordering
from seq2seq_attn.comparison.rates import faults, found_words
from seq2seq_attn.config import Config
from seq2seq_attn.evaluation.alignment import agreement
from seq2seq_attn.evaluation.pharaoh import Links
from seq2seq_attn.evaluation.words import bags, count_words
from seq2seq_attn.results.where import LinkAgreement, Where
from seq2seq_attn.runs.data import TestSet
from seq2seq_attn.text.corpus import ParallelCorpus


def where_arms_differ(
    arms: Mapping[str, Arm], test_set: TestSet, config: Config, training: ParallelCorpus | None
) -> Where:
    """What of it can be had; without the training text nothing by how often it has a word.

    `config` is that of any run: of it counts what a word is. One of the target is a token that BLEU counts.
    """
    source_tokeniser = "zh" if config.text.source_language == "zh" else "13a"
    target_tokeniser = config.evaluation.tokenize
    sources = bags(test_set.pairs.source, source_tokeniser)
    references = bags(test_set.pairs.target, target_tokeniser)
    translated = {name: [bags(run, target_tokeniser) for run in arm.translations] for name, arm in arms.items()}
    breakdowns = [by_reordering(arms, sources, test_set.gold), by_entropy(arms, sources)]
    rates = [faults(translated, references)]
    if training is not None:
        breakdowns.insert(0, by_rarest_word(arms, sources, count_words(training.source, source_tokeniser)))
        rates.insert(0, found_words(translated, references, count_words(training.target, target_tokeniser)))
    return Where(
        tuple(each for each in breakdowns if each is not None),
        tuple(each for each in rates if each is not None),
        link_agreement({name: [reading.links for reading in arm.readings] for name, arm in arms.items()}),
    )


def link_agreement(arms: Mapping[str, Sequence[Sequence[Links]]]) -> LinkAgreement | None:
    """F1 between the links of arms, from those of each run; None if fewer than two runs have any."""
    linked = {name: runs for name, runs in arms.items() if runs}
    if sum(map(len, linked.values())) < 2:
        return None
    f1: dict[tuple[str, str], float | None] = {}
    for one, other in combinations_with_replacement(linked, 2):
        f1[one, other] = f1[other, one] = _agreement(linked[one], linked[other])
    return LinkAgreement(tuple(linked), tuple(tuple(f1[one, other] for other in linked) for one in linked))


def _agreement(ours: Sequence[Sequence[Links]], theirs: Sequence[Sequence[Links]]) -> float | None:
    """Mean F1 over pairs of runs, none with itself."""
    pairs = combinations(ours, 2) if ours is theirs else product(ours, theirs)
    scores = [agreement(one, other).f1 for one, other in pairs]
    return float(np.mean(scores)) if scores else None
