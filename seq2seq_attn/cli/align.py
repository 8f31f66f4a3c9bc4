"""`align` and `score`: what a model makes of given translations, by forced decoding."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2seq_attn.cli.arguments import (
    AsJson,
    AttentionFile,
    Plugin,
    RunFolder,
    SourceFile,
    TargetFile,
    file,
    folder,
    load_model,
)
from seq2seq_attn.cli.console import answer, answer_json, progress, rates, rates_line, say
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Method

if TYPE_CHECKING:
    from seq2seq_attn.evaluation.alignment import Links
    from seq2seq_attn.text.corpus import ParallelCorpus

Row = Literal["predicted", "read"]  # as in evaluation/attention_weights.py, which imports NumPy
DEFAULT_METHOD: Method = "grow-diag-final-and"


def align(
    run: RunFolder,
    source: SourceFile,
    target: TargetFile,
    gold: Annotated[Path | None, file("Gold links, Pharaoh format, plain or .gz: adds the error rate.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Link all words with at least this weight, not only the one with the highest."),
    ] = None,
    row: Annotated[
        Row, typer.Option(help="A word's weights: of the step that predicts it, or of the step whose input it is.")
    ] = "predicted",
    reverse: Annotated[Path | None, folder("A run for the opposite direction: its links join those of RUN.")] = None,
    symmetrise: Annotated[
        Method | None, typer.Option(help=f"How to combine the links of two directions; default: {DEFAULT_METHOD}.")
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

    The output has one line per pair in Pharaoh format: `i-j` links source word i and target word j, counted from 0.
    A target word is linked to the source word with the highest attention weight in the step that predicts it. Weights
    of subwords are summed over a source word and averaged over a target word. A pair with a blank side gives a blank
    line.

    Row i of the weights belongs to the step that predicts target token i, in every decoder: its query depends on the
    tokens before i (luong, conditional) or before i - 1 (bahdanau). With --row read, a token gets the next row, that
    of the step whose input it is.

    With --gold, AER, precision, recall and F1 are printed to stderr (with --json, in the answer).
    """
    from seq2seq_attn.evaluation.alignment import agreement, format_links, read_gold_of
    from seq2seq_attn.text.corpus import read_parallel

    if aligner == "eflomal" and (threshold is not None or row != "predicted" or reverse or attention):
        raise UserError("--aligner eflomal reads no weights; leave out --threshold, --row, --reverse and --attention")
    if symmetrise and aligner == "attention" and not reverse:
        raise UserError("--symmetrise combines the links of two directions; give the other run: --reverse RUN")
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


def score(
    run: RunFolder, source: SourceFile, target: TargetFile, as_json: AsJson = False, plugin: Plugin = None
) -> None:
    """Print the log-probability of sentence pairs.

    It is the natural logarithm of p(target | source), summed over the target's tokens and `</s>`. A pair with a blank
    side gives a blank line. With --json a line is {"source", "target", "log_probability", "tokens",
    "log_probabilities"}, the last two per token; null for a blank pair.
    """
    from seq2seq_attn.text.corpus import read_parallel

    pairs = read_parallel(source, target)
    model = load_model(run, plugin)
    with progress("pairs", len(pairs)) as advance:
        forced = model.force(pairs.source, pairs.target, advance)
    for left, right, found in zip(pairs.source, pairs.target, forced, strict=True):
        if not as_json:
            answer("" if found is None else f"{found.total:.6f}")
            continue
        values = {
            "log_probability": found and found.total,
            "tokens": found and [*model.target.pieces(right), "</s>"],
            "log_probabilities": found and found.log_probabilities.tolist(),
        }
        answer_json({"source": left, "target": right} | values)
