"""Scores of a trained model on its test set, and a summary of its attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_attn.analysis.word_alignment import token_attention
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, Links, format_links, read_gold
from seq2seq_attn.evaluation.attention_weights import attention_entropy
from seq2seq_attn.evaluation.corpus_scores import Expected
from seq2seq_attn.evaluation.groups import length_bands, scores_by_length
from seq2seq_attn.evaluation.metrics import ForcedTest, score_forced, score_lines, score_translations, with_given_files
from seq2seq_attn.files.checksums import checked, write_recorded
from seq2seq_attn.files.lock import locked
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.runs import DEMO, Say, is_shipped
from seq2seq_attn.runs.corpora import read_test
from seq2seq_attn.runs.folder import write_metrics
from seq2seq_attn.runs.lexicon import with_lexicon
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.batched import Progress

TRANSLATIONS, LINKS, ENTROPIES = "test.translations.txt", "test.links.txt", "test.entropies.txt"


class AttentionRecord(NamedTuple):
    """Summary of a run's attention during forced decoding of its test set; two text files in the run folder.

    One entry per test pair.
    """

    links: list[Links]  # each target word with its most attended source word; empty without attention weights
    entropies: list[float | None]  # bits, mean over the target tokens; None without attention weights

    def save(self, folder: Path) -> None:
        """Write both files, one line per pair, blank without weights; links are in the Pharaoh format."""
        entropies = ("" if entropy is None else f"{entropy:.4f}" for entropy in self.entropies)
        links = "".join(f"{format_links(links)}\n" for links in self.links)
        write_recorded(
            folder,
            {LINKS: links.encode(), ENTROPIES: "".join(f"{entropy}\n" for entropy in entropies).encode()},
        )

    @classmethod
    def load(cls, folder: Path, pairs: int) -> AttentionRecord | None:
        """None for a run without attention weights.

        UserError: a file is malformed or does not have `pairs` lines.
        """
        if not checked(folder, LINKS).exists() or not checked(folder, ENTROPIES).exists():
            return None
        links = read_gold(folder / LINKS, pairs).sure
        try:
            entropies = [float(line) if line else None for line in read_lines(folder / ENTROPIES)]
        except ValueError as error:
            raise UserError(f"{folder / ENTROPIES}: {error}; evaluate the run again") from None
        if len(entropies) != pairs:
            raise UserError(f"{folder / ENTROPIES}: {len(entropies)} lines for {pairs} pairs; evaluate the run again")
        return cls(links, entropies) if any(links) else None


class TestResult(NamedTuple):
    """What a model makes of its test set."""

    scores: dict[str, Any]  # `test` of metrics.json
    translations: list[str]
    attention: AttentionRecord
    expected: Expected  # what the translations were scored against


def evaluate(
    model: TrainedModel,
    folder: Path,
    progress: Progress | None = None,
    say: Say = lambda _: None,
    *,
    per_line: bool = False,
) -> dict[str, Any]:
    """Translate the test set, write translations and attention record to the run folder, and add scores to its metrics.

    Metrics of translations are {key: {value, signature}}, those of forced decoding {key: value}; `by_length` is a list
    of length bands with their score in the first metric; `per_line` adds the scores of each line, which are not saved.
    UserError: the configuration has no test set, another process writes to the folder, or the folder is part of the
    package.
    """
    if is_shipped(folder):
        raise UserError(
            f"{folder}: part of the package, where nothing is written; to score it again, use: "
            f"seq2seq-attn verify {DEMO}/{folder.name} --score"
        )
    with locked(folder):
        tested = score_test(model, folder, progress, say)
        write_recorded(folder, {TRANSLATIONS: "".join(f"{line}\n" for line in tested.translations).encode()})
        tested.attention.save(folder)
        write_metrics(folder, {"test": tested.scores})
    if not per_line:
        return tested.scores
    chosen = with_given_files(model.config.evaluation.chosen, tested.expected)
    return tested.scores | {"per_line": score_lines([(TRANSLATIONS, tested.translations)], tested.expected, chosen)}


def score_test(
    model: TrainedModel, folder: Path, progress: Progress | None = None, say: Say = lambda _: None
) -> TestResult:
    """Translations, scores and attention record of the test set of a run; as `evaluate`, but nothing is written."""
    files, options = model.config.data.test, model.config.evaluation
    if files is None:
        raise UserError("the configuration has no data.test to evaluate on")
    test_set = read_test(files, model.source.words)
    pairs = test_set.pairs
    expected = model.config.expected(test_set.references, pairs.source, test_set.lc_tok)
    model = with_lexicon(model, folder, say=say)
    translations = model.translate(pairs.source, progress=progress, warn=lambda text: say(f"test set, {text}"))
    scores = score_translations(translations, expected, with_given_files(options.chosen, expected))
    counts = options.main.counts([translations], expected)
    if counts is not None:
        scores["by_length"] = scores_by_length(counts, test_set.source_lengths, length_bands(options.bands))
    forced_scores, attention = score_references(model, pairs, test_set.gold)
    return TestResult(scores | forced_scores | model.unknown_words(pairs).shares, translations, attention, expected)


def score_references(
    model: TrainedModel, pairs: ParallelCorpus, gold: GoldCorpus | None = None
) -> tuple[dict[str, float | None], AttentionRecord]:
    """Metrics of forced decoding of the references, with links and entropies of each pair.

    A metric is None if the model has no attention weights or the test set no gold links to measure it by. UserError: a
    pair does not fit into the model's table of positions.
    """
    model.limits.require_positions(pairs.source, pairs.target, f"{pairs.name}, ")
    forced = model.force(pairs.source, pairs.target)
    known = [pair for pair in forced if pair is not None]
    weights = [pair and pair.weights.double().numpy() for pair in forced]
    links = [
        frozenset() if pair is None else token_attention(model, source, target, [pair.weights[None]]).words().links
        for source, target, pair in zip(pairs.source, pairs.target, forced, strict=True)
    ]
    test = ForcedTest(
        log_likelihood=sum(pair.total for pair in known),
        tokens=sum(len(pair.log_probabilities) for pair in known),
        weights=[each for each in weights if each is not None],
        links=links,
        gold=gold,
    )
    entropies = [None if each is None else attention_entropy([each]) for each in weights]
    return score_forced(test), AttentionRecord(links, entropies)
