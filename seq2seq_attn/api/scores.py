"""Scores of the outputs of any system, and how the scores of a run are shown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from seq2seq_attn.api.tables import html_table
from seq2seq_attn.corpora.corpus import refuse_no_text
from seq2seq_attn.corpora.languages import language_code, without_rules
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import Expected, default_tokenizer
from seq2seq_attn.evaluation.counts import CorpusCounts
from seq2seq_attn.evaluation.groups import Band, length_bands, scores_by_length
from seq2seq_attn.evaluation.metrics import (
    METRICS,
    find_metrics,
    score_lines,
    score_translations,
    with_given_files,
)
from seq2seq_attn.evaluation.resampling import approximate_randomization, paired_bootstrap
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.options import ScoringOptions, takes
from seq2seq_attn.strict import parse

Lines = Path | str | Sequence[str]  # a file, or its lines
Several = Lines | Sequence[Path] | Sequence[Sequence[str]]  # or several of them: of files, those given as Paths


@takes(ScoringOptions)
def evaluate(
    hypotheses: Several,
    references: Several,
    *,
    source: Lines | None = None,
    lc_tok: Lines | None = None,
    language: str | None = None,
    baseline: Several | None = None,
    per_line: bool = False,
    **scoring: Any,
) -> Scores:
    """Scores the outputs of any system by BLEU, chrF, TER and exact matches, with their signatures.

    `Model.evaluate` scores a model on its test set. All texts are files or lists of lines.

    A system that was trained several times has several outputs: its score is their mean, and `runs` has each. If the
    baseline has several as well, `joint` is the test of `compare`, over training runs and sentences together; runs are
    not paired.

    Args:
        hypotheses: The outputs; those of several training runs are a list of Paths, or of lists of lines.
        references: Their references. Several of them are a list of Paths, or of lists of lines, blank where a further
            one is missing.
        source: The sources, for the score by source length.
        lc_tok: The references lowercased, normalized and tokenized, for the BLEU that papers report.
        language: That of the outputs, by default "en".
        baseline: Outputs of another system, as `hypotheses`, for the difference, with two paired tests; lines
            with the same source are drawn together.
        per_line: Add the scores of each line of each output: `per_line` has `signatures`, by metric, None for one
            without a score of single lines, and `lines`, which are records for a data frame.
        **scoring: Fields of `seq2seq_attn.options.ScoringOptions`.

    Returns:
        The scores by their keys, the main metric first.

    Raises:
        UserError: Numbers of lines differ, a file is missing, a metric is unknown, the same file is given for two
            training runs, or with `lc_tok` the rules of Moses lack the language.

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

    systems = [_several("hypotheses", hypotheses)]
    if baseline is not None:
        systems.append(_several("baseline", baseline))
    _refuse_copies(systems)
    ours, *theirs = [[*map(same_length, runs)] for runs in systems]
    all_references = [expected.lines, *map(same_length, further)]
    code = language_code(language or "en")
    tokenize, lowercase = options.tokenize or default_tokenizer(code), bool(options.lowercase)
    if lc_tok is not None and (reason := without_rules(code)) is not None:
        raise UserError(f"language: {reason}; leave lc_tok out")
    lowercased = None if lc_tok is None else lines("lc_tok", lc_tok)
    sources = None if source is None else lines("source", source)
    if options.comet is not None and sources is None:
        raise UserError("COMET reads the sources as well; give them as the source")
    expected_lines = Expected(all_references, sources or (), tokenize, lowercase, code, lowercased, options.comet)
    try:
        metrics = find_metrics(options.metrics, _load)
    except ValueError as error:
        raise UserError(f"metrics: {error}") from None
    chosen = with_given_files(metrics, expected_lines)
    scores = Scores(_mean_scores([score_translations(run, expected_lines, chosen) for run in ours]))
    counts, *others = [metrics[0].counts(runs, expected_lines) for runs in (ours, *theirs)]
    if counts is not None and sources is not None:
        scores["by_length"] = scores_by_length(counts, [len(line.split()) for line in sources], length_bands())
    for other in others:
        if counts is not None and other is not None:
            scores |= _difference(counts, other)
    if per_line:
        scores["per_line"] = score_lines([run[:2] for runs in systems for run in runs], expected_lines, chosen)
    return scores


def _refuse_copies(systems: Sequence[Sequence[_Text]]) -> None:
    """UserError if a file is given for two training runs; a single output may be compared with itself."""
    names = [each.name for runs in systems for each in runs if each.is_file]
    paths = [Path(name).resolve() for name in names]
    for place, name in enumerate(names):
        if paths[place] in paths[:place] and any(len(runs) > 1 for runs in systems):
            raise UserError(f"{name}: given twice; each training run of a system has an output of its own")


