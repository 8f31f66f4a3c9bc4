"""Scores of the output of any system, and how the scores of a run are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from seq2seq_attn.api.tables import html_table
from seq2seq_attn.corpora.corpus import refuse_no_text
from seq2seq_attn.corpora.languages import language_code, without_rules
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import Expected, default_tokenizer
from seq2seq_attn.evaluation.groups import scores_by_length
from seq2seq_attn.evaluation.metrics import (
    METRICS,
    find_metrics,
    score_translations,
    with_given_files,
)
from seq2seq_attn.evaluation.resampling import approximate_randomization, paired_bootstrap
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.options import ScoringOptions, takes
from seq2seq_attn.strict import parse

Lines = Path | str | Sequence[str]  # a file, or its lines
References = Lines | Sequence[Path] | Sequence[Sequence[str]]  # or several of them: of files, those given as Paths


@takes(ScoringOptions)
def evaluate(
    hypotheses: Lines,
    references: References,
    *,
    source: Lines | None = None,
    lc_tok: Lines | None = None,
    language: str | None = None,
    baseline: Lines | None = None,
    **scoring: Any,
) -> Scores:
    """Scores the translations of any system by BLEU, chrF, TER and exact matches, with their signatures.

    `Model.evaluate` scores a model on its test set. All texts are files or lists of lines.

    Args:
        hypotheses: The translations.
        references: Their references. Several of them are a list of Paths, or of lists of lines, blank where a further
            one is missing.
        source: The source sentences, for the score by source length.
        lc_tok: The references lowercased, normalized and tokenized, for the BLEU that papers report.
        language: That of the translations, by default "en".
        baseline: Translations by another system, for the difference, with two paired tests; lines with the same
            source are drawn together.
        **scoring: Fields of `seq2seq_attn.options.ScoringOptions`.

    Returns:
        The scores by their keys, the main metric first.

    Raises:
        UserError: Numbers of lines differ, a file is missing, a metric is unknown, or with `lc_tok` the rules of Moses
            lack the language.

    >>> scores = s2s.evaluate(["a b c d e"], ["a b c d e f"])
    >>> round(scores["bleu"]["value"], 2)
    81.87
    """
    options = parse(ScoringOptions, scoring)
    expected, *further = _several("references", references)

    def lines(name: str, given: Lines) -> list[str]:
        return same_length(_read(name, given))

    def same_length(read: _Text) -> list[str]:
        if len(read.lines) != len(expected.lines):
            raise UserError(
                f"{read.name} has {len(read.lines)} lines and {expected.name} has {len(expected.lines)}; "
                f"line i of one must belong to line i of the other"
            )
        return read.lines

    translations = lines("hypotheses", hypotheses)
    all_references = [expected.lines, *map(same_length, further)]
    code = language_code(language or "en")
    tokenize, lowercase = options.tokenize or default_tokenizer(code), bool(options.lowercase)
    if lc_tok is not None and (reason := without_rules(code)) is not None:
        raise UserError(f"language: {reason}; leave lc_tok out")
    lowercased = None if lc_tok is None else lines("lc_tok", lc_tok)
    sources = None if source is None else lines("source", source)
    if options.comet is not None and sources is None:
        raise UserError("COMET reads the source sentences as well; give them as the source")
    expected_lines = Expected(all_references, sources or (), tokenize, lowercase, code, lowercased, options.comet)
    try:
        metrics = find_metrics(options.metrics, _load)
    except ValueError as error:
        raise UserError(f"metrics: {error}") from None
    scores = Scores(score_translations(translations, expected_lines, with_given_files(metrics, expected_lines)))
    systems = [translations, *([] if baseline is None else [lines("baseline", baseline)])]
    ours, *others = [metrics[0].counts([each], expected_lines) for each in systems]
    if ours is not None and sources is not None:
        scores["by_length"] = scores_by_length(ours, [len(line.split()) for line in sources])
    for theirs in others:
        if ours is None or theirs is None:
            continue
        found = paired_bootstrap(ours, theirs)
        if ours.sources == 1:
            scores["difference"] = {"difference": found.difference, "untested": ONE_SENTENCE}
        else:
            scores["difference"] = asdict(found)
            scores["randomization"] = asdict(approximate_randomization(ours, theirs))
    return scores


def _load(place: str) -> ModuleType:
    from seq2seq_attn.attention.user_code import load_place  # torch, which scores alone do not need

    return load_place(place)


ONE_SENTENCE = "a single sentence decides nothing: there is no interval and no p-value; give more"


class Scores(dict[str, Any]):
    """Scores as in metrics.json: {key: {value, signature}} for translations, {key: value} for forced decoding.

    `by_length` is a list of length bands; links have precision, recall and F1, and their AER an interval.
    """

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per number: its name, and its signature or meaning."""
        return [{"score": row.score, "value": row.value, "about": row.about} for row in self._rows()]

    def __repr__(self) -> str:
        return "\n".join(row.text for row in self._rows())

    def _repr_html_(self) -> str:
        return html_table(["score", "value", ""], [(row.score, row.number, row.about) for row in self._rows()])

    def _rows(self) -> Iterator[_Row]:
        first = next(iter(self), "")
        main = METRICS[first].label if first in METRICS else ""
        for key, metric in METRICS.items():
            if isinstance(self.get(key), Mapping):
                yield _Row(metric.name, self[key]["value"], self[key]["signature"])
            elif self.get(key) is not None:
                ends = self.get(f"{key}_interval")
                interval = "" if ends is None else f"; 95 % interval [{ends[0]:.3f}, {ends[1]:.3f}]"
                yield _Row(metric.name, self[key], metric.meaning + interval, metric.digits)
        for key, (name, meaning) in _LINK_RATES.items():
            if key in self:
                yield _Row(name, self[key], meaning, digits=3)
        for key, (name, meaning) in _UNKNOWN_WORDS.items():
            if key in self:
                yield _Row(name, 100 * self[key], meaning)
        for band in self.get("by_length", ()):
            length = f"{band['low']}+" if band["high"] is None else f"{band['low']}-{band['high']}"
            yield _Row(f"{main} {length}", band["score"], f"{band['sentences']:,} sentences of {length} source words")
        if "untested" in self.get("difference", {}):
            yield _Row(f"{main} difference", self["difference"]["difference"], self["difference"]["untested"], sign="+")
        elif "difference" in self:
            pair, randomization = self["difference"], self["randomization"]
            interval = f"95 % interval [{pair['low']:+.2f}, {pair['high']:+.2f}]"
            about = f"{interval}, p = {pair['p_value']:.3f}, {pair['signature']}"
            yield _Row(f"{main} difference", pair["difference"], about, sign="+")
            about = f"approximate randomization p = {randomization['p_value']:.4f}, {randomization['signature']}"
            yield _Row("", None, about)


