"""`data`: corpora by name, their statistics, and splits into training, validation and test sets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import AsJson, argument, complete_corpora, file, folder
from seq2seq_attn.cli.command import App
from seq2seq_attn.cli.console import answer, progress, say
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import FilterOptions, SplitOptions, takes

if TYPE_CHECKING:
    from seq2seq_attn.api.data import Corpus, PartStatistics

app = App()

KnownName = Annotated[
    str,
    argument("NAME", "A corpus listed by `data list`, sacrebleu:SET:PAIR, or mtdata:ID.", complete_corpora),
]
CorpusName = Annotated[
    str | None,
    argument(
        "CORPUS",
        "A corpus listed by `data list`, a folder with parallel files, or one file with a tab between a source and "
        "its target.",
        complete_corpora,
    ),
]
SourceSide = Annotated[Path | None, file("Sources, one per line, instead of CORPUS; plain or compressed.")]
TargetSide = Annotated[Path | None, file("The targets of --source, line by line; plain or compressed.")]
Columns = Annotated[
    tuple[int, int], typer.Option(metavar="SOURCE TARGET", help="Columns of a tab-separated file, counted from 0.")
]


@app.callback()
def data(context: typer.Context) -> None:
    """List, copy, download, filter, split and measure corpora."""
    if context.invoked_subcommand is None:
        answer(context.get_help())


@app.command("list")
def list_corpora(as_json: AsJson = False) -> None:
    """List the corpora that the package contains or can download.

    Examples:
        seq2seq-attn data list
        seq2seq-attn data list --json
    """
    found = s2s.data.corpora()
    answer([asdict(corpus) | {"is_embedded": corpus.is_embedded} for corpus in found] if as_json else found)


@app.command()
def get(
    name: KnownName,
    output: Annotated[
        Path | None, folder("The folder to write into; default: data/NAME, or data/downloaded/NAME.")
    ] = None,
    from_folder: Annotated[
        Path | None,
        folder(
            "Copy the files from this folder instead of downloading them; of sacrebleu and mtdata, a copy of "
            "~/.sacrebleu or ~/.mtdata."
        ),
    ] = None,
) -> None:
    """Copy a corpus of the package into a folder, or download one, and print the folder.

    The sha256 of each download is checked; files that are present and correct are not downloaded again, and no other
    file is overwritten.

    Test sets are those of sacrebleu as well, by their names and pairs, and training corpora those of mtdata, if this
    program is on the PATH.

    Examples:
        seq2seq-attn data get tom-and-jerry
        seq2seq-attn data get multi30k-en-de
        seq2seq-attn data get sacrebleu:wmt20:en-de
        seq2seq-attn data get mtdata:Statmt-news_commentary-16-deu-eng
        seq2seq-attn data get bible --from-folder downloads --output data/bible
    """
    with progress(f"{name}, bytes") as advance:
        received: dict[str, int] = {}

        def count(address: str, done: int, total: int | None) -> None:
            advance(done - received.get(address, 0))
            received[address] = done

        place = s2s.data.get(name, output, from_folder=from_folder, progress=count)
    answer(place)


@app.command()
@takes(SplitOptions)
def split(
    corpus: CorpusName = None,
    source: SourceSide = None,
    target: TargetSide = None,
    output: Annotated[Path, folder("The folder to write into.")] = Path("."),
    **options: Any,
) -> None:
    """Split a corpus into training, validation and test sets.

    All targets of a source go to the same set; pairs with a blank side are dropped. Writes train.en,
    train.de, dev.en, dev.de, test.en and test.de, with the codes of the two languages as suffixes, and prints the part
    of a configuration that names them. Existing files are never overwritten.

    Examples:
        seq2seq-attn data split pairs.tsv --source-language en --target-language fr --output data/mine > mine.yaml
        seq2seq-attn data split --source all.en --target all.de --output data/mine --test 500
        seq2seq-attn data split bible --output data/bible
    """
    found = s2s.data.split(_named(corpus, source, target), output, **options)
    for part, pairs in found.sizes.items():
        say(f"{part}: {pairs:,} pairs")
    answer(found.yaml)


@app.command()
@takes(FilterOptions)
def prepare(
    corpus: CorpusName = None,
    source: SourceSide = None,
    target: TargetSide = None,
    output: Annotated[Path | None, folder("The folder to write into; without it, pairs are only counted.")] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Print the counts, not the part of a configuration.")
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Drop pairs of a corpus that are not worth training on, and count them by reason.

    Pairs with a blank side are dropped always, and for each option those that it names; a pair counts for the first
    reason that it has. Writes train.en and train.de, with the codes of the two languages as suffixes, and prints the
    part of a configuration that names them, or with --report the counts. A corpus may be larger than memory: it is read
    twice, and takes a byte per pair. Existing files are never overwritten.

    Examples:
        seq2seq-attn data prepare train.tsv --max-ratio 3 --drop-copied --drop-duplicates pairs --report
        seq2seq-attn data prepare --source train.en.gz --target train.de.gz --drop-duplicates pairs --output data/kept
        seq2seq-attn data prepare tom-and-jerry --min-language 0.5 --report --json
    """
    if output is None and not report:
        raise UserError("give --output DIR for the pairs that are kept, or --report to count them only")
    with progress("pairs") as advance:
        found = s2s.data.prepare(_named(corpus, source, target), output, progress=advance, **options)
    if report:
        counts = found.report._asdict() | {"files": list(map(str, found.files))}
        answer(counts if as_json else found.report)
    else:
        say(str(found.report))
        answer(found.config if as_json else found.yaml)


@app.command()
def stats(
    corpus: CorpusName = None,
    source: SourceSide = None,
    target: TargetSide = None,
    columns: Columns = (0, 1),
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A run folder, or demo: count the words that its model does not know."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the pairs and words of a corpus.

    Words are separated by blanks. Prints the number of words, of distinct words, of words per line, and, for each part
    but `train`, of words that `train` does not have or, with --run, that the model of a run does not know.

    Examples:
        seq2seq-attn data stats tom-and-jerry
        seq2seq-attn data stats --source train.en.gz --target train.de.gz --json
        seq2seq-attn data stats data/mine
        seq2seq-attn data stats train.tsv
        seq2seq-attn data stats tom-and-jerry --run demo
    """
    found = s2s.data.stats(_named(corpus, source, target), columns=columns, run=run)
    answer({each.part: _record(each) for each in found} if as_json else found)


def _record(part: PartStatistics) -> dict[str, Any]:
    record = {"name": part.name} | vars(part.counts)
    return record if part.unknown is None else record | {"unknown": part.unknown}


def _named(corpus: str | None, source: Path | None, target: Path | None) -> Corpus:
    """The corpus that a command line names, in one of two ways."""
    if corpus is None and source is not None and target is not None:
        return source, target
    if corpus is None or source is not None or target is not None:
        raise UserError("give either CORPUS, or --source FILE and --target FILE")
    return corpus