def _mean_scores(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The scores of one output, or the mean of those of several, with the score of each as `runs`."""
    first, *more = runs
    if not more:
        return first
    values = {key: [run[key]["value"] for run in runs] for key in first}
    return {key: {**first[key], "value": float(np.mean(each)), "runs": each} for key, each in values.items()}


def _difference(ours: CorpusCounts, theirs: CorpusCounts) -> dict[str, Any]:
    """The difference of two systems with its tests, of which `joint` needs several runs of both."""
    found = paired_bootstrap(ours, theirs)
    if ours.sources == 1:
        return {"difference": {"difference": found.difference, "untested": ONE_SENTENCE}}
    tests: dict[str, Any] = {"difference": asdict(found)}
    if ours.runs == theirs.runs:
        tests["randomization"] = asdict(approximate_randomization(ours, theirs))
    if ours.runs + theirs.runs > 2:
        tests["joint"] = _joint(ours, theirs)
    return tests


def _joint(ours: CorpusCounts, theirs: CorpusCounts) -> dict[str, Any]:
    """The joint test as `compare` makes it of arms whose runs are not paired, or why there is none."""
    from seq2seq_attn.evaluation.significance import (  # imports scipy, which takes longer than most scores
        RunScores,
        detectable_difference,
        joint_signature,
        joint_test,
    )
    from seq2seq_attn.results.breakdowns import ENOUGH

    if min(ours.runs, theirs.runs) == 1:
        return {"untested": "a single run of a system says nothing of its other training runs; give several of both"}
    if ours.sources < ENOUGH:
        return {"untested": f"it needs {ENOUGH} different sentences, and these are {ours.sources}"}
    found = joint_test(RunScores.of(ours), RunScores.of(theirs))
    if found is None:
        return {"untested": "the runs of a system score the same on every resample, as copies of one do"}
    keys = "difference", "low", "high", "p_value", "degrees_of_freedom"
    tested = {key: getattr(found, key) for key in keys}
    return {**tested, "detectable": detectable_difference(found), "signature": joint_signature(ours)}


def _load(place: str) -> ModuleType:
    from seq2seq_attn.attention.user_code import load_place  # torch, which scores alone do not need

    return load_place(place)


ONE_SENTENCE = "a single sentence decides nothing: there is no interval and no p-value; give more"


class Scores(dict[str, Any]):
    """Scores as in metrics.json: {key: {value, signature}} for outputs, {key: value} for forced decoding.

    Where a system has several training runs, `value` is the mean of `runs`. `by_length` is a list of length bands;
    links have precision, recall and F1, and their AER an interval.
    `source_unit` is what the bands count.
    """

    def __init__(self, scores: Mapping[str, Any], source_unit: str = "words") -> None:
        super().__init__(scores)
        self.source_unit = source_unit

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per number: its name, and its signature or meaning."""
        return [{"score": row.score, "value": row.value, "about": row.about} for row in self._rows()]

    def lines_table(self) -> str:
        """The scores of each line, of `per_line=True`, as a table with tabs and a header."""
        text, lines = io.StringIO(), self["per_line"]["lines"]
        table = csv.DictWriter(text, list(lines[0]), dialect="excel-tab", lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
        return text.getvalue()

    def __repr__(self) -> str:
        return "\n".join(row.text for row in self._rows())

    def _repr_html_(self) -> str:
        return html_table(["score", "value", ""], [(row.score, row.number, row.about) for row in self._rows()])

    def _rows(self) -> Iterator[_Row]:
        first = next(iter(self), "")
        main = METRICS[first].label if first in METRICS else ""
        for key, metric in METRICS.items():
            if isinstance(self.get(key), Mapping):
                yield _Row(metric.name, self[key]["value"], _spread(self[key].get("runs", ())) + self[key]["signature"])
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
            length = Band(band["low"], band["high"])
            about = f"{band['sentences']:,} sentences of {length} source {self.source_unit}"
            yield _Row(f"{main} {length}", band["score"], about)
        if "untested" in self.get("difference", {}):
            yield _Row(f"{main} difference", self["difference"]["difference"], self["difference"]["untested"], sign="+")
        elif "difference" in self:
            yield from self._tests(f"{main} difference")
        for key, signature in self.get("per_line", {}).get("signatures", {}).items():
            yield _Row(f"{METRICS[key].label} per line", None, signature or "no score of single lines")

    def _tests(self, name: str) -> Iterator[_Row]:
        """The difference with the test that says most first."""
        pair, joint = self["difference"], self.get("joint", {})
        bootstrap = f"{_interval(pair)}, p = {pair['p_value']:.3f}, {pair['signature']}"
        if "p_value" in joint:
            about = f"{_interval(joint)} over training runs and sentences, p = {joint['p_value']:.3f}"
            if joint["detectable"] is not None:
                about += f", detectable {joint['detectable']:.2f}"
            yield _Row(name, joint["difference"], f"{about}, {joint['signature']}", sign="+")
            yield _Row("", None, f"of these runs alone: {bootstrap}")
        else:
            yield _Row(name, pair["difference"], bootstrap, sign="+")
        if randomization := self.get("randomization"):
            about = f"approximate randomization p = {randomization['p_value']:.4f}, {randomization['signature']}"
            yield _Row("", None, about)
        if "untested" in joint:
            yield _Row("", None, f"no test over training runs: {joint['untested']}")


def _interval(tested: Mapping[str, Any]) -> str:
    return f"95 % interval [{tested['low']:+.2f}, {tested['high']:+.2f}]"


def _spread(runs: Sequence[float]) -> str:
    """How the scores of several runs differ, before the signature."""
    return f"mean of {len(runs)} runs, standard deviation {np.std(runs, ddof=1):.2f}; " if runs else ""


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
    "unknown_reference_words": ("", "% of the words of the references, which no output can have"),
}


class _Text(NamedTuple):
    name: str
    lines: list[str]
    is_file: bool


def _several(name: str, given: Several) -> list[_Text]:
    """One text, or several that are given as a list of Paths or of lists."""
    if isinstance(given, (str, Path)) or not any(isinstance(each, (Path, list, tuple)) for each in given):
        return [_read(name, cast("Lines", given))]
    return [_read(f"{name} {number}", cast("Lines", each)) for number, each in enumerate(given, start=1)]


def _read(name: str, given: Lines) -> _Text:
    if isinstance(given, (str, Path)):
        return _Text(str(given), read_lines(given), is_file=True)
    lines = list(given)
    refuse_no_text(lines, f"{name}, line", first=1)
    return _Text(name, lines, is_file=False)
