"""The parallel corpora in a folder, found by the names of their files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.corpus import ParallelCorpus, read_parallel, read_tsv

_NO_SIDE = ("align",)  # beside the two sides of a part stand its word alignments


def read_folder(folder: Path, names: Iterable[str] = ()) -> dict[str, ParallelCorpus]:
    """Parts by name: two files that differ in the last suffix alone (`train.en.gz`, `train.de.gz`), or one .tsv.

    `names` are the files to look at, source before target; without them all, in alphabetical order. UserError: no
    such folder, no such files in it, or the errors of `read_parallel` and `read_tsv`.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    found: dict[str, list[Path]] = {}
    for name in names or sorted(path.name for path in folder.iterdir()):
        part, _, side = name.removesuffix(".gz").rpartition(".")
        if side not in _NO_SIDE and (folder / name).is_file():
            found.setdefault(part, []).append(folder / name)
    corpora = {}
    for part, paths in found.items():
        if len(paths) == 2:
            corpora[part] = read_parallel(*paths)
        elif paths[0].name.removesuffix(".gz").endswith(".tsv"):
            corpora[part] = read_tsv(paths[0])
    if not corpora:
        raise UserError(f"{folder}: no two files here differ in their last suffix alone, and none is a .tsv")
    return corpora
