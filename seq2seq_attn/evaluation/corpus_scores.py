"""Scores of translations against references: sacrebleu's BLEU, chrF and TER with their signatures; and COMET.

Lowercased tokenized BLEU is the figure that most papers on Multi30k report. That corpus is published raw and as
`*.lc.norm.tok.*`, made by three Moses scripts (Elliott et al., 2016; `scripts/task1-tokenize.sh` in
github.com/multi30k/dataset):

    lowercase.perl | normalize-punctuation.perl -l LANGUAGE | tokenizer.perl -l LANGUAGE

Detokenized translations go through the same steps, in sacremoses, and are compared with the published file as it is.
From the raw lines of train, val and test_2016_flickr, English and German, `lc_norm_tok` reproduces all 62,028 published
lines but one, in train.de, where Moses turned an apostrophe `’` into a double quote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sacrebleu import BLEU, TER
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from seq2seq_attn.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

_TOKENIZERS: dict[str, Any] = {}  # sacrebleu's, by name


class Expected(NamedTuple):
    """What the translations of a test set are scored against, and how."""

    references: Sequence[Sequence[str]]  # lists of lines; only the first has no blank line where one is missing
    sources: Sequence[str] = ()  # ("", ...) or nothing: not known
    tokenize: str = "13a"  # sacrebleu's tokenizer, for metrics of words
    lowercase: bool = False  # whether case is ignored
    language: str = "en"  # of the translations, for `lc_tok`
    lc_tok: Sequence[str] | None = None  # references that are lowercased, normalized and tokenized; None: not available
    comet: Path | None = None  # the checkpoint of a COMET model; None: not scored by COMET

    @property
    def for_sacrebleu(self) -> list[Any]:
        """The references as sacrebleu takes them: None where one but the first is missing, that is blank."""
        first, *others = self.references
        return [[*first], *([line if line.strip() else None for line in each] for each in others)]

    def require_pairs(self, translations: Sequence[str]) -> None:
        """UserError unless every translation has its reference and there is at least one."""
        for each in self.references:
            if len(translations) != len(each):
                raise UserError(
                    f"{len(translations)} hypotheses but {len(each)} references; "
                    "line i of one must belong to line i of the other"
                )
        if not translations:
            raise UserError("nothing to score: 0 hypotheses and 0 references; give at least one line of each")


class Score(NamedTuple):
    """A score with the signature that makes it reproducible."""

    value: float  # 0 to 100; TER may be above 100
    signature: str  # sacrebleu's, including its version: all settings that the number depends on


class SentenceScores(NamedTuple):
    """The score of each translation by itself, with the signature."""

    values: list[float]
    signature: str


def bleu(translations: Sequence[str], expected: Expected) -> Score:
    """Corpus BLEU (Papineni et al., 2002) of detokenized lines; higher is better.

    `expected.tokenize` is one of sacrebleu's tokenizers: "13a" for most languages, "zh" for Chinese, "none" for lines
    that are already tokenized. With any but "none", sacrebleu warns if many lines look tokenized.
    An empty translation is allowed. With several references an n-gram counts if any of them has it.
    UserError: the numbers of lines differ, there is no line, or sacrebleu has no such tokenizer or lacks its package or
    model.
    """
    tokenize, lowercase = expected.tokenize, expected.lowercase
    return _corpus_score(bleu_metric(tokenize, lowercase, tokenize == "none"), translations, expected)


def ter(translations: Sequence[str], expected: Expected) -> Score:
    """Translation edit rate (Snover et al., 2006), edits per 100 reference words, lowercased; lower is better.

    Of several references, the edits are those to the nearest, and the words are their mean number. Errors as in `bleu`.
    """
    return _corpus_score(_ter_metric(), translations, expected)


def _ter_metric() -> TER:
    metric = TER()
    metric.tokenizer = _TOKENIZERS.setdefault("TER", metric.tokenizer)  # as in `bleu_metric`
    return metric


def _corpus_score(metric: SacrebleuMetric, translations: Sequence[str], expected: Expected) -> Score:
    expected.require_pairs(translations)
    result = metric.corpus_score(translations, expected.for_sacrebleu)
    return Score(float(result.score), str(metric.get_signature()))


def sentence_bleu(translations: Sequence[str], expected: Expected) -> SentenceScores:
    """Sentence BLEU as sacrebleu computes it: over the orders of n-grams that a translation is long enough for.

    Orders without a match are smoothed by halving (`smooth:exp` and `eff:yes` in the signature; method 3 of Chen and
    Cherry, 2014). Errors as in `bleu`.
    """
    metric = bleu_metric(expected.tokenize, expected.lowercase, by_sentence=True)
    return _sentence_scores(metric, translations, expected)


def sentence_ter(translations: Sequence[str], expected: Expected) -> SentenceScores:
    """The TER of each translation; as in `ter`."""
    return _sentence_scores(_ter_metric(), translations, expected)


def _sentence_scores(metric: SacrebleuMetric, translations: Sequence[str], expected: Expected) -> SentenceScores:
    """As `sentence_score` of each, with one signature for all."""
    expected.require_pairs(translations)
    counts = metric._extract_corpus_statistics(translations, expected.for_sacrebleu)
    values = [float(metric._aggregate_and_compute([each]).score) for each in counts]
    return SentenceScores(values, str(metric.get_signature()))


def comet(translations: Sequence[str], expected: Expected) -> Score | None:
    """COMET (Rei et al., 2020): the mean score of the sentences by a trained model, times 100; higher is better.

    `expected.comet` is a local checkpoint (`.ckpt`) of the package `unbabel-comet`. Scores of different models cannot
    be compared. None without it or without sources. UserError: the package or the checkpoint is missing; otherwise
    errors as in `bleu`.
    """
    found = _comet_prediction(translations, expected)
    return None if found is None else Score(100 * float(found[0].system_score), found[1])


def sentence_comet(translations: Sequence[str], expected: Expected) -> SentenceScores | None:
    """The COMET of each translation, whose mean is that of the corpus; as in `comet`."""
    found = _comet_prediction(translations, expected)
    return None if found is None else SentenceScores([100 * float(each) for each in found[0].scores], found[1])


def _comet_prediction(translations: Sequence[str], expected: Expected) -> tuple[Any, str] | None:
    """What the model says, and the signature."""
    if expected.comet is None or not expected.sources:
        return None
    expected.require_pairs(translations)
    require_comet(expected.comet)
    predict = _comet_model(expected.comet)
    lines = tuple(zip(expected.sources, translations, expected.references[0], strict=True))
    settings = f"model:{expected.comet.stem}|scale:100|version:unbabel-comet-{version('unbabel-comet')}"
    return predict(lines), settings


def require_comet(model: Path) -> None:
    """UserError: the checkpoint or the package is missing; to be called before a run that COMET will score."""
    if not model.is_file():
        raise UserError(f"{model}: no such file; evaluation.comet is the path of a COMET checkpoint")
    try:
        version("unbabel-comet")
    except PackageNotFoundError:
        raise UserError("COMET needs a package that is not installed: pip install unbabel-comet") from None


@lru_cache(maxsize=1)  # it takes longer to load than to use
def _comet_model(model: Path) -> Callable[[tuple[tuple[str, str, str], ...]], Any]:
    """What the model of this checkpoint says of lines (source, translation, reference)."""
    try:
        from comet import load_from_checkpoint
    except ImportError as error:
        raise UserError(f"COMET cannot be used ({error}); install it: pip install unbabel-comet") from None
    scorer = load_from_checkpoint(str(model))

    @lru_cache(maxsize=32)  # the score of an output and those of its lines follow from one prediction
    def predict(lines: tuple[tuple[str, str, str], ...]) -> Any:
        return scorer.predict(
            [dict(zip(("src", "mt", "ref"), line, strict=True)) for line in lines], progress_bar=False
        )

    return predict


def bleu_metric(
    tokenize: str,
    lowercase: bool,
    may_be_tokenized: bool = True,
    *,
    by_sentence: bool = False,
    references: list[Any] | None = None,
) -> BLEU:
    """sacrebleu's BLEU; `may_be_tokenized` silences its warning about lines that look tokenized.

    `by_sentence`: only the orders of n-grams that a sentence is long enough for ("effective order"). The n-grams of
    `references` are counted once, for many systems.
    """
    if (mistake := unknown_tokenizer(tokenize)) is not None:
        raise UserError(mistake)
    try:
        metric = BLEU(
            lowercase=lowercase,
            tokenize=tokenize,
            force=may_be_tokenized,
            effective_order=by_sentence,
            references=references,
        )
    except (RuntimeError, ImportError, OSError, AssertionError, SystemExit) as error:  # it needs a package or a model
        raise UserError(
            f"sacrebleu's tokenizer {tokenize!r} cannot be used: {str(error).strip() or type(error).__name__}"
        ) from None
    # It caches tokenized lines as long as the process lives.
    metric.tokenizer = _TOKENIZERS.setdefault(tokenize, metric.tokenizer)
    return metric


def unknown_tokenizer(tokenize: str) -> str | None:
    """What is wrong with the name of a tokenizer; None if sacrebleu has it."""
    if tokenize in BLEU.TOKENIZERS:
        return None
    hint = did_you_mean(tokenize, BLEU.TOKENIZERS, "choose another.")
    return f"sacrebleu has no tokenizer {tokenize!r}; {hint} It has {', '.join(BLEU.TOKENIZERS)}"


def require_tokenizer(tokenize: str) -> None:
    """UserError: sacrebleu lacks a package or model for it; to be called before a run that BLEU will score."""
    bleu_metric(tokenize, lowercase=False)


# Languages that are written without blanks between words, and Korean, whose blanks separate phrases.
_OF_WORDS = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_UNSEGMENTED = (*_OF_WORDS, "th", "km", "lo", "my", "bo", "dz")


@cache
def default_tokenizer(language: str) -> str:
    """sacrebleu's tokenizer for a language, given by its code.

    That of Chinese separates characters. Japanese and Korean have one of words, if its package is installed. Other
    languages that are written without blanks, and these two otherwise, are scored by characters, all others by 13a.
    """
    if language not in _UNSEGMENTED:
        return "13a"
    wanted = _OF_WORDS.get(language, "char")
    try:
        require_tokenizer(wanted)
    except UserError:
        return "char"
    return wanted


def tokenizer_remark(tokenize: str, language: str) -> str | None:
    """What to know of BLEU in a language by this tokenizer; None where it counts words as usual."""
    if language in _UNSEGMENTED and tokenize in ("13a", "intl"):
        return (
            f"BLEU by evaluation.tokenize={tokenize} takes what stands between blanks for a word, and {language!r} is "
            f"written without; evaluation.tokenize={default_tokenizer(language)} is meant for it"
        )
    if tokenize == "char" and (wanted := _OF_WORDS.get(language)) is not None:
        return (
            f"BLEU counts characters (evaluation.tokenize=char); for words: pip install sacrebleu[{language}], and "
            f"evaluation.tokenize={wanted}"
        )
    return None


def lc_norm_tok(line: str, language: str) -> str:
    """The line lowercased, with normalized punctuation, tokenized by Moses, with Moses's entities (`&apos;`)."""
    normalizer, tokenizer = _moses(language)
    # The Perl script sees the line feed, and its rule for a full stop before a closing quote needs it:
    # without it, `."` at the end of a German line would stay as it is instead of becoming `".`.
    normalized = normalizer.normalize(line.lower() + "\n")
    tokenized: str = tokenizer.tokenize(normalized, escape=True, return_str=True)
    return tokenized


def of_lc_tok(expected: Expected) -> tuple[Expected, str] | None:
    """What lines that are lowercased, normalized and tokenized are compared with, and the steps; None: not available.

    The steps stand at the end of a signature.
    """
    if expected.lc_tok is None:
        return None
    language = expected.language
    steps = f"hyp:lowercase+moses-normalize+moses-tokenize.{language}|sacremoses:{version('sacremoses')}"
    return Expected([expected.lc_tok], tokenize="none", lowercase=True), steps


def sentence_lc_tok(translations: Sequence[str], expected: Expected) -> SentenceScores | None:
    """Sentence BLEU of lines against those of a `*.lc.norm.tok.LANGUAGE` file, if there is one."""
    if (found := of_lc_tok(expected)) is None:
        return None
    plain, steps = found
    values, signature = sentence_bleu([lc_norm_tok(line, expected.language) for line in translations], plain)
    return SentenceScores(values, f"{signature}|{steps}")


@cache
def _moses(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # compiles its rules for a quarter of a second

    return MosesPunctNormalizer(language), MosesTokenizer(language)
