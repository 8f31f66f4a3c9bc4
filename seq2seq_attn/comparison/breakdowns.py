"""Where the arms of a comparison differ: on which sentences, in which words, and in their word alignments.

- breakdowns: scores on groups of test sentences, by rarest word, reordering or entropy of the attention weights
- rates: reference words found, repetitions and omissions in the translations
- agreement: F1 between the links of arms

Everything is computed from files in the run folders; no model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray

from seq2seq_attn.comparison.arms import Arm
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.evaluation.alignment import GoldCorpus, Links, agreement, mean_jump
from seq2seq_attn.evaluation.corpus_scores import default_tokenizer
from seq2seq_attn.evaluation.counts import number_sources, sum_by_source
from seq2seq_attn.evaluation.groups import Band, Group, in_bands, in_thirds, length_quantiles, rows_in_bands
from seq2seq_attn.evaluation.metrics import Metric
from seq2seq_attn.evaluation.resampling import rate_interval, score_interval
from seq2seq_attn.evaluation.words import (
    FREQUENCIES,
    Bag,
    bags,
    content_words,
    count_words,
    found,
    lengths,
    missing,
    only,
    rarest,
    repeated,
    repeats,
)
from seq2seq_attn.results.breakdowns import (
    ENOUGH,
    Breakdown,
    Breakdowns,
    GroupResult,
    GroupScore,
    LinkAgreement,
    Rate,
    Rates,
)
from seq2seq_attn.runs.corpora import TestSet

_Arms = Mapping[str, Arm]
_Translated = Mapping[str, Sequence[Sequence[Bag]]]  # by arm, the translations of each run
_Sources = NDArray[np.int64] | None  # the source of each sentence, as `number_sources` numbers them
_Count = Callable[[Bag, Bag], tuple[int, int]]  # translation, reference -> numerator, denominator of a rate
_Counts = Mapping[str, tuple[_Count, Sequence[Bag]]]  # by the name of a rate, with the references that it is of

_THIRDS = "sharpest", "middle", "most even"


def where_arms_differ(
    arms: _Arms, test_set: TestSet, config: Config, main: Metric, training: ParallelCorpus | None
) -> Breakdowns:
    """All breakdowns that can be computed; without the training text, none that depends on word frequencies.

    `config` is that of any run; only its definition of a word is used. A target word is a token of sacrebleu's
    tokenizer. A source that is not text has no rare words. `main` says which arm is the best.
    """
    source_words = default_tokenizer(config.text.source_language), config.text.lowercase
    target_words = config.evaluation.words
    is_text = config.source is None
    sources, references = bags(test_set.pairs.source, *source_words), bags(test_set.pairs.target, *target_words)
    sizes = [each.words.total() for each in sources] if is_text else test_set.source_lengths
    translated = {name: [bags(run.translations, *target_words) for run in arm.tested] for name, arm in arms.items()}
    same_groups = partial(_same_groups, arms, sizes)
    rates_of = partial(_rates, translated, number_sources(test_set.pairs.source))
    breakdowns, rates = [], []
    if training is not None and is_text:
        breakdowns.append(
            same_groups(
                "rarest source word",
                "Frequency of the rarest word of the source in the training text.",
                in_bands(rarest(sources, count_words(training.source, *source_words)), FREQUENCIES),
            )
        )
    if training is not None:
        known = {word for reference in references for word in reference.words}
        in_training = count_words(training.target, *target_words)
        rates.append(
            rates_of(
                "words of the reference found",
                "Share of the reference words that the output also contains, by their frequency in the training text.",
                {
                    label: (found, only(references, {word for word in known if in_training[word] in band}))
                    for label, band in FREQUENCIES.items()
                },
            )
        )
    links, origin = _links_of_reordering(arms, test_set.gold, main)
    breakdowns.append(
        same_groups(
            "distance of reordering",
            f"Mean jump in source {config.source_unit} between consecutive words of the reference (0: same word "
            f"order), by {origin}. Thirds of the test set.",
            in_thirds([mean_jump(each) for each in links]),
        )
    )
    breakdowns.append(_by_entropy(arms, sizes))
    rates.append(
        rates_of(
            "repetition and omission",
            "Repeated bigrams: share of the output's bigrams that repeat an earlier one more often than the reference "
            "does; outputs that repeat: share of outputs with such bigrams. Content words missing: share of the "
            "reference's content words that the output lacks. Length: number of words relative to the reference.",
            {
                "repeated bigrams": (repeated, references),
                "outputs that repeat": (repeats, references),
                "content words missing": (missing, only(references, content_words(references))),
                "length": (lengths, references),
            },
        )
    )
    return Breakdowns(
        tuple(each for each in breakdowns if each is not None),
        tuple(each for each in rates if each is not None),
        link_agreement({name: [reading.links for reading in arm.attention] for name, arm in arms.items()}),
    )


def _links_of_reordering(arms: _Arms, gold: GoldCorpus | None, main: Metric) -> tuple[Sequence[Links], str]:
    """The gold links, or else those of the best arm that has links; and what they are."""
    if gold is not None:
        return gold.sure, "gold links"
    with_links = {name: arm for name, arm in arms.items() if arm.attention}
    if not with_links:
        return [], ""
    best = max(with_links, key=lambda name: main.sign * with_links[name].main.scores().mean())
    origin = f"the links of {best}, seed {with_links[best].runs[0].seed}, as there are no gold links"
    return with_links[best].attention[0].links, origin


def _by_entropy(arms: _Arms, sizes: Sequence[int]) -> Breakdown | None:
    """By the entropy of each arm's own attention weights, averaged over its runs."""
    results = {}
    for name, arm in arms.items():
        if arm.attention:
            runs = zip(*(reading.entropies for reading in arm.attention), strict=True)
            groups = in_thirds([None if None in seeds else float(np.mean(seeds)) for seeds in runs])
            results[name] = tuple(_group_result(arm, sizes, each.rows, f"{each.label} bits") for each in groups)
    if not results:
        return None
    return Breakdown(
        "entropy of the weights",
        "Thirds of the test set by the mean entropy of the attention weights on the reference, in bits. Each arm is "
        "grouped by its own entropies, so the groups of two arms differ. Entropy can be larger for long sources.",
        _THIRDS,
        results,
    )


