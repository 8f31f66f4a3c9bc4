"""Observations on finished runs: learning curves, attention maps, beam searches, and the sentences that differ most."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_attn.analysis.attention_files import END
from seq2seq_attn.analysis.beam_trace import example_lines, trace_pair
from seq2seq_attn.analysis.scoring import TRANSLATIONS
from seq2seq_attn.analysis.word_alignment import merge_words
from seq2seq_attn.comparison.experiment import ArmRun, RunGrid
from seq2seq_attn.evaluation.corpus_scores import sentence_chrf
from seq2seq_attn.plain import to_json
from seq2seq_attn.results.observations import (
    SHOWN,
    ArmAttention,
    ContrastiveSentence,
    ContrastiveSentences,
    CorpusAttention,
    CorpusPair,
    Curve,
    DecodingTrace,
    Example,
    LinkPairs,
    ScoredTranslation,
    Segmentation,
    pack_weights,
    save_corpus_attention,
    save_examples,
    save_sentences,
)
from seq2seq_attn.runs.corpora import TestSet
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.forced import Forced
from seq2seq_attn.text.checksums import checked
from seq2seq_attn.text.codec import Codec, load_codecs
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.files import read_lines, write_bytes

SENTENCE_METRIC = "chrF2"
MOST_WEIGHTS = 10_000_000  # attention weights kept, over all arms: one to four MB on the page


def observe(grid: RunGrid, runs: Path, test_set: TestSet, output: Path, chrf_signature: str) -> None:
    """Writes attention.json, corpus_attention.json, examples.json and sentences.json into `output`.

    They cover the first run of each arm whose folder is in `runs`. Without any, attention.json is empty and the others
    are not written.
    """
    pairs = test_set.pairs
    gold = [tuple(sorted(links)) for links in test_set.gold.sure] if test_set.gold else [None] * len(pairs)
    examples = example_lines(test_set)
    first = {arm: runs / group[0].folder for arm, group in grid.arms()}
    if not first:
        _write_json(output / "attention.json", [])
        return
    kept = kept_lines(pairs, len(first), *load_codecs(next(iter(first.values()))), always=examples)
    translations = {arm: read_lines(checked(folder, TRANSLATIONS)) for arm, folder in first.items()}
    scores = _sentence_scores(translations, pairs.target)
    maps: list[dict[str, Any]] = []
    traces: dict[int, list[DecodingTrace]] = {line: [] for line in examples}
    segmentations: list[Segmentation] = []
    arms: dict[str, ArmAttention] = {}
    for arm, folder in first.items():
        model = TrainedModel.load(folder)
        forced = dict(zip(examples, _force(model, pairs, examples), strict=True))
        segmentation, weights = None, ""
        if any(each is not None and each.weights.any() for each in forced.values()):
            matrices = [each.weights for each in _force(model, pairs, kept)]
            if all(bool(each.isfinite().all()) for each in matrices):  # a user's own scorer may give anything
                maps += [_map(model, arm, pairs, line, each, gold[line]) for line, each in forced.items() if each]
                own = _segmentation(model, pairs, kept)
                if own not in segmentations:
                    segmentations.append(own)
                segmentation, weights = segmentations.index(own), pack_weights(matrices)
        arms[arm] = ArmAttention(
            model.config.seed,
            tuple(translations[arm][line] for line in kept),
            tuple(scores[arm][line] for line in kept),
            segmentation,
            weights,
        )
        for line in examples:
            trace = trace_pair(model, arm, pairs.source[line], pairs.target[line])
            traces[line] += [] if trace is None else [trace]
    _write_json(output / "attention.json", maps)
    shown = tuple(CorpusPair(line + 1, pairs.source[line], pairs.target[line], gold[line]) for line in kept)
    save_corpus_attention(
        CorpusAttention(len(pairs), SENTENCE_METRIC, shown, tuple(segmentations), arms),
        output / "corpus_attention.json",
    )
    decoded = [
        Example(line + 1, pairs.source[line], pairs.target[line], gold[line], tuple(each))
        for line, each in traces.items()
        if each
    ]
    save_examples(decoded, output / "examples.json")
    if grid.experiment.baseline in translations:
        shown_sentences = extremes(pairs, translations, grid.experiment.baseline, chrf_signature)
        save_sentences(shown_sentences, output / "sentences.json")


def kept_lines(pairs: ParallelCorpus, arms: int, source: Codec, target: Codec, always: Sequence[int] = ()) -> list[int]:
    """The indices of the pairs whose attention is kept: all, or every n-th to keep at most about MOST_WEIGHTS weights.

    The pairs in `always` are kept in any case; pairs with a blank side have no attention.
    """
    lines = pairs.filled
    counts = (len(source.encode(pairs.source[i])) * len(target.encode(pairs.target[i])) for i in lines)
    every = max(1, math.ceil(arms * sum(counts) / MOST_WEIGHTS))
    return sorted({*lines[::every], *always})


def _force(model: TrainedModel, pairs: ParallelCorpus, lines: Sequence[int]) -> list[Any]:
    """Forced decoding of the references of these lines."""
    return model.force([pairs.source[line] for line in lines], [pairs.target[line] for line in lines])


def _map(
    model: TrainedModel, arm: str, pairs: ParallelCorpus, line: int, forced: Forced, gold: LinkPairs | None
) -> dict[str, Any]:
    words = merge_words(model, pairs.source[line], pairs.target[line], forced)
    weights = np.round(words.weights, 4).tolist()
    return {"arm": arm, "source": words.source, "target": words.target, "weights": weights, "gold": gold}


def _segmentation(model: TrainedModel, pairs: ParallelCorpus, lines: Sequence[int]) -> Segmentation:
    sources, targets = ([side[line] for line in lines] for side in (pairs.source, pairs.target))
    return Segmentation(
        tuple((*model.source.pieces(line), END) for line in sources),
        tuple((*model.target.pieces(line), END) for line in targets),
        tuple(tuple(model.source.word_indices(line)) for line in sources),
        tuple(tuple(model.target.word_indices(line)) for line in targets),
    )


def read_curve(run: ArmRun, runs: Path) -> Curve:
    """The validation results of a run by epoch, including those before an interruption."""
    epochs: dict[int, dict[str, str]] = {}
    folder = runs / run.folder
    versions = [path.relative_to(folder) for path in folder.glob("log/version_*/metrics.csv")]
    for path in sorted(versions, key=lambda path: int(path.parent.name.removeprefix("version_"))):
        with checked(folder, path.as_posix()).open(encoding="utf-8", newline="") as file:
            epochs |= {int(row["epoch"]) + 1: row for row in csv.DictReader(file) if _is_finite(row)}
    rows = [epochs[epoch] for epoch in sorted(epochs)]
    return Curve(
        run.seed,
        tuple(sorted(epochs)),
        tuple(float(row["validation_loss"]) for row in rows),
        tuple(float(row["validation_bleu"]) if row.get("validation_bleu") else None for row in rows),
    )


def _is_finite(row: Mapping[str, str]) -> bool:
    """Whether the row is that of a validation, and its scores can be drawn."""
    scores = [row.get("validation_loss"), row.get("validation_bleu")]
    return bool(scores[0]) and all(math.isfinite(float(score)) for score in scores if score)


def extremes(
    pairs: ParallelCorpus, translations: Mapping[str, Sequence[str]], baseline: str, signature: str
) -> ContrastiveSentences:
    """The sentences with the largest gains and losses over the baseline, `SHOWN` of each kind for each arm.

    Gains are differences in sentence-level chrF. `translations` are those of one run per arm; `signature` is that of
    the corpus-level chrF.
    """
    scores = _sentence_scores(translations, pairs.target)
    every = [
        ContrastiveSentence(
            index + 1,
            pairs.source[index],
            pairs.target[index],
            {arm: ScoredTranslation(lines[index], scores[arm][index]) for arm, lines in translations.items()},
        )
        for index in range(len(pairs))
    ]
    whole = ContrastiveSentences(SENTENCE_METRIC, signature, tuple(every))
    ranked = [whole.ranked(arm, baseline) for arm in translations if arm != baseline]
    shown = {sentence.line for each in ranked for sentence in (*each[:SHOWN], *each[-SHOWN:])}
    return ContrastiveSentences(
        SENTENCE_METRIC, signature, tuple(sentence for sentence in every if sentence.line in shown)
    )


def _sentence_scores(translations: Mapping[str, Sequence[str]], references: Sequence[str]) -> dict[str, list[float]]:
    return {arm: [round(score, 2) for score in sentence_chrf(each, references)] for arm, each in translations.items()}


def _write_json(path: Path, values: Any) -> None:
    write_bytes(path, f"{to_json(values)}\n".encode())
