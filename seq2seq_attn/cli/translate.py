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
    folder,
    load_ensemble,
    load_model,
    prepare,
)
from seq2seq_attn.cli.console import answer, progress, say
from seq2seq_attn.comparison.launchers import On
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import Resources, SearchOptions, takes

if TYPE_CHECKING:
    from seq2seq_attn.corpora.placeholders import PlaceholderReport
    from seq2seq_attn.corpora.unknown_words import UnknownReport


@takes(SearchOptions, unset=True)
@takes(Resources, unset=True)
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
    output: Annotated[
        Path | None, folder("Write files of 10,240 lines into this folder, and only those that are missing.")
    ] = None,
    on: Annotated[
        On, typer.Option(help="With --output: processes of this machine, a cluster of Ray, or the Slurm of this host.")
    ] = "local",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --output: processes at once; default: one here, on a cluster all there is room for."
        ),
    ] = None,
    as_json: AsJson = False,
    plugin: Plugin = None,
    **options: Any,
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

    With --output, SOURCE may have any length: its lines are translated in shards of 10,240, as many at once as --jobs
    says, in processes of this machine or, with --on, by Ray or Slurm. The files are named by their lines, as
    00000000-00010239.txt, and one after the other they are what one process prints. The same command continues.

    With --split-sentences, a line may have several sentences, each of which is a source; the scores of a line are their
    sums, and with --json, "sentences" has the answer to each.

    Examples:
        seq2seq-attn translate runs/x test.en > test.de
        echo 'Tom chases Jerry.' | seq2seq-attn translate demo
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
        seq2seq-attn translate runs/x test.en --output translated --jobs 2 --beam-size 1
        seq2seq-attn translate runs/x test.en --mbr chrf --candidates 10 --beam-size 10 > test.de
    """
    if tabs is not None and {"prefix": prefix, "constraints": constraints}[tabs] is not None:
        raise UserError(f"--{tabs} and --tabs {tabs} give the same in two ways; give one of them")
    given = {name: value for name, value in options.items() if value is not None}
    far = {name: given.pop(name) for name in Resources.model_fields if name in given}
    asked_of_lines = {"tabs": tabs, "glossary": glossary, "split_sentences": split_sentences, "as_json": as_json}
    if output is not None:
        beside = {"--prefix": prefix, "--constraints": constraints, "--attention": attention}
        if source is None or not source.is_file():
            raise UserError("--output writes the shards of a file, which several processes read; give SOURCE as a file")
        if named := [name for name, value in beside.items() if value is not None]:
            raise UserError(f"{named[0]} is one file beside the source, and --output writes many; see --tabs")
        _write_shards(run, source, output, on, jobs, ensemble, plugin, given, far, asked_of_lines)
        return
    if on != "local" or jobs is not None or far:
        raise UserError("--on, --jobs and what a job gets need --output DIR: each process writes files of its own")

    from seq2seq_attn.analysis.attention_files import attention_file
    from seq2seq_attn.api.shards import asked, count, refuse_tabs, shown, tidied
    from seq2seq_attn.corpora.placeholders import PlaceholderReport
    from seq2seq_attn.corpora.unknown_words import UnknownReport

    total, batches = _batches(source)
    writing = attention_file(attention) if attention else nullcontext()
    model, others = load_model(run, plugin), load_ensemble(ensemble)
    refuse_tabs(model, tabs)
    search = model.search_options(**given)
    unknown = UnknownReport(say, most=None if source is None and sys.stdin.isatty() else 5)
    placed = PlaceholderReport()
    with progress("lines", total) as advance, writing as write:
        found = model.stream(
            asked(tidied(batches), prefix, constraints, tabs, glossary),
            search,
            ensemble=others,
            weights=write is not None,
            split_sentences=split_sentences,
            progress=advance,
            say=say,
        )
        for number, translation in enumerate(found):
            count(translation, unknown, placed)
            for line in shown(number, translation, search, as_json):
                answer(line)
            if write is not None and translation.token_attention is not None:
                write(translation.token_attention)
    _summarize(unknown, placed)


def _write_shards(
    run: Path,
    source: Path,
    output: Path,
    on: On,
    jobs: int | None,
    ensemble: list[Path] | None,
    plugin: list[Path] | None,
    search: dict[str, Any],
    resources: dict[str, Any],
    asked: dict[str, Any],
) -> None:
    """Translates a file into a folder of shards."""
    prepare(plugin)
    from seq2seq_attn.api.shards import FileTask, translate_file
    from seq2seq_attn.comparison.launchers import find_launcher
    from seq2seq_attn.runs.folder import read_config
    from seq2seq_attn.runs.plugin import loaded_plugins
    from seq2seq_attn.strict import parse

    base = read_config(run).search.model_dump()
    task = FileTask(
        run.absolute(),
        source.absolute(),
        output.absolute(),
        parse(SearchOptions, base | search),
        tuple(each.absolute() for each in ensemble or ()),
        **asked,
        plugins=tuple(each.absolute() for each in loaded_plugins()),
        folder=Path.cwd(),
    )
    launcher = find_launcher(on, jobs, output)
    with progress("lines") as advance:
        found = translate_file(
            task,
            launcher,
            jobs=1 if launcher is None else jobs,
            resources=parse(Resources, resources),
            say=say,
            progress=advance,
        )
    _summarize(*found)
    answer(output)


def _summarize(unknown: UnknownReport, placed: PlaceholderReport) -> None:
    unknown.summarize()
    if placed.total or placed.without_source:
        say(str(placed))


def _batches(source: Path | None) -> tuple[int | None, Iterator[list[str]]]:
    """The number of lines, if they can be counted, and the lines that are decoded together.

    A file is read twice, so that its mistakes are reported before anything is decoded. From a pipe, which can be
    read only once, lines are taken as they come.
    """
    from seq2seq_attn.api.model import CHUNK
    from seq2seq_attn.files.reading import decoded_lines, iterate_lines, line_batches, open_file

    def piped(path: Path) -> Iterator[list[str]]:
        with open_file(path) as file:
            yield from line_batches(file, str(path), CHUNK)

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
        return None, piped(source)
    total = sum(1 for _ in iterate_lines(source))
    if not total:
        raise UserError(f"{source}: the file is empty")
    lines = iterate_lines(source)
    return total, iter(lambda: list(islice(lines, CHUNK)), [])


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