class _Row(NamedTuple):
    """A number with its name, and its signature or meaning."""

    score: str
    value: float | None  # None: another test of the number above
    about: str
    digits: int = 2
    sign: str = ""

    @property
    def number(self) -> str:
        return "" if self.value is None else f"{self.value:{self.sign}.{self.digits}f}"

    @property
    def text(self) -> str:
        return f"{self.score:<17}{self.number:>7}  {self.about}"


_LINK_RATES = {
    "precision": ("precision", "share of the links that are gold links, sure or possible"),
    "recall": ("recall", "share of the sure gold links that were found"),
    "f1": ("F1", "harmonic mean of the two"),
}


_UNKNOWN_WORDS = {
    "unknown_source_words": ("unknown words", "% of the words of the sources"),
    "unknown_reference_words": ("", "% of the words of the references, which no translation can have"),
}


class _Text(NamedTuple):
    name: str
    lines: list[str]


def _several(name: str, given: References) -> list[_Text]:
    """One text, or several that are given as a list of Paths or of lists."""
    if isinstance(given, (str, Path)) or not any(isinstance(each, (Path, list, tuple)) for each in given):
        return [_read(name, cast("Lines", given))]
    return [_read(f"{name} {number}", cast("Lines", each)) for number, each in enumerate(given, start=1)]


def _read(name: str, given: Lines) -> _Text:
    if isinstance(given, (str, Path)):
        return _Text(str(given), read_lines(given))
    lines = list(given)
    refuse_no_text(lines, f"{name}, line", first=1)
    return _Text(name, lines)
