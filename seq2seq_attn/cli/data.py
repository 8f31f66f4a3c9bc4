"""`data`: corpora by name, and statistics of corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2seq_attn.cli.arguments import AsJson, argument, examples, folder
from seq2seq_attn.cli.console import answer, answer_entries, answer_json, progress

if TYPE_CHECKING:
    from seq2seq_attn.text.corpus import CorpusStatistics, ParallelCorpus

app = typer.Typer()

CorpusName = Annotated[str, argument("NAME", "A corpus listed by `data list`.")]
DataFolder = Annotated[Path | None, folder("The folder to write into.")]


@app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """List, fetch, make, split and count corpora."""
    if context.invoked_subcommand is None:
        answer(context.get_help())


@app.command("list", epilog=examples("seq2seq-attn data list"))
def list_corpora(as_json: AsJson = False) -> None:
    """List the corpora that the package can fetch or make."""
    from dataclasses import asdict

    from seq2seq_attn.text.download import known_corpora

    if as_json:
        answer_json([asdict(corpus) | {"is_made": corpus.is_made} for corpus in known_corpora().values()])
        return
    answer_entries(
        {
            name: [
                corpus.description,
                f"size: {corpus.size}",
                f"licence: {corpus.licence}",
                f"seq2seq-attn data {'make' if corpus.is_made else 'get'} {name}",
            ]
            for name, corpus in known_corpora().items()
        }
    )


@app.command(
    epilog=examples(
        "seq2seq-attn data get multi30k-en-de",
        "seq2seq-attn data get multi30k-en-de --from ../shared/data",
    )
)
def get(
    name: CorpusName,
    to: DataFolder = None,
    from_folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Take the files from this folder instead of their public addresses.",
        ),
    ] = None,
) -> None:
    """Fetch a corpus.

    The sha256 of each file is checked. Prints the folder; default: data/downloaded/NAME.
    """
    from seq2seq_attn.text.download import download_corpus

    with progress(f"{name}, bytes") as advance:
        received: dict[str, int] = {}

        def count(address: str, done: int, total: int | None) -> None:
            advance(done - received.get(address, 0))
            received[address] = done

        place = download_corpus(name, to, from_folder, count)
    answer(str(place))


@app.command(epilog=examples("seq2seq-attn data make reverse --to /tmp/reverse --seed 7"))
def make(
    name: CorpusName,
    to: DataFolder = None,
    seed: Annotated[int | None, typer.Option(help="Default: the seed of the committed corpus.")] = None,
) -> None:
    """Make a corpus with known word alignments.

    Prints the folder; default: data/NAME. Files with the same names in it are replaced.
    """
    from seq2seq_attn.errors import UserError
    from seq2seq_attn.text.download import find_corpus
    from seq2seq_attn.text.synthetic import SEED, make_corpus

    if not find_corpus(name).is_made:
        raise UserError(f"{name} is fetched, not made: seq2seq-attn data get {name}")
    answer(str(make_corpus(name, to or Path("data") / name, SEED if seed is None else seed)))


@app.command(
    epilog=examples(
        "seq2seq-attn data split bible.en.gz bible.de.gz --to data/downloaded/bible --validation 500 --test 2000"
    )
)
def split(
    source: Annotated[Path, argument("SOURCE", "Source sentences.")],
    target: Annotated[Path, argument("TARGET", "Their translations, line by line.")],
    to: Annotated[Path, folder("The folder to write into; files with the same names in it are replaced.")],
    validation: Annotated[int, typer.Option(help="Distinct source sentences in the validation set.", min=1)],
    test: Annotated[int, typer.Option(help="Distinct source sentences in the test set.", min=1)],
    seed: Annotated[int, typer.Option(help="Random seed of the split.")] = 1,
) -> None:
    """Split a corpus into training, validation and test sets.

    All translations of one source sentence fall into the same set; pairs with a blank side are dropped. Writes
    train.source, train.target and so on, and prints the number of pairs in each set.
    """
    from seq2seq_attn.text.corpus import read_parallel, split_by_source

    corpus = read_parallel(source, target)
    pairs = zip(corpus.source, corpus.target, strict=True)
    filled = [row for row, pair in enumerate(pairs) if all(map(str.strip, pair))]
    parts = split_by_source(corpus.select(filled), validation=validation, test=test, seed=seed)
    parts.save(to)
    answer_entries({part: [f"{len(pairs):,} pairs"] for part, pairs in parts._asdict().items()})


@app.command(
    epilog=examples(
        "seq2seq-attn data stats tom-and-jerry",
        "seq2seq-attn data stats train.en.gz train.de.gz --json",
        "seq2seq-attn data stats train.tsv",
    )
)
def stats(
    source: Annotated[
        str,
        argument("SOURCE|NAME", "Source sentences; without TARGET, a .tsv of both, or the name of a corpus."),
    ],
    target: Annotated[Path | None, argument("TARGET", "Their translations, line by line.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the pairs and words of a corpus.

    Words are separated by blanks. Counts tokens, distinct words, and words per line.
    """
    from dataclasses import asdict

    from seq2seq_attn.text.corpus import corpus_statistics, read_parallel

    corpora = _alone(source) if target is None else {"corpus": read_parallel(source, target)}
    counts = {part: corpus_statistics(corpus) for part, corpus in corpora.items()}
    if as_json:
        answer_json({part: asdict(counted) for part, counted in counts.items()})
        return
    answer_entries({part: _lines(counted) for part, counted in counts.items()})


def _lines(counted: CorpusStatistics) -> list[str]:
    sides = {"source": counted.source, "target": counted.target}
    return [f"{counted.pairs:,} pairs"] + [
        f"{side}: {of.tokens:,} words ({of.types:,} distinct), "
        f"{of.mean_length:.1f} per line (median {of.median_length:g}, at most {of.max_length})"
        for side, of in sides.items()
    ]


def _alone(source: str) -> dict[str, ParallelCorpus]:
    """The corpus or corpora that a single argument names; UserError for a file with one side of a corpus."""
    from seq2seq_attn.errors import UserError
    from seq2seq_attn.text.corpus import read_tsv

    if source.removesuffix(".gz").endswith(".tsv"):
        return {"corpus": read_tsv(source)}
    if Path(source).is_file():
        raise UserError(
            f"{source}: the file of its translations is missing; give both, as in seq2seq-attn data stats {source} "
            f"TARGET, or one .tsv that holds both"
        )
    return _by_name(source)


def _by_name(name: str) -> dict[str, ParallelCorpus]:
    """The parts of a corpus that was fetched or made before."""
    from seq2seq_attn.errors import UserError
    from seq2seq_attn.text.corpus import read_folder
    from seq2seq_attn.text.download import find_corpus

    corpus = find_corpus(name)
    place = Path("data") / name if corpus.is_made else Path("data/downloaded") / name
    if not place.is_dir():
        way = "make" if corpus.is_made else "get"
        raise UserError(f"{place}: no such folder; run: seq2seq-attn data {way} {name}")
    return read_folder(place, [file.name for file in corpus.files])
