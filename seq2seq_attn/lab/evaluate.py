"""What the test set says of one trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seq2seq_attn.config import EvaluationConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import alignment_error_rate
from seq2seq_attn.evaluation.length import Band
from seq2seq_attn.evaluation.pharaoh import GoldCorpus
from seq2seq_attn.lab.align import attend
from seq2seq_attn.lab.corpora import read_test
from seq2seq_attn.lab.run import Say, write_metrics
from seq2seq_attn.lab.scores import score, score_by_length, score_lc_tok
from seq2seq_attn.lab.trained import Progress, TrainedModel
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.files import write_bytes

TRANSLATIONS = "test.translations.txt"


def evaluate(
    model: TrainedModel, folder: Path, progress: Progress | None = None, say: Say = lambda _: None
) -> dict[str, Any]:
    """Translates the test set into the run folder, and adds the scores to its metrics.

    Scores as {name: {value, signature}}; BLEU by source length in words; AER where gold alignments exist and the
    model reads the source at all.
    """
    files, options = model.config.data.test, model.config.evaluation
    if files is None:
        raise UserError("the configuration has no data.test to evaluate on")
    pairs, lc_tok, gold = read_test(files)
    translations = model.translate(pairs.source, progress=progress, warn=lambda text: say(f"test set, {text}"))
    write_bytes(folder / TRANSLATIONS, "".join(f"{line}\n" for line in translations).encode())
    scores: dict[str, Any] = score(translations, pairs.target, options.tokenize, options.ter)
    if lc_tok is not None:
        scores["bleu_lc_tok"] = score_lc_tok(translations, lc_tok, model.config.text.target_language)
    scores["bleu_by_length"] = score_by_length(
        pairs.source, translations, pairs.target, options.tokenize, length_bands(options)
    )
    if gold is not None:
        scores["aer"] = error_rate(model, pairs, gold)
    write_metrics(folder, {"test": scores})
    return scores


def error_rate(model: TrainedModel, pairs: ParallelCorpus, gold: GoldCorpus) -> float | None:
    """AER against gold links; None for a model that reads no single state of the source."""
    attended = attend(model, pairs.source, pairs.target)
    links = [frozenset() if pair is None else pair.links for pair in attended]
    return alignment_error_rate(links, *gold) if any(links) else None


def length_bands(options: EvaluationConfig) -> list[Band]:
    """Bands up to each upper end, and an open one above the last."""
    lows = [1, *(end + 1 for end in options.bands)]
    return [Band(low, high) for low, high in zip(lows, (*options.bands, None), strict=True)]
