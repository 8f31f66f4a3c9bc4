"""Lowercased tokenised BLEU: the figure that most papers on Multi30k report.

The corpus is published raw and as `*.lc.norm.tok.*`, which three Moses scripts made of it (Elliott et al.,
2016; `scripts/task1-tokenize.sh` in github.com/multi30k/dataset):

    lowercase.perl | normalize-punctuation.perl -l LANGUAGE | tokenizer.perl -l LANGUAGE

Detokenised hypotheses go through the same steps, in sacremoses, and are compared with the published file as
it stands. From the raw lines of train, val and test_2016_flickr, English and German, `lc_norm_tok` makes all
62,028 published lines but one, in train.de, where Moses turned an apostrophe `’` into a double quote.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from seq2seq_attn.evaluation.metrics import Score, bleu


def bleu_lc_tok(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU of raw or detokenised hypotheses against the lines of a `*.lc.norm.tok.LANGUAGE` file.

    Comparable with papers that do the same, and not with `bleu` of the cased text: the case no longer counts.
    The signature is sacrebleu's, with the steps before it. Errors as in `metrics.bleu`.
    """
    processed = [lc_norm_tok(line, language) for line in hypotheses]
    score = bleu(processed, references, tokenize="none", lowercase=True)
    steps = f"hyp:lowercase+moses-normalise+moses-tokenise.{language}|sacremoses:{version('sacremoses')}"
    return Score("BLEU lc.norm.tok", score.value, f"{score.signature}|{steps}")


def lc_norm_tok(line: str, language: str) -> str:
    """The line lowercased, its punctuation normalised, Moses-tokenised, with Moses's entities (`&apos;`)."""
    normaliser, tokeniser = _moses(language)
    # The Perl script sees the line feed, and its rule for a full stop before a closing quote needs it:
    # without it, `."` at the end of a German line would stay as it is instead of becoming `".`.
    normalised = normaliser.normalize(line.lower() + "\n")
    tokenised: str = tokeniser.tokenize(normalised, escape=True, return_str=True)
    return tokenised


@cache
def _moses(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer]:
    return MosesPunctNormalizer(language), MosesTokenizer(language)
