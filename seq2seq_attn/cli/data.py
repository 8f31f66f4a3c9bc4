"""`data`: corpora by name, their statistics, and splits into training, validation and test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2seq_attn.cli.arguments import AsJson, argument, complete_corpora, examples, file, folder
from seq2seq_attn.cli.console import answer, answer_entries, answer_json, progress, say
from seq2seq_attn.errors import UserError

if TYPE_CHECKING:
    from seq2seq_attn.text.corpus import CorpusStatistics, Languages, ParallelCorpus

app = typer.Typer()

CorpusName = Annotated[str, argument("NAME", "A corpus listed by `data list`.", complete_corpora)]
Corpus = Annotated[
    str | None,
    argument(
        "CORPUS",
        "A corpus listed by `data list`, a folder with parallel files, or one file with a tab between a sentence and "
        "its translation.",
        complete_corpora,
    ),
]
SourceSide = Annotated[Path | None, file("Source sentences, one per line, instead of CORPUS; plain or .gz.")]
TargetSide = Annotated[Path | None, file("The translations of --source, line by line; plain or .gz.")]
Columns = Annotated[
    tuple[int, int], typer.Option(metavar="SOURCE TARGET", help="Columns of a tab-separated file, counted from 0.")
]


@app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """List, download, generate, split and measure corpora."""
    if context.invoked_subcommand is None:
        answer(context.get_help())


@app.command("list", epilog=examples("seq2seq-attn data list", "seq2seq-attn data list --json"))
def list_corpora(as_json: AsJson = False) -> None:
    """List the corpora that the package can download or generate."""
    from dataclasses import asdict

    from seq2seq_attn.text.download import known_corpora

    if as_json:
        answer_json([asdict(corpus) | {"is_generated": corpus.is_generated} for corpus in known_corpora().values()])
        return
    answer_entries(
        {
            name: [
                corpus.description,
                f"size: {corpus.size}",
                f"licence: {corpus.licence}",
                f"seq2seq-attn data {'make' if corpus.is_generated else 'get'} {name}",
            ]
            for name, corpus in known_corpora().items()
        }
    )


@app.command(
    epilog=examples(
        "seq2seq-attn data get multi30k-en-de",
        "seq2seq-attn data get bible --from ../shared/data --output data/bible",
    )
)
def get(
    name: CorpusName,
    output: Annotated[Path | None, folder("The folder to write into; default: data/downloaded/NAME.")] = None,
    from_folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Copy the files from this folder instead of downloading them."),
    ] = None,
) -> None:
    """Download a corpus, and print its folder.

    The sha256 of each file is checked; files that are present and correct are not downloaded again.
    """
    from seq2seq_attn.text.download import download_corpus

    with progress(f"{name}, bytes") as advance:
        received: dict[str, int] = {}

        def count(address: str, done: int, total: int | None) -> None:
            advance(done - received.get(address, 0))
            received[address] = done

        place = download_corpus(name, output, from_folder, count)
    answer(str(place))


@app.command(
    epilog=examples("seq2seq-attn data make tom-and-jerry", "seq2seq-attn data make reverse --output toy --seed 7")
)
def make(
    name: CorpusName,
    output: Annotated[Path | None, folder("The folder to write into; default: data/NAME.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; default: the seed of the committed corpus.")] = None,
) -> None:
    """Generate a corpus with known word alignments, and print its folder.

    Existing files are never overwritten.
    """
    from seq2seq_attn.text.download import find_corpus
    from seq2seq_attn.text.synthetic import SEED, make_corpus

    if not find_corpus(name).is_generated:
        raise UserError(f"{name} is downloaded, not generated; run: seq2seq-attn data get {name}")
    answer(str(make_corpus(name, output or Path("data") / name, SEED if seed is None else seed)))


@app.command(
    epilog=examples(
        "seq2seq-attn data split pairs.tsv --source-language en --target-language fr --output data/mine > mine.yaml",
        "seq2seq-attn data split --source all.en --target all.de --output data/mine --test 500",
        "seq2seq-attn data split bible --output data/bible",
    )
)
def split(
    corpus: Corpus = None,
    source: SourceSide = None,
    target: TargetSide = None,
    output: Annotated[Path, folder("The folder to write into.")] = Path("."),
    validation: Annotated[int, typer.Option(min=1, help="Distinct source sentences in the validation set.")] = 1000,
    test: Annotated[int, typer.Option(min=1, help="Distinct source sentences in the test set.")] = 1000,
    source_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Language code such as en; default: from the file names.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Language code such as de; default: from the file names.")
    ] = None,
    columns: Columns = (0, 1),
    seed: Annotated[int, typer.Option(help="Random seed of the split.")] = 1,
) -> None:
    """Split a corpus into training, validation and test sets.

    All translations of a source sentence go to the same set; pairs with a blank side are dropped. Writes train.en,
    train.de, dev.en, dev.de, test.en and test.de, with the codes of the two languages as suffixes, and prints the part
    of a configuration that names them. Existing files are never overwritten.
    """
    import yaml

    from seq2seq_attn.text.corpus import split_by_source

    files = _files(corpus, source, target)
    if not files:
        raise UserError(f"{corpus} is generated in three parts, so there is nothing to split: data make {corpus}")
    if len(files) > 1:
        raise UserError(f"{corpus} contains {', '.join(files)}; name the file or files of one of them")
    (chosen,) = files.values()
    languages = _languages(chosen, columns, source_language, target_language)
    pairs = _read(chosen, columns)
    filled = [row for row, pair in enumerate(zip(pairs.source, pairs.target, strict=True)) if all(map(str.strip, pair))]
    parts = split_by_source(pairs.select(filled), validation=validation, test=test, seed=seed)
    written = parts.save(output, languages)
    for part, its_pairs in parts._asdict().items():
        say(f"{part}: {len(its_pairs):,} pairs")
    values = {
        "data": {part: {"source": str(left), "target": str(right)} for part, (left, right) in written.items()},
        "text": dict(zip(("source_language", "target_language"), languages, strict=True)),
    }
    # With None, each innermost mapping is on one line, as in the README.
    answer(yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=1000, allow_unicode=True).rstrip())


@app.command(
    epilog=examples(
        "seq2seq-attn data stats tom-and-jerry",
        "seq2seq-attn data stats --source train.en.gz --target train.de.gz --json",
        "seq2seq-attn data stats data/mine",
        "seq2seq-attn data stats train.tsv",
    )
)
def stats(
    corpus: Corpus = None,
    source: SourceSide = None,
    target: TargetSide = None,
    columns: Columns = (0, 1),
    as_json: AsJson = False,
) -> None:
    """Count the pairs and words of a corpus.

    Words are separated by blanks. Prints the number of words, of distinct words, and of words per line.
    """
    from dataclasses import asdict

    from seq2seq_attn.text.corpus import corpus_statistics, languages_of

    files = _files(corpus, source, target)
    corpora = {part: _read(paths, columns) for part, paths in files.items()} or _generated(corpus or "")
    counts = {part: corpus_statistics(pairs) for part, pairs in corpora.items()}
    if as_json:
        answer_json({part: {"name": corpora[part].name} | asdict(counted) for part, counted in counts.items()})
        return
    sides = {part: languages_of(files.get(part, ()), columns) or ("source", "target") for part in corpora}
    answer_entries({part: _lines(counted, sides[part]) for part, counted in counts.items()})


def _lines(counted: CorpusStatistics, sides: tuple[str, str]) -> list[str]:
    return [f"{counted.pairs:,} pairs"] + [
        f"{side}: {words.tokens:,} words ({words.types:,} distinct), "
        f"{words.mean_length:.1f} per line (median {words.median_length:g}, maximum {words.max_length})"
        for side, words in zip(sides, (counted.source, counted.target), strict=True)
    ]


def _files(corpus: str | None, source: Path | None, target: Path | None) -> Mapping[str, Sequence[Path]]:
    """The files that a command line names, by part: two, or one with tabs. Empty for a corpus to be generated.

    UserError: no corpus is named, more than one is, or a file does not exist.
    """
    if corpus is None and source is not None and target is not None:
        return {"corpus": (source, target)}
    if corpus is None or source is not None or target is not None:
        raise UserError("give either CORPUS, or --source FILE and --target FILE")
    from seq2seq_attn.text.corpus import find_pairs
    from seq2seq_attn.text.download import find_corpus

    path = Path(corpus)
    if path.is_file():
        return {"corpus": (path,)}
    if path.is_dir():
        return find_pairs(path)
    if path.name != corpus or path.suffix:
        raise UserError(f"{corpus}: no such file or folder")
    known = find_corpus(corpus)
    place = Path("data" if known.is_generated else "data/downloaded") / corpus
    if place.is_dir():
        return known.find_pairs(place)
    if known.is_generated:
        return {}
    raise UserError(f"{place}: no such folder; run: seq2seq-attn data get {corpus}")


def _read(files: Sequence[Path], columns: tuple[int, int]) -> ParallelCorpus:
    from seq2seq_attn.text.corpus import read_parallel, read_tsv
    from seq2seq_attn.text.files import open_bytes

    if len(files) == 2:
        return read_parallel(*files)
    (path,) = files
    with open_bytes(path) as stream:
        first = stream.readline()
    if first and b"\t" not in first:
        raise UserError(f"{path}, line 1: no tab; if it is one side of a corpus, use --source {path} --target FILE")
    return read_tsv(path, columns)


def _generated(name: str) -> dict[str, ParallelCorpus]:
    """The parts of a corpus that the package generates, without writing them."""
    from seq2seq_attn.text.corpus import ParallelCorpus
    from seq2seq_attn.text.synthetic import generate_corpus

    return {
        part: ParallelCorpus([" ".join(each.source) for each in pairs], [" ".join(each.target) for each in pairs], name)
        for part, pairs in generate_corpus(name)._asdict().items()
    }


def _languages(files: Sequence[Path], columns: tuple[int, int], source: str | None, target: str | None) -> Languages:
    from seq2seq_attn.text.corpus import languages_of

    found = languages_of(files, columns) or (None, None)
    left, right = source or found[0], target or found[1]
    if left is None or right is None:
        names = " and ".join(map(str, files))
        raise UserError(f"{names}: no language codes in the names; give --source-language and --target-language")
    if left == right:
        raise UserError(f"both languages are {left}, so both sides would have the same file names; give two codes")
    return left, right
