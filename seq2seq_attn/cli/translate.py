"""`translate`: one line of output per line of input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2seq_attn.cli.arguments import (
    AsJson,
    AttentionFile,
    Ensemble,
    Plugin,
    RunFolder,
    argument,
    load_ensemble,
    load_model,
)
from seq2seq_attn.cli.console import answer, answer_json, progress, say

if TYPE_CHECKING:
    from seq2seq_attn.api.answers import Translation


def translate(
    run: RunFolder,
    source: Annotated[
        Path | None, argument("SOURCE", "Source sentences, one per line; plain or .gz; default: stdin.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses per sentence; 1 is greedy search.")] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Translations per line at most, best first, as `i ||| text ||| score`.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="log p is divided by ((5 + tokens) / 6) to this power; 0 ranks by log p.")
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(min=1, help="Minimum number of target tokens, </s> included.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of target tokens, </s> included.")
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16", "int8"] | None,
        typer.Option(help="Precision of matrix products; bf16 and int8 are faster but less exact; int8 is for CPUs."),
    ] = None,
    shortlist: Annotated[
        bool | None,
        typer.Option(help="Predict only likely tokens, for speed, with a lexicon that is learned on first use."),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0, help="Draw translations at random, from p^(1/T), normalised; 1: the model's distribution."),
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most probable tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Draw from the fewest tokens with this probability in total.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of what is drawn.")] = None,
    mbr: Annotated[
        Literal["chrf", "bleu"] | None,
        typer.Option(help="Minimum Bayes risk: rank by mean similarity to all candidates, by this sentence score."),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(min=2, help="Translations among which --mbr chooses, of the beam or drawn; 5 unless given."),
    ] = None,
    ensemble: Ensemble = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Translate a file or stdin, line by line.

    Prints one line per input line, a blank one for a blank line. Options default to the configuration of the run. With
    --n-best above 1, prints one line per translation in the format of Moses: `i ||| text ||| score`, where i counts
    input lines from 0 and the score is log p divided by the length penalty. With --json, each line is {"source",
    "translations": [{"text", "score", "log_probability"}]}. An input line with more tokens than data.max_length of the
    run is truncated, with a warning. --attention writes the weights of all translations of --n-best.

    With --with, several runs translate together: at every step, their probabilities are averaged, and so are their
    attention weights. Any of --temperature, --top-k, --top-p and --seed draws --n-best translations at random instead
    of searching for the best ones. With --mbr, the score is the mean similarity, 0 to 100.
    """
    from seq2seq_attn.analysis.attention_files import attention_file
    from seq2seq_attn.text.files import decoded_lines, read_lines

    typed = source is None and sys.stdin.isatty()
    lines: Iterable[str] = read_lines(source) if source else decoded_lines(sys.stdin.buffer, "stdin")
    writing = attention_file(attention) if attention else nullcontext()
    model, others = load_model(run, plugin), load_ensemble(ensemble)
    from seq2seq_attn.api.model import CHUNK  # after the arguments are checked: this imports torch

    options = model.search_options(
        beam_size=beam_size,
        n_best=n_best,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=max_length,
        precision=precision,
        shortlist=shortlist,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        mbr=mbr,
        candidates=candidates,
    )
    with progress("lines", len(lines) if isinstance(lines, list) else None) as advance, writing as write:
        chunk, weights = 1 if typed else CHUNK, write is not None
        lines = _prompted(lines) if typed else lines
        found = model.stream(lines, options, ensemble=others, weights=weights, chunk=chunk, progress=advance, say=say)
        for number, translation in enumerate(found):
            if as_json:
                _answer_record(translation)
            elif options.n_best > 1:
                _answer_n_best(number, translation)
            else:
                answer(translation.text)
            if write is not None and translation.token_attention is not None:
                write(translation.token_attention)


def _prompted(lines: Iterable[str]) -> Iterator[str]:
    """The lines typed on a terminal, with a prompt on stderr."""
    say("Ready: type a sentence and press Enter; Ctrl-D ends.")
    rest = iter(lines)
    while True:
        typer.echo("> ", nl=False, err=True)
        line = next(rest, None)
        if line is None:
            say("")
            return
        yield line


def _answer_n_best(number: int, translation: Translation) -> None:
    """The format of Moses. A blank line has one blank translation, so that every line number occurs."""
    for text, score, _ in translation.candidates or [("", 0.0, 0.0)]:
        answer(f"{number} ||| {text} ||| {score:.6f}")


def _answer_record(translation: Translation) -> None:
    answer_json({"source": translation.source, "translations": [each._asdict() for each in translation.candidates]})
