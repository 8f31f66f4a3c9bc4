"""`align` and `score`: word alignments and log-probabilities of given targets, by forced decoding."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seq2seq_attn.cli.arguments import (
    AsJson,
    AttentionFile,
    Ensemble,
    Plugin,
    RunFolder,
    SourceFile,
    TargetFile,
    check_run,
    file,
    folder,
    load_ensemble,
    load_model,
    load_plugins,
    report_unknown,
)
from seq2seq_attn.cli.console import answer, progress, rates, rates_line, say
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import DEFAULT_METHOD, Method
from seq2seq_attn.options import AlignOptions, takes
from seq2seq_attn.strict import parse

if TYPE_CHECKING:
    from seq2seq_attn.api.heads import HeadTable


@takes(AlignOptions)
def align(
    run: RunFolder,
    source: SourceFile,
    target: TargetFile,
    *,
    gold: Annotated[Path | None, file("Gold links in Pharaoh format; adds the error rates.")] = None,
    reverse: Annotated[
        Path | None, folder("A run for the opposite direction, to combine its links with those of RUN.", check_run)
    ] = None,
    symmetrize: Annotated[
        Method | None, typer.Option(help=f"How to combine the links of two directions; default: {DEFAULT_METHOD}.")
    ] = None,
    aligner: Annotated[
        Literal["attention", "eflomal"],
        typer.Option(help="eflomal is a statistical aligner, trained on the training data of RUN in both directions."),
    ] = "attention",
    heads: Annotated[
        bool,
        typer.Option("--heads", help="Print the error rate of every layer and head against --gold, not links."),
    ] = False,
    plot: Annotated[
        Path | None, file("Draw the attention of every layer and head for the first pair, as .svg or .png.")
    ] = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
    **options: Any,
) -> None:
    """Print the word alignments of pairs of a source and a target.

    The output has one line per pair in Pharaoh format: `i-j` links source word i and target word j, counted from 0.
    A target word is linked to the source word with the highest attention weight in the step that predicts it. Subword
    weights are summed over each source word and averaged over each target word. A pair with a blank side gives a blank
    line.

    In every decoder, row i of the weights belongs to the step that predicts target token i: its query depends on the
    tokens before i, or before i - 1 with bahdanau. With --row read, token i is aligned by the next row, which belongs
    to the step that reads it as input.

    With --gold, AER, precision, recall and F1 are printed to stderr (with --json, in the answer). Source words that the
    model does not know are reported there, too, as by translate.

    Weights are the mean over layers and heads, unless --layer and --head select some; --heads compares all of them.

    Examples:
        seq2seq-attn align runs/x test.en test.de > test.align
        seq2seq-attn align runs/x test.en test.zh --gold test.align --json
        seq2seq-attn align runs/en-de test.en test.de --reverse runs/de-en --gold test.align
        seq2seq-attn align runs/x test.en test.de --attention attention.npz
        seq2seq-attn align runs/x test.en test.de --gold test.align --heads
        seq2seq-attn align runs/x pair.en pair.de --plot heads.svg
    """
    from seq2seq_attn.analysis.attention_files import attention_file
    from seq2seq_attn.corpora.corpus import read_parallel
    from seq2seq_attn.evaluation.alignment import read_gold_of

    links = parse(AlignOptions, options).model_dump(exclude_defaults=True)
    others = {"reverse": reverse, "attention": attention, "heads": heads, "plot": plot}
    if aligner == "eflomal" and (given := [*links, *(name for name, value in others.items() if value)]):
        raise UserError(f"--aligner eflomal uses no weights; leave out {', '.join(f'--{name}' for name in given)}")
    if heads and (not gold or reverse or attention or "layer" in links):
        raise UserError("--heads needs --gold, and compares all heads; leave out --reverse, --attention and --layer")
    if plot and plot.suffix not in (".svg", ".png"):
        raise UserError(f"{plot}: pictures are written to a file that ends in .svg or .png")
    if symmetrize and aligner == "attention" and not reverse:
        raise UserError("--symmetrize combines the links of two directions; give the other run: --reverse RUN")
    pairs = read_parallel(source, target)
    writing = attention_file(attention) if attention else nullcontext()
    method = symmetrize or DEFAULT_METHOD
    if aligner == "eflomal":
        from seq2seq_attn.api.alignment import align_by_eflomal

        load_plugins(plugin)
        known = read_gold_of(gold, pairs.source, pairs.target) if gold else None
        found = align_by_eflomal(run, pairs, symmetrize=method, say=say)
    else:
        model = load_model(run, plugin)
        known = read_gold_of(gold, pairs.source, pairs.target, model.trained.source.words) if gold else None
        report_unknown(model, pairs.source)
        if plot:
            model.attention_maps(pairs.source[0], pairs.target[0]).cross.save(plot)
        if heads and known:
            with progress("pairs", len(pairs)) as advance:
                by_head = model.align_heads(pairs, known, progress=advance, **links)
            answer(_heads_record(by_head) if as_json else str(by_head))
            return
        other = load_model(reverse, None) if reverse else None
        with progress("pairs", len(pairs) * (2 if other else 1)) as advance, writing as write:
            found = model.align(pairs, reverse=other, symmetrize=method, write=write, progress=advance, **links)
        if not model.trained.translator.attends:
            say(f"no links: the model of {run} does not attend to single source words (model.context.kind)")
    agreed = found.agreement(known) if known else None
    if as_json:
        answer({"links": [sorted(pair) for pair in found.links]} | (rates(agreed) if agreed else {}))
        return
    for pair in found:
        answer(pair)
    if agreed:
        say(rates_line(agreed))


def _heads_record(found: HeadTable) -> dict[str, Any]:
    best = {} if found.best is None else found.best._asdict()
    best["aer"] = best.pop("error_rate")  # as in `rates`
    return {"heads": found.to_records(), "best": best | {"chosen_on": "these pairs"}}


def score(
    run: RunFolder,
    source: SourceFile,
    target: TargetFile,
    ensemble: Ensemble = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Print the log-probability of each target, given its source.

    The score is the natural logarithm of p(target | source), summed over the target tokens, including `</s>`. A pair
    with a blank side gives a blank line. With --json, each line is {"source", "target", "log_probability", "tokens",
    "log_probabilities"}. The last two have one entry per token; for a pair with a blank side, the last three are null.

    Examples:
        seq2seq-attn score runs/x test.en test.de
    """
    from seq2seq_attn.corpora.corpus import read_parallel

    pairs = read_parallel(source, target)
    model, others = load_model(run, plugin), load_ensemble(ensemble)
    report_unknown(model, pairs.source)
    with progress("pairs", len(pairs)) as advance:
        scores = model.score(pairs, ensemble=others, progress=advance)
    for each in scores:
        shown = "" if each.log_probability is None else f"{each.log_probability:.6f}"
        answer(each._asdict() if as_json else shown)
