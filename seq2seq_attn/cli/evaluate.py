"""`evaluate`: the scores of a run on its test set, or of the output of any system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, Plugin, argument, file, load_model
from seq2seq_attn.cli.console import answer, progress, rates, say
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.writing import write_bytes
from seq2seq_attn.options import ScoringOptions, takes
from seq2seq_attn.runs import find_run
from seq2seq_attn.strict import parse

if TYPE_CHECKING:
    from seq2seq_attn.api.scores import Scores


@takes(ScoringOptions)
def evaluate(
    run: Annotated[Path | None, argument("RUN", "A run folder, whose test set is predicted and scored.")] = None,
    hypotheses: Annotated[
        list[Path] | None,
        file("Outputs to score instead of a run, one per line. Repeatable, for several training runs."),
    ] = None,
    references: Annotated[
        list[Path] | None, file("References, line by line. Repeatable, for several references.")
    ] = None,
    source: Annotated[Path | None, file("Sources, line by line; adds the first metric by source length.")] = None,
    lc_tok: Annotated[
        Path | None, file("References lowercased, normalized and tokenized; adds the BLEU that papers report.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="Language of the outputs: en (the default), de, ...; for --tokenize and --lc-tok."),
    ] = None,
    *,
    baseline: Annotated[
        list[Path] | None,
        file(
            "Outputs of another system; adds the difference in the first metric with two paired tests. "
            "Repeatable, for several training runs: where both systems have them, a test over runs and sentences."
        ),
    ] = None,
    per_line: Annotated[
        Path | None,
        file("Write the scores of each line as a table with tabs; with --json, they are in the answer as well."),
    ] = None,
    links: Annotated[Path | None, file("Word links to score instead, in Pharaoh format as printed by align.")] = None,
    gold: Annotated[Path | None, file("Gold links, line by line, or those of another system.")] = None,
    first_word: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="The number of the first word in the gold file; default: 0, if plausible."),
    ] = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
    **scoring: Any,
) -> None:
    """Score a run on its test set, or files.

    Prints the metrics with their signatures, and the first of them by source length and AER if the data allow.
    For a run, the outputs are saved in its folder and the scores in its metrics.json. Word links are scored by
    AER, precision, recall and F1. F1 against the links of another system is symmetric and measures agreement.

    BLEU of a line is smoothed, as its signature says. A metric without a score of single lines has no column.

    Examples:
        seq2seq-attn evaluate runs/x
        seq2seq-attn evaluate --hypotheses mine.de --references test.de --baseline theirs.de
        seq2seq-attn evaluate --hypotheses mine.de --references test.de --lc-tok test.lc.norm.tok.de --language de
        seq2seq-attn evaluate --hypotheses mine.de --references test.de --per-line lines.tsv
        seq2seq-attn evaluate --hypotheses 1.de --hypotheses 2.de --references test.de --baseline a.de --baseline b.de
        seq2seq-attn evaluate --links mine.align --gold test.align
    """
    texts: dict[str, Any] = {"source": source, "lc_tok": lc_tok, "language": language, "baseline": baseline}
    options = parse(ScoringOptions, scoring)
    of_files = any(each is not None for each in (hypotheses, references, *texts.values()))
    of_files = of_files or options != ScoringOptions()
    of_links = any(each is not None for each in (links, gold, first_word))
    is_per_line = per_line is not None
    inputs = [each for each in (*(hypotheses or ()), *(references or ()), *(baseline or ()), source, lc_tok) if each]
    if per_line is not None and os.path.realpath(per_line) in map(os.path.realpath, inputs):
        raise UserError(f"--per-line {per_line}: scores would replace this file, which is read; name another")
    if run is not None and not (of_files or of_links):
        scores = _score_run(run, plugin, per_line=is_per_line)
    elif not (run or of_files or plugin or per_line) and links is not None and gold is not None:
        scores = _score_links(links, gold, first_word)
    elif not (run or of_links or plugin) and hypotheses is not None and references:
        scores = s2s.evaluate(hypotheses, references, **texts, per_line=is_per_line, **dict(options))
    else:
        raise UserError(
            "evaluate takes RUN, --plugin and --per-line; or --hypotheses FILE and --references FILE, and the options "
            "for outputs; or --links FILE and --gold FILE, and --first-word; see --help"
        )
    if per_line is not None:
        write_bytes(per_line, scores.lines_table().encode())
    answer(scores if as_json else str(scores))


def _score_run(run: Path, plugin: list[Path] | None, *, per_line: bool) -> Scores:
    model = load_model(find_run(run), plugin)
    with progress("test set") as advance:
        return model.evaluate(per_line=per_line, progress=advance, say=say)


def _score_links(links: Path, gold: Path, first_word: int | None) -> Scores:
    from seq2seq_attn.api.scores import Scores
    from seq2seq_attn.evaluation.alignment import agreement, read_gold, read_gold_for

    predicted = read_gold(links).possible  # all of them
    return Scores(rates(agreement(predicted, *read_gold_for(gold, predicted, first_word))))
