"""`translate`: one line of output per line of input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
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
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.api.answers import Translation

TIDY = 20_000  # lines
REPORTED = 5  # lines whose unknown words are listed; the others are counted
CHUNK = 512  # lines translated together: sorted by length, they form batches with little padding


def translate(
    run: RunFolder,
    source: Annotated[
        Path | None, argument("SOURCE", "Source sentences, one per line; plain or compressed; default: stdin.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses per sentence; 1 is greedy search.")] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Translations per line at most, best first, as `i ||| text ||| score`.")
    ] = None,
    distinct: Annotated[
        bool | None,
        typer.Option("--distinct", help="No text twice for a line: subwords can spell one text in several ways."),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="log p is divided by ((5 + tokens) / 6) to this power; 0 ranks by log p.")
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(min=1, help="Minimum number of target tokens, </s> included.")
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of target tokens, </s> included; search.max_length_ratio limits too."),
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16", "int8"] | None,
        typer.Option(
            help="Precision of matrix products; bf16 and int8 (for CPUs) are faster but less exact: bf16 moves the "
            "log-probability of a sentence by up to 0.7, and may choose another translation."
        ),
    ] = None,
    shortlist: Annotated[
        bool | None,
        typer.Option(help="Predict only likely tokens, for speed, with a lexicon that is learned on first use."),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Draw translations at random, from p^(1/T), normalized, T > 0; 1: the model's distribution."),
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most probable tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens with this probability in total, above 0 up to 1.")
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
    replace_unknown: Annotated[
        bool | None,
        typer.Option(help="Show the source token with the highest attention weight instead of <unk>."),
    ] = None,
    ensemble: Ensemble = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
) -> None:
    """Translate a file or stdin, line by line.

    Prints one line per input line, a blank one for a blank line; the lines of a pipe are translated as they come.
    Options default to the configuration of the run. With --n-best above 1, prints one line per translation in the
    format of Moses: `i ||| text ||| score`, where i counts input lines from 0 and the score is log p divided by the
    length penalty. With --json, each line is {"source", "tokens", "unknown", "translations": [{"text", "score",
    "log_probability"}]}: the tokens that the model read, and the words that it does not know. An input line with more
    tokens than data.max_length of the run is truncated, with a warning. --attention writes the weights of all
    translations of --n-best.

    With --with, several runs translate together: at every step, their probabilities are averaged, and so are their
    attention weights. Any of --temperature, --top-k, --top-p and --seed draws --n-best translations at random instead
    of searching for the best ones. With --mbr, the score is the mean similarity, 0 to 100.

    Words of the input that are unknown to the model are reported on stderr: the first lines that have any, then their
    share. An unknown word that the model predicts is shown as <unk>.
    """
    from seq2seq_attn.analysis.attention_files import attention_file
    from seq2seq_attn.text.unknown_words import UnknownReport

    total, batches = _batches(source)
    writing = attention_file(attention) if attention else nullcontext()
    model, others = load_model(run, plugin), load_ensemble(ensemble)
    options = model.search_options(
        beam_size=beam_size,
        n_best=n_best,
        distinct=distinct,
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
        replace_unknown=replace_unknown,
    )
    is_typed = source is None and sys.stdin is not None and sys.stdin.isatty()
    unknown = UnknownReport(say, most=None if is_typed else REPORTED)
    with progress("lines", total) as advance, writing as write:
        weights = write is not None
        found = model.stream_batches(
            _tidied(batches), options, ensemble=others, weights=weights, progress=advance, say=say
        )
        for number, translation in enumerate(found):
            unknown.add(translation.source, translation.unknown)
            if as_json:
                _answer_record(translation)
            elif options.n_best > 1:
                _answer_n_best(number, translation)
            else:
                answer(translation.text)
            if write is not None and translation.token_attention is not None:
                write(translation.token_attention)
    unknown.summarize()


def _batches(source: Path | None) -> tuple[int | None, Iterator[list[str]]]:
    """The number of lines, if they can be counted, and the lines that are translated together.

    A file is read twice, so that its mistakes are reported before anything is translated. From a pipe, which can be
    read only once, lines are taken as they come.
    """
    from seq2seq_attn.reading import decoded_lines, iterate_lines, line_batches

    if source is None:
        if sys.stdin is None:
            raise UserError("stdin is closed; give a file of source sentences")
        stdin = sys.stdin.buffer
        if sys.stdin.isatty():
            return None, ([line] for line in _prompted(decoded_lines(stdin, "stdin")))
        return None, line_batches(stdin, "stdin", CHUNK)
    if source.exists() and not source.is_file():
        if source.is_dir():
            raise UserError(f"{source}: a folder; give a file of source sentences")
        return None, _piped(source)
    total = sum(1 for _ in iterate_lines(source))
    if not total:
        raise UserError(f"{source}: the file is empty")
    lines = iterate_lines(source)
    return total, iter(lambda: list(islice(lines, CHUNK)), [])


def _tidied(batches: Iterable[list[str]]) -> Iterator[list[str]]:
    """The same batches. Every `TIDY` lines, memory that is free in scattered pieces is returned to the system.

    Batches of many shapes leave such pieces behind: 5 MB per 100,000 lines.
    """
    from seq2seq_attn.ops.host import give_back_freed_memory

    lines = 0
    for batch in batches:
        yield batch
        lines += len(batch)
        if lines >= TIDY:
            give_back_freed_memory()
            lines = 0


def _piped(path: Path) -> Iterator[list[str]]:
    from seq2seq_attn.reading import line_batches, open_file

    with open_file(path) as file:
        yield from line_batches(file, str(path), CHUNK)


def _prompted(lines: Iterable[str]) -> Iterator[str]:
    """The lines typed on a terminal, with a prompt on stderr."""
    end = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
    say(f"Ready: type a sentence and press Enter; {end} ends.")
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
    translations = [each._asdict() for each in translation.candidates]
    read = {"tokens": translation.tokens, "unknown": translation.unknown}
    answer_json({"source": translation.source} | read | {"translations": translations})
