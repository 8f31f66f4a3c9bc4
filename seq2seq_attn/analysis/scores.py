"""Scores of translations as plain values, for JSON: {name: {value, signature}}. Strings in; no model, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_attn.evaluation.lc_norm_tok import bleu_lc_tok
from seq2seq_attn.evaluation.length import DEFAULT_BANDS, Band, bleu_by_length
from seq2seq_attn.evaluation.metrics import Score, bleu, chrf, exact_match, ter


def score(
    translations: Sequence[str], references: Sequence[str], tokenize: str, with_ter: bool = True
) -> dict[str, Any]:
    """BLEU, chrF, TER and exact matches."""
    found = {"bleu": bleu(translations, references, tokenize=tokenize), "chrf": chrf(translations, references)}
    if with_ter:
        found["ter"] = ter(translations, references)
    scores = {name: _signed(each) for name, each in found.items()}
    return scores | {"exact_match": score_exact_match(translations, references)}


def score_exact_match(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Translations of 100 that are the reference itself."""
    return _signed(exact_match(translations, references))


def score_lc_tok(translations: Sequence[str], references: Sequence[str], language: str) -> dict[str, Any]:
    """Lowercased tokenised BLEU against references that are lowercased, normalised and tokenised already."""
    return _signed(bleu_lc_tok(translations, references, language))


def score_by_length(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: str,
    bands: Sequence[Band] = DEFAULT_BANDS,
) -> list[dict[str, Any]]:
    """BLEU within bands of source length in words."""
    lengths = [len(line.split()) for line in sources]
    return [
        {"low": b.band.low, "high": b.band.high, "sentences": b.sentences, "bleu": b.score.value}
        for b in bleu_by_length(translations, references, lengths, bands, tokenize=tokenize)
    ]


def _signed(score: Score) -> dict[str, Any]:
    return {"value": score.value, "signature": score.signature}