def _same_groups(
    arms: _Arms, sizes: Sequence[int], name: str, meaning: str, groups: Sequence[Group]
) -> Breakdown | None:
    """A breakdown with the same groups for every arm; None if fewer than two groups have sentences."""
    filled = [group for group in groups if group.rows]
    if len(filled) < 2:
        return None
    results = {arm: tuple(_group_result(tested, sizes, group.rows) for group in filled) for arm, tested in arms.items()}
    return Breakdown(name, meaning, tuple(group.label for group in filled), results)


def _group_result(arm: Arm, sizes: Sequence[int], rows: Sequence[int], bounds: str = "") -> GroupResult | None:
    if not rows:
        return None
    words = float(np.mean([sizes[row] for row in rows]))
    return GroupResult(len(rows), _scores(arm, rows), words, bounds, _sources(arm, rows))


def _scores(arm: Arm, rows: Sequence[int]) -> dict[str, GroupScore]:
    """The score of these sentences as a corpus, whose counts are summed, by the key of each metric."""
    groups = {key: counts.select(rows) for key, counts in arm.counts.items()}
    return {key: GroupScore(float(each.scores().mean()), *score_interval(each)) for key, each in groups.items()}


def _sources(arm: Arm, rows: Sequence[int]) -> int | None:
    """The number of different sources among these sentences; None if it is theirs."""
    sources = arm.main.select(rows).sources
    return sources if sources < len(rows) else None


def by_length(arms: _Arms, test_set: TestSet, bands: Sequence[Band], unit: str = "words") -> Breakdown:
    """By the number of words of the source, or of another unit.

    The groups are the bands with sentences, or quantiles of the lengths if fewer than two of the bands have `ENOUGH`
    different sources.
    """
    lengths = test_set.source_lengths
    different = list(dict(zip(test_set.pairs.source, lengths, strict=True)).values())
    if sum(sum(length in band for length in different) >= ENOUGH for band in bands) < 2:
        bands = length_quantiles(different, ENOUGH) or bands
    groups = rows_in_bands(lengths, bands)

    def results(arm: Arm) -> tuple[GroupResult, ...]:
        longest = max(run.config.data.longest_training for run in arm.runs)  # in tokens, hence at most as many words
        return tuple(
            GroupResult(
                len(rows), _scores(arm, rows), sources=_sources(arm, rows), longer_than_training=band.low > longest
            )
            for band, rows in groups.items()
        )

    return Breakdown(
        "source length",
        f"{unit.capitalize()} of the source.",
        tuple(map(str, groups)),
        {name: results(arm) for name, arm in arms.items()},
    )


def _rates(arms: _Translated, source_of: _Sources, name: str, meaning: str, counts: _Counts) -> Rates | None:
    """A rate per arm and kind of count; None if fewer than two kinds have a rate in any arm."""
    columns = {
        label: [_rate([list(map(count, run, references)) for run in runs], source_of) for runs in arms.values()]
        for label, (count, references) in counts.items()
    }
    filled = {label: column for label, column in columns.items() if any(column)}
    rows = zip(*filled.values(), strict=True)
    return Rates(name, meaning, tuple(filled), dict(zip(arms, rows, strict=True))) if len(filled) > 1 else None


def _rate(runs: Sequence[Sequence[tuple[int, int]]], source_of: _Sources) -> Rate | None:
    """The mean rate over runs with its interval; None if the denominator of a run is 0."""
    counts = sum_by_source(np.array(runs, dtype=np.int64), source_of)
    numerators, denominators = counts.sum(axis=1).T
    if not denominators.all():
        return None
    return Rate(float((numerators / denominators).mean()), *rate_interval(counts), round(denominators.mean()))


def link_agreement(arms: Mapping[str, Sequence[Sequence[Links]]]) -> LinkAgreement | None:
    """F1 between the links of every two arms, given by arm and run; None if fewer than two runs have links."""
    linked = {name: runs for name, runs in arms.items() if runs}
    if sum(map(len, linked.values())) < 2:
        return None
    f1: dict[tuple[str, str], float | None] = {}
    for one, other in combinations_with_replacement(linked, 2):
        f1[one, other] = f1[other, one] = _mean_f1(linked[one], linked[other])
    return LinkAgreement(tuple(linked), tuple(tuple(f1[one, other] for other in linked) for one in linked))


def _mean_f1(ours: Sequence[Sequence[Links]], theirs: Sequence[Sequence[Links]]) -> float | None:
    """Mean F1 over all pairs of two different runs."""
    pairs = combinations(ours, 2) if ours is theirs else product(ours, theirs)
    scores = [agreement(one, other).f1 for one, other in pairs]
    return float(np.mean(scores)) if scores else None
