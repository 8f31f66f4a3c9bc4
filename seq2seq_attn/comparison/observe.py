"""Observations on finished runs: learning curves, attention maps, beam searches, and the sentences that differ most."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_attn.analysis.beam_trace import example_lines, trace_pair
from seq2seq_attn.analysis.word_alignment import token_attention
from seq2seq_attn.comparison.experiment import RunGrid
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.evaluation.counts import Counting
from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.results.attention import (
    ATTENTION,
    CORPUS,
    ArmAttention,
    AttentionMap,
    CorpusAttention,
    CorpusPair,
    LinkPairs,
    Segmentation,
    pack_weights,
)
from seq2seq_attn.results.examples import (
    EXAMPLES,
    SENTENCES,
    SHOWN,
    ContrastiveSentence,
    ContrastiveSentences,
    Example,
    ScoredTranslation,
)
from seq2seq_attn.results.seen import SeenSource
from seq2seq_attn.runs.corpora import TestSet, load_front_ends
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.forced import Forced

SCORED_BY = METRICS["chrf"].name  # of sentences, see `Scoring`
MOST_WEIGHTS = 10_000_000  # attention weights kept, over all arms: one to four MB on the page


class Observations:
    """Attention maps, decoded examples and the attention on the test set, by arm."""

    def __init__(self, folder: Path | None, arms: Collection[str]) -> None:
        """What `observe` wrote about these arms into the folder, where not every file needs to be left; None: nothing.

        UserError: a file is malformed.
        """
        maps = ATTENTION.find(folder) if folder else None
        examples = EXAMPLES.find(folder) if folder else None
        attention = CORPUS.find(folder) if folder else None
        self.maps = [each for each in maps or () if each.arm in arms]
        self.traces = {
            example.line - 1: [trace for trace in example.readings if trace.arm in arms] for example in examples or ()
        }
        self.seen = {example.line - 1: example.seen for example in examples or () if example.seen}  # not of text
        self.lines = [pair.line - 1 for pair in attention.pairs] if attention else []  # whose attention is held
        self.metric = attention.metric if attention else ""  # of the scores of these sentences
        self.segmentations = list(attention.segmentations) if attention else []
        self.arms = {arm: each for arm, each in attention.arms.items() if arm in arms} if attention else {}

    def save(self, folder: Path, pairs: ParallelCorpus, gold: Sequence[LinkPairs | None], arms: Sequence[str]) -> None:
        """Writes the files, with the arms in this order; apart from the maps, only those with content are left."""
        ATTENTION.save(tuple(sorted(self.maps, key=lambda each: arms.index(each.arm))), folder)
        for file in (CORPUS, EXAMPLES, SENTENCES):  # of arms that this comparison may no longer have
            (folder / file.name).unlink(missing_ok=True)
        if self.arms:
            corpus = CorpusAttention(
                len(pairs),
                self.metric,
                tuple(CorpusPair(line + 1, pairs.source[line], pairs.target[line], gold[line]) for line in self.lines),
                tuple(self.segmentations),
                {arm: self.arms[arm] for arm in arms if arm in self.arms},
            )
            CORPUS.save(corpus, folder)
        examples = [
            Example(line + 1, pairs.source[line], pairs.target[line], gold[line], traces, self.seen.get(line))
            for line, each in sorted(self.traces.items())
            if (traces := tuple(sorted(each, key=lambda trace: arms.index(trace.arm))))
        ]
        if examples:
            EXAMPLES.save(tuple(examples), folder)


def observe(
    grid: RunGrid,
    test_set: TestSet,
    output: Path,
    translations: Mapping[str, Sequence[str]],
    scoring: Counting,
    earlier: Path | None = None,
) -> None:
    """Writes attention.json, corpus_attention.json, examples.json and sentences.json into `output`.

    The last compares the given translations, of one run per arm, which `scoring` scores. The others cover the first run
    of each arm in `grid`, and other arms as far as these files in the folder `earlier` do,
    those of a comparison on the same test set. Without any arm, attention.json is empty and these others are not
    written. Of sources that are not text, the examples alone are covered, with their pictures and sounds.
    """
    pairs = test_set.pairs
    first = {arm: group[0].place for arm, group in grid.arms()}
    known = Observations(earlier, translations.keys() - first.keys())
    is_text, examples = not known.seen, []
    if first:
        one = next(iter(first.values()))
        front_ends = load_front_ends(one, read_config(one))
        is_text = not front_ends[0].names_files
        examples = example_lines(test_set, is_text)
        if not known.lines:  # other sources than text are shown as examples alone
            known.lines = kept_lines(pairs, len(first), *front_ends, always=examples) if is_text else examples
    lines = known.lines
    gold: list[LinkPairs | None] = [None] * len(pairs)
    if test_set.gold:  # between frames and words, links may be possible ones alone
        gold = [tuple(sorted(links)) for links in (test_set.gold.sure if is_text else test_set.gold.possible)]
    scores = {arm: [round(score, 2) for score in scoring.score_sentences(each)] for arm, each in translations.items()}
    for arm, folder in first.items():
        model = TrainedModel.load(folder)
        forced = dict(zip(examples, _force(model, pairs, examples), strict=True))
        segmentation, weights = None, ""
        if is_text and any(each is not None and each.weights.any() for each in forced.values()):
            matrices = [each.weights for each in _force(model, pairs, lines) if each is not None]
            # A user's own scorer may give anything, and another tokenizer may find no token in a line.
            if len(matrices) == len(lines) and all(bool(each.isfinite().all()) for each in matrices):
                known.maps += [_map(model, arm, pairs, line, each, gold[line]) for line, each in forced.items() if each]
                own = _segmentation(model, pairs, lines)
                if own not in known.segmentations:
                    known.segmentations.append(own)
                segmentation, weights = known.segmentations.index(own), pack_weights(matrices)
        known.metric = SCORED_BY
        known.arms[arm] = ArmAttention(
            model.config.seed,
            tuple(translations[arm][line] for line in lines),
            tuple(scores[arm][line] for line in lines),
            segmentation,
            weights,
        )
        for line in examples:
            display = model.display(pairs.source[line])
            if display is not None and line not in known.seen:
                positions = len(model.source_labels(pairs.source[line]))
                known.seen[line] = SeenSource.of(display, positions)
            trace = trace_pair(model, arm, pairs.source[line], pairs.target[line])
            known.traces.setdefault(line, []).extend([] if trace is None else [trace])
    known.save(output, pairs, gold, list(translations))
    if grid.experiment.baseline in translations:
        every = [
            ContrastiveSentence(
                line + 1,
                pairs.source[line],
                pairs.target[line],
                {arm: ScoredTranslation(each[line], scores[arm][line]) for arm, each in translations.items()},
            )
            for line in range(len(pairs))
        ]
        compared = ContrastiveSentences(SCORED_BY, scoring.signature, tuple(every))
        SENTENCES.save(extremes(compared, grid.experiment.baseline), output)


def kept_lines(
    pairs: ParallelCorpus, arms: int, source: FrontEnd, target: FrontEnd, always: Sequence[int] = ()
) -> list[int]:
    """The indices of the pairs whose attention is kept: all, or every n-th to keep at most about MOST_WEIGHTS weights.

    The pairs in `always` are kept in any case; pairs with a side without tokens have no attention.
    """
    lengths = {
        line: [len(source.encode(pairs.source[line])), len(target.given(pairs.source[line]).encode(pairs.target[line]))]
        for line in pairs.filled
    }
    marks = source.marks, target.marks  # an empty line has no other token
    lines = [line for line, found in lengths.items() if all(map(int.__gt__, found, marks))]
    every = max(1, math.ceil(arms * sum(math.prod(lengths[line]) for line in lines) / MOST_WEIGHTS))
    return sorted({*lines[::every], *always} & {*lines})


def _force(model: TrainedModel, pairs: ParallelCorpus, lines: Sequence[int]) -> list[Any]:
    """Forced decoding of the references of these lines."""
    return model.force([pairs.source[line] for line in lines], [pairs.target[line] for line in lines])


def _map(
    model: TrainedModel, arm: str, pairs: ParallelCorpus, line: int, forced: Forced, gold: LinkPairs | None
) -> AttentionMap:
    words = token_attention(model, pairs.source[line], pairs.target[line], [forced.weights[None]]).words()
    weights = tuple(tuple(row) for row in np.round(words.weights, 4).tolist())
    return AttentionMap(arm, words.source, words.target, weights, gold)


def _segmentation(model: TrainedModel, pairs: ParallelCorpus, lines: Sequence[int]) -> Segmentation:
    sources = [pairs.source[line] for line in lines]
    targets = [(model.target.given(pairs.source[line]), pairs.target[line]) for line in lines]
    return Segmentation(
        tuple(tuple(model.source.labels(line)) for line in sources),
        tuple(tuple(codec.labels(line)) for codec, line in targets),
        tuple(tuple(model.source.word_indices(line)) for line in sources),
        tuple(tuple(codec.word_indices(line)) for codec, line in targets),
    )


def extremes(sentences: ContrastiveSentences, baseline: str) -> ContrastiveSentences:
    """Those with the largest gains and losses over the baseline, `SHOWN` of each kind for each arm."""
    arms = sentences.sentences[0].translations
    ranked = [sentences.ranked(arm, baseline) for arm in arms if arm != baseline]
    shown = {sentence.line for each in ranked for sentence in (*each[:SHOWN], *each[-SHOWN:])}
    return replace(sentences, sentences=tuple(each for each in sentences.sentences if each.line in shown))
