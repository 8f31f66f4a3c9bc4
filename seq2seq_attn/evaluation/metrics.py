"""BLEU, chrF and TER of a corpus: sacrebleu's numbers, each with sacrebleu's signature. And exact matches."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from seq2seq_attn import __version__
from seq2seq_attn.errors import UserError

_TOKENISERS: dict[str, Any] = {}  # sacrebleu's, by name


@dataclass(frozen=True)
class Score:
    """A number that carries its making."""

    name: str  # "BLEU", "chrF2", "TER", "exact match"
    value: float  # 0 to 100; TER may be above 100
    signature: str  # sacrebleu's, version included: all it takes to make the number again


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> Score:
    """Corpus BLEU (Papineni et al., 2002) of detokenised lines; higher is better.

    `tokenize` is one of sacrebleu's tokenisers: "13a" for most languages, "zh" for Chinese, "none" for lines
    that are tokenised already. With any but "none", sacrebleu warns where many lines look tokenised.
    An empty hypothesis is allowed.
    UserError: the numbers of lines differ, there is no line, or sacrebleu has no such tokeniser.
    """
    metric = bleu_metric(tokenize, lowercase, may_be_tokenised=tokenize == "none")
    return corpus_score(metric, hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2 (Popović, 2015), F2 of character n-grams up to 6; higher is better.

    Errors as in `bleu`.
    """
    return corpus_score(CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Translation edit rate (Snover et al., 2006), edits per 100 reference words; lower is better.

    Errors as in `bleu`.
    """
    return corpus_score(TER(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """How many of 100 hypotheses are their reference, character by character, blanks at the ends aside.

    Errors as in `bleu`.
    """
    require_pairs(hypotheses, references)
    same = sum(ours.strip() == theirs.strip() for ours, theirs in zip(hypotheses, references, strict=True))
    signature = f"nrefs:1|case:mixed|strip:yes|version:seq2seq_attn-{__version__}"
    return Score("exact match", 100 * same / len(hypotheses), signature)


def bleu_metric(tokenize: str, lowercase: bool, may_be_tokenised: bool = True) -> BLEU:
    """sacrebleu's BLEU; silent about lines that look tokenised if they may be."""
    if tokenize not in BLEU.TOKENIZERS:
        nearest = difflib.get_close_matches(tokenize, BLEU.TOKENIZERS, n=1, cutoff=0)[0]
        raise UserError(
            f"sacrebleu has no tokeniser {tokenize!r}; did you mean {nearest!r}? It has {', '.join(BLEU.TOKENIZERS)}"
        )
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=may_be_tokenised)
    metric.tokenizer = _TOKENISERS.setdefault(tokenize, metric.tokenizer)  # it remembers the lines that it has cut
    return metric


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """What a sacrebleu metric says of a corpus with one reference a line. Errors as in `require_pairs`."""
    require_pairs(hypotheses, references)
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.name, float(result.score), str(metric.get_signature()))


def require_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """UserError unless every hypothesis has its reference and there is at least one."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses but {len(references)} references; "
            "line i of one must translate the same sentence as line i of the other"
        )
    if not hypotheses:
        raise UserError("nothing to score: 0 hypotheses and 0 references; give at least one line of each")
