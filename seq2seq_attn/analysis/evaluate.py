"""What the test set says of one trained model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from seq2seq_attn.analysis.align import words_of
from seq2seq_attn.analysis.reading import Reading
from seq2seq_attn.analysis.scores import score, score_by_length, score_lc_tok
from seq2seq_attn.config import EvaluationConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import alignment_error_rate
from seq2seq_attn.evaluation.entropy import attention_entropy
from seq2seq_attn.evaluation.length import Band
from seq2seq_attn.evaluation.pharaoh import GoldCorpus
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.data import read_test
from seq2seq_attn.runs.folder import write_metrics
from seq2seq_attn.runs.model import TrainedModel, with_lexicon
from seq2seq_attn.search.corpus import Progress
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.files import write_bytes

TRANSLATIONS = "test.translations.txt"


def evaluate(
    model: TrainedModel, folder: Path, progress: Progress | None = None, say: Say = lambda _: None
) -> dict[str, Any]:
    """Translates the test set into the run folder with what was read of it, and adds the scores to its metrics.

    Scores as {name: {value, signature}}; BLEU by source length in words; and what `score_references` gives.
    """
    files, options = model.config.data.test, model.config.evaluation
    if files is None:
        raise UserError("the configuration has no data.test to evaluate on")
    pairs, lc_tok, gold = read_test(files)
    model = with_lexicon(model, folder, say=say)
    translations = model.translate(pairs.source, progress=progress, warn=lambda text: say(f"test set, {text}"))
    write_bytes(folder / TRANSLATIONS, "".join(f"{line}\n" for line in translations).encode())
    scores: dict[str, Any] = score(translations, pairs.target, options.tokenize, options.ter)
    if lc_tok is not None:
        scores["bleu_lc_tok"] = score_lc_tok(translations, lc_tok, model.config.text.target_language)
    scores["bleu_by_length"] = score_by_length(
        pairs.source, translations, pairs.target, options.tokenize, length_bands(options)
    )
    forced_scores, reading = score_references(model, pairs, gold)
    reading.save(folder)
    scores |= forced_scores
    write_metrics(folder, {"test": scores})
    return scores


def score_references(
    model: TrainedModel, pairs: ParallelCorpus, gold: GoldCorpus | None = None
) -> tuple[dict[str, Any], Reading]:
    """What forced decoding of the references says: perplexity, entropy of the weights, AER against gold links.

    Perplexity, exp(-Σ log p / Σ tokens), is that of a token of the model's own vocabulary, `</s>` counted. Entropy and
    AER are None for a model that reads no single state of the source. Links and entropies of each pair come beside.
    """
    forced = model.force(pairs.source, pairs.target)
    known = [pair for pair in forced if pair is not None]
    tokens = sum(len(pair.log_probabilities) for pair in known)
    weights = [pair and pair.weights.double().numpy() for pair in forced]
    scores: dict[str, Any] = {
        "perplexity": math.exp(-sum(pair.total for pair in known) / max(1, tokens)),
        "attention_entropy": attention_entropy(each for each in weights if each is not None),
    }
    links = [
        frozenset() if pair is None else words_of(model, source, target, pair).links
        for source, target, pair in zip(pairs.source, pairs.target, forced, strict=True)
    ]
    if gold is not None:
        scores["aer"] = alignment_error_rate(links, *gold) if any(links) else None
    return scores, Reading(links, [None if each is None else attention_entropy([each]) for each in weights])


def length_bands(options: EvaluationConfig) -> list[Band]:
    """Bands up to each upper end, and an open one above the last."""
    lows = [1, *(end + 1 for end in options.bands)]
    return [Band(low, high) for low, high in zip(lows, (*options.bands, None), strict=True)]
