"""`translate`: one line of output per line of input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seq2seq_attn.cli.arguments import (
    AsJson,
    AttentionFile,
    Ensemble,
    Plugin,
    RunFolder,
    argument,
    file,
    load_ensemble,
    load_model,
)
from seq2seq_attn.cli.console import answer, progress, say
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import SearchOptions, takes

if TYPE_CHECKING:
    from seq2seq_attn.api.answers import Translation
    from seq2seq_attn.runs.requests import SourceLine

TIDY = 20_000  # lines
CHUNK = 512  # lines decoded together: sorted by length, they form batches with little padding


@takes(SearchOptions, unset=True)
def translate(
    run: RunFolder,
    source: Annotated[
        Path | None, argument("SOURCE", "Sources, one per line; plain or compressed; default: stdin.")
    ] = None,
    *,
    prefix: Annotated[
        Path | None, file("How each output begins, line by line beside SOURCE; a blank line leaves it free.")
    ] = None,
    constraints: Annotated[
        Path | None, file("What each output must contain, line by line beside SOURCE: phrases with TABs between.")
    ] = None,
    tabs: Annotated[
        Literal["prefix", "constraints"] | None,
        typer.Option(help="What follows a TAB in each source line; constraints have TABs between them."),
    ] = None,
    glossary: Annotated[
        Path | None, file("Source phrases, each with a TAB and what the output of a line with it must contain.")
    ] = None,
    split_sentences: Annotated[
        bool, typer.Option(help="Each line is a paragraph: each sentence is a source, and their outputs are joined.")
    ] = False,
    ensemble: Ensemble = None,
    attention: AttentionFile = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
    **search: Any,
) -> None:
    """Predict the target of each line of a file or stdin.

    Prints one line per input line, a blank one for a blank line; the lines of a pipe are read as they come.
    Options default to the configuration of the run. With --n-best above 1, prints one line per output in the
    format of Moses: `i ||| text ||| score`, where i counts input lines from 0 and the score is log p divided by the
    length penalty, with the reward and the coverage that are asked for. With --json, each line is {"source", "tokens",
    "unknown", "translations": [{"text", "score", "log_probability"}]}: the tokens that the model read, and the words
    that it does not know. An input line with more tokens than data.max_length of the run is truncated, with a warning.
    --attention writes the weights of all outputs of --n-best.

    With --ensemble, several runs predict together: at every step, their probabilities are averaged, and so are their
    attention weights. With --mbr, the score is the mean similarity, 0 to 100.

    With --prefix, or after a TAB with --tabs prefix, an output begins with the given text. With --avoid, which is
    repeatable, no output contains a word or phrase; one that a longer word begins with is avoided there, too.
    With --constraints, after a TAB with --tabs constraints, or with a --glossary, an output contains the given
    phrases, by dynamic beam allocation (Post & Vilar 2018); with --json, "constraints" says by which steps.

    Words of the input that are unknown to the model are reported on stderr: the first lines that have any, then their
    share. An unknown word that the model predicts is shown as <unk>, or with --replace-unknown as the source token that
    it attends to, or as the target that a --glossary has for it; how many were replaced is reported as well, and with
    --json, "replaced" has each: its step, what is shown, and by "copy" or "glossary".

    Of a run with text.placeholders, the addresses, numbers or tags of a line stand in its output as they are; how
    many are missing or repeated is reported on stderr, and with --json, "placeholders" counts each.

    With --casing source, an output begins with a capital if its source does, and is in capitals if its source is.

    With --split-sentences, a line may have several sentences, each of which is a source; the scores of a line are their
    sums, and with --json, "sentences" has the answer to each.

    Examples:
        seq2seq-attn translate runs/x test.en > test.de
        echo 'Tom chases Jerry' | seq2seq-attn translate demo
        seq2seq-attn translate runs/x test.en.gz --beam-size 10 --n-best 3 > test.nbest
        seq2seq-attn translate runs/x test.en --n-best 5 --json --attention attention.jsonl > test.jsonl
        seq2seq-attn translate runs/x test.en --ensemble runs/y --ensemble runs/z > test.de
        seq2seq-attn translate runs/x test.en --temperature 1 --n-best 10 --seed 3 > test.samples
        printf 'Tom chases Jerry\\t杰瑞' | seq2seq-attn translate demo --tabs prefix
        printf 'Tom chases Jerry\\t一 只 猫' | seq2seq-attn translate demo --tabs constraints --beam-size 5 --json
        seq2seq-attn translate runs/x test.en --avoid a --no-repeat-ngram 3 > test.de
        seq2seq-attn translate runs/x test.en --replace-unknown --json > test.jsonl
        seq2seq-attn translate runs/x test.en --casing source > test.de
        seq2seq-attn translate runs/x test.en --length-penalty 0.2 --coverage-penalty 0.2 > test.de
        seq2seq-attn translate runs/x test.en --beam-size 8 --beam-groups 4 --n-best 4 > test.nbest
        echo 'Tom runs . Jerry sleeps .' | seq2seq-attn translate demo --split-sentences --json
        seq2seq-attn translate runs/x test.en --mbr chrf --candidates 10 --beam-size 10 > test.de
    """
    from seq2seq_attn.analysis.attention_files import attention_file
    from seq2seq_attn.corpora.placeholders import PlaceholderReport
    from seq2seq_attn.corpora.unknown_words import UnknownReport

    if tabs is not None and {"prefix": prefix, "constraints": constraints}[tabs] is not None:
        raise UserError(f"--{tabs} and --tabs {tabs} give the same in two ways; give one of them")
    total, batches = _batches(source)
    writing = attention_file(attention) if attention else nullcontext()
    model, others = load_model(run, plugin), load_ensemble(ensemble)
    if tabs is not None and model.trained.source.has_tabs:
        raise UserError(f"--tabs {tabs}: a TAB separates the parts of this model's sources; give a file: --{tabs} FILE")
    options = model.search_options(**search)
    unknown = UnknownReport(say, most=None if source is None and sys.stdin.isatty() else 5)
    placed = PlaceholderReport()
    with progress("lines", total) as advance, writing as write:
        weights = write is not None
        asked = _asked(_tidied(batches), prefix, constraints, tabs, glossary)
        found = model.stream(
            asked,
            options,
            ensemble=others,
            weights=weights,
            split_sentences=split_sentences,
            progress=advance,
            say=say,
        )
        for number, translation in enumerate(found):
            unknown.add(translation.source, translation.unknown)
            for best in (each for one in translation.sentences or [translation] for each in one.candidates[:1]):
                placed.add(best.placeholders)
                unknown.add_replaced(each.by for each in best.replaced)
            if as_json:
                answer(translation._replace(token_attention=None).record)
            elif options.n_best > 1:
                _answer_n_best(number, translation)
            else:
                answer(translation.text)
            if write is not None and translation.token_attention is not None:
                write(translation.token_attention)
    unknown.summarize()
    if placed.total or placed.without_source:
        say(str(placed))


def _batches(source: Path | None) -> tuple[int | None, Iterator[list[str]]]:
    """The number of lines, if they can be counted, and the lines that are decoded together.

    A file is read twice, so that its mistakes are reported before anything is decoded. From a pipe, which can be
    read only once, lines are taken as they come.
    """
    from seq2seq_attn.files.reading import decoded_lines, iterate_lines, line_batches

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


def _asked(
    batches: Iterable[list[str]], prefix: Path | None, constraints: Path | None, tabs: str | None, glossary: Path | None
) -> Iterator[list[SourceLine]]:
    """The lines of each batch with what is asked of them, in files beside the source or after a TAB."""
    from seq2seq_attn.files.reading import iterate_lines
    from seq2seq_attn.runs.requests import Glossary, lines_of

    known = None if glossary is None else Glossary.load(glossary)
    files = {path: iterate_lines(path) for path in (prefix, constraints) if path is not None}

    def beside(path: Path, count: int) -> list[str]:
        lines = list(islice(files[path], count))
        if len(lines) < count:
            raise UserError(f"{path}: fewer lines than the source; give one for every line, blank for none")
        return lines

    for batch in batches:
        fields = [line.split("\t") for line in batch] if tabs else [[line] for line in batch]
        begun = None if prefix is None else beside(prefix, len(batch))
        phrases = None if constraints is None else [line.split("\t") for line in beside(constraints, len(batch))]
        if tabs == "prefix":
            begun = ["\t".join(rest) for _, *rest in fields]
        elif tabs == "constraints":
            phrases = [rest for _, *rest in fields]
        if phrases is not None:
            phrases = [[phrase for phrase in each if phrase.strip()] for each in phrases]
        yield list(lines_of([source for source, *_ in fields], begun, phrases, known))
    for path, lines in files.items():
        if next(lines, None) is not None:
            raise UserError(f"{path}: more lines than the source; give one for every line, blank for none")


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
    from seq2seq_attn.files.reading import line_batches, open_file

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
    """The format of Moses. A blank line has one blank output, so that every line number occurs."""
    for text, score, *_ in translation.candidates or [("", 0.0)]:
        answer(f"{number} ||| {text} ||| {score:.6f}")
