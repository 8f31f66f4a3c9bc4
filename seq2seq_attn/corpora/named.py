"""Corpora by the names that the field gave them: test sets of sacrebleu, training corpora of the program mtdata.

Both download to a folder of their own, `$SACREBLEU` (`~/.sacrebleu`) and `$MTDATA` (`~/.mtdata`). Where there is no
network, such a folder from another machine serves as well.
"""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from seq2seq_attn.corpora.corpus import find_pairs
from seq2seq_attn.errors import FailedError, UserError, nearest
from seq2seq_attn.files.reading import read_bytes
from seq2seq_attn.files.writing import explained, unfinished_in, write_new

SACREBLEU, MTDATA = "sacrebleu:", "mtdata:"  # what the names begin with; after it, SET:PAIR and ID


def is_named(name: str) -> bool:
    """Whether sacrebleu or mtdata, not `corpora.yaml`, knows the corpus of this name."""
    return name.startswith((SACREBLEU, MTDATA))


def folder_of(name: str) -> str:
    """The name of the folder for such a corpus, as in `wmt20-en-de`."""
    return name.partition(":")[2].replace(":", "-").replace("/", "_")


def get_named(name: str, folder: Path, cache: Path | None = None) -> Path:
    """Writes the corpus of such a name into a folder, as `test.en` and `test.de`, or `train.deu` and `train.eng`.

    Args:
        name: `sacrebleu:SET:PAIR`, as in `sacrebleu:wmt20:en-de`, or `mtdata:ID`, with an ID of `mtdata list`.
        folder: The folder. One that holds the corpus is left alone.
        cache: Where sacrebleu or mtdata look for what is downloaded, in place of their own folder.

    Returns:
        The folder.

    Raises:
        UserError: There is no such corpus, it cannot be downloaded, or a file exists with another content.
    """
    if cache is not None and not cache.is_dir():
        raise UserError(f"{cache}: no such folder; give a copy of ~/.sacrebleu or ~/.mtdata that has the corpus")
    kind, _, rest = name.partition(":")
    if f"{kind}:" == MTDATA:
        return _from_mtdata(rest, folder, cache)
    test_set, _, pair = rest.rpartition(":")
    source, references = sacrebleu_files(test_set, pair, cache)
    left, right = pair.split("-", 1)
    names = [f"test.{left}", f"test.{right}"]
    names += [f"test.reference-{number}.{right}" for number in range(2, len(references) + 1)]
    paths = [source, *references]
    write_new({folder / each: read_bytes(path) for each, path in zip(names, paths, strict=True)})
    return folder


def sacrebleu_files(test_set: str, pair: str, cache: Path | None = None) -> tuple[Path, list[Path]]:
    """The source and the references of a test set of sacrebleu, downloaded by it unless they are in its folder.

    Args:
        test_set: As in `sacrebleu --list`: `wmt20`.
        pair: As in `en-de`.
        cache: In place of `$SACREBLEU`.

    Raises:
        UserError: There is no such test set or pair, or it cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS

    if test_set not in DATASETS:
        near = nearest(test_set, DATASETS)
        hint = f"did you mean {near}? " if near else ""
        raise UserError(f"sacrebleu: no test set {test_set!r}; {hint}sacrebleu --list shows all")
    dataset: Any = copy.copy(DATASETS[test_set])
    if pair not in dataset.langpairs:
        pairs = ", ".join(sorted(dataset.langpairs))
        raise UserError(f"sacrebleu: the test set {test_set} has no pair {pair!r}; it has {pairs}")
    # The library reads the variable when it is imported, and knows no other folder.
    place = cache or Path(os.environ.get("SACREBLEU") or Path.home() / ".sacrebleu")
    dataset._outdir = str(place / test_set)
    dataset._rawdir = str(place / test_set / "raw")
    try:
        return Path(dataset.get_source_file(pair)), [Path(each) for each in dataset.get_reference_files(pair)]
    except (Exception, SystemExit) as error:  # of its network, archives and markup; it exits for a wrong checksum
        raise UserError(
            f"sacrebleu: {test_set} {pair} is not in {place} and cannot be downloaded ({error}); copy {test_set}/ from "
            f"~/.sacrebleu of a machine with a network, or run: seq2seq-attn data get "
            f"{SACREBLEU}{test_set}:{pair} --from-folder DIR"
        ) from None


def _from_mtdata(identity: str, folder: Path, cache: Path | None) -> Path:
    """`mtdata get` for one training corpus, in a process of its own: its constraints on packages are not ours."""
    languages = identity.split("-")[-2:]
    if identity.count("-") < 3:
        raise UserError(
            f"{MTDATA}{identity}: an ID of mtdata is GROUP-NAME-VERSION-LANGUAGE-LANGUAGE, as mtdata list shows them"
        )
    if folder.exists():
        if "train" not in find_pairs(folder):
            raise UserError(f"{folder}: exists without the files of {identity}; choose another folder with --output")
        return folder
    program = shutil.which("mtdata")
    if program is None:
        raise UserError(
            f"{MTDATA}{identity} needs the program mtdata on the PATH; install it beside this package, as with: "
            "pipx install mtdata"
        )
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with unfinished_in(folder.parent, is_folder=True) as unfinished:
            command = [program, "get", "--langs", "-".join(languages), "--train", identity, "--merge"]
            ended = subprocess.run(
                [*command, "--out", str(unfinished)],
                env=os.environ | ({} if cache is None else {"MTDATA": str(cache)}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                check=False,
            )
            if ended.returncode or "train" not in find_pairs(unfinished):
                last = (ended.stderr.strip().splitlines() or ["it wrote no train files"])[-1]
                raise FailedError(
                    f"{' '.join(command)}: exit code {ended.returncode}: {last}; without a network, copy ~/.mtdata "
                    f"from a machine that has one and add: --from-folder DIR"
                )
            shutil.rmtree(unfinished / "train-parts", ignore_errors=True)  # the same pairs again
            unfinished.rename(folder)
    return folder
