"""`align`: word alignments of sentence pairs, from attention or from a statistical aligner."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2seq_attn.cli.console import answer, answer_json, progress, say
from seq2seq_attn.cli.model import load_model
from seq2seq_attn.cli.options import AsJson, AttentionFile, Plugin, Run, Source, Target, file, folder
from seq2seq_attn.cli.scores import rates, rates_line
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Method

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Links
    from seq2seq_attn.text.corpus import ParallelCorpus

Row = Literal["predicted", "read"]  # as in evaluation/attention_weights.py, which imports NumPy
DEFAULT_METHOD: Method = "grow-diag-final-and"


def align(
    run: Run,
    source: Source,
    target: Target,
    gold: Annotated[Path | None, file("Gold links, Pharaoh format, plain or .gz: adds the error rate.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Link all words with at least this weight, not just the word read most."),
    ] = None,
    row: Annotated[
        Row, typer.Option(help="A word's weights: of the step that predicts it, or of the step that reads it.")
    ] = "predicted",
    reverse: Annotated[Path | None, folder("A run that translates the other way: its links join those of RUN.")] = None,
    symmetrise: Annotated[
        Method | None, typer.Option(help=f"How the links of two directions are joined; {DEFAULT_METHOD} unless given.")
    ] = None,
    aligner: Annotated[
        Literal["attention", "eflomal"],
        typer.Option(help="eflomal: a statistical aligner, trained on RUN's training pairs in both directions."),
    ] = "attention",
    attention: AttentionFile = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Print the word alignments of sentence pairs.

    The format is Pharaoh's: a line a pair, `i-j` for source word i and target word j, counted from 0. A target word
    is linked to the source word that was read most while the model predicted it. Weights of pieces are summed over a
    source word and averaged over a target word. A pair with a blank side gives a blank line.

    Row i of the weights was read while target token i was being predicted, in every decoder: its query has seen the
    tokens before i (luong, conditional) or before i - 1 (bahdanau). With --row read, a token has the row after that,
    of the step whose input it is.

    With --gold, AER, precision, recall and F1 follow on stderr (with --json, in the answer).
    """
    from seq2seq_attn.evaluation.alignment import agreement, format_links, read_gold_of
    from seq2seq_attn.text.corpus import read_parallel

    if aligner == "eflomal" and (threshold is not None or row != "predicted" or reverse or attention):
        raise UserError("--aligner eflomal reads no weights; leave out --threshold, --row, --reverse and --attention")
    if symmetrise and aligner == "attention" and not reverse:
        raise UserError("--symmetrise joins the links of two directions; give the other run: --reverse RUN")
    pairs = read_parallel(source, target)
    known = read_gold_of(gold, pairs.source, pairs.target) if gold else None
    if aligner == "eflomal":
        directions = _by_eflomal(run, pairs)
    else:
        runs = [run, reverse] if reverse else [run]
        directions = _by_attention(runs, pairs, threshold, row, attention, plugin)
    links = _joined(directions, symmetrise or DEFAULT_METHOD)
    agreed = agreement(links, *known) if known else None
    if as_json:
        answer_json({"links": [sorted(pair) for pair in links]} | (rates(agreed) if agreed else {}))
        return
    for pair in links:
        answer(format_links(pair))
    if agreed:
        say(rates_line(agreed))


def _by_attention(
    runs: list[Path],
    pairs: ParallelCorpus,
    threshold: float | None,
    row: Row,
    attention: Path | None,
    plugin: list[Path] | None,
) -> list[list[Links]]:
    """The links of one model, and those of a second one that reads the pairs the other way."""
    from seq2seq_attn.analysis.attention_files import attention_file
    from seq2seq_attn.analysis.word_alignment import align_by_attention
    from seq2seq_attn.evaluation.alignment import flipped
    from seq2seq_attn.text.corpus import ParallelCorpus

    writing = attention_file(attention) if attention else nullcontext()
    models = [load_model(run, plugin) for run in runs]
    with progress("pairs", len(pairs) * len(models)) as advance, writing as write:
        aligned = partial(align_by_attention, threshold=threshold, row=row, progress=advance)
        found = [aligned(models[0], pairs, write=write)]
        if threshold is None and not any(found[0]):
            say(f"no links: the model of {runs[0]} reads no single word of the source (model.context.kind)")
        for other in models[1:]:
            turned = ParallelCorpus(pairs.target, pairs.source, pairs.name)
            found.append([flipped(links) for links in aligned(other, turned)])
    return found


def _by_eflomal(run: Path, pairs: ParallelCorpus) -> list[list[Links]]:
    """The links of both directions."""
    from seq2seq_attn.analysis.word_alignment import align_by_eflomal

    return list(align_by_eflomal(run, pairs, say))


def _joined(directions: list[list[Links]], method: Method) -> list[Links]:
    from seq2seq_attn.evaluation.alignment import symmetrise

    if len(directions) == 1:
        return directions[0]
    return [symmetrise(forward, backward, method) for forward, backward in zip(*directions, strict=True)]
