"""The corpora that the package knows (`corpora.yaml`): downloaded from their addresses, or copied from a folder."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml

from seq2seq_attn.corpora.corpus import find_pairs
from seq2seq_attn.errors import UserError, nearest
from seq2seq_attn.files.contents import SUFFIXES
from seq2seq_attn.files.reading import decompressed, digest, read_bytes
from seq2seq_attn.files.writing import write_bytes

DownloadProgress = Callable[[str, int, int | None], None]  # address, bytes so far, total bytes if the server says

_TIMEOUT = 30  # seconds without an answer
_CHUNK = 1 << 16  # bytes
PACKED = (".gz", ".tgz")  # how the names of files end that are stored compressed


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus.

    `sha256` is the digest of the decompressed text, because the same file is plain at one address and gzip at another.
    `name` determines how it is stored locally (compressed, if it ends in one of `PACKED`). Without a `url`, no public
    address has exactly this text.
    """

    name: str
    sha256: str
    url: str | None = None
    member: str | None = None  # path within the archive if the url is a zip archive


@dataclass(frozen=True)
class KnownCorpus:
    """An entry of `corpora.yaml`: downloaded if it lists files, otherwise contained in this package."""

    name: str
    description: str
    size: str
    license: str
    page: str
    citation: str
    note: str = ""  # what to know before downloading it
    pairs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # files by part, unless their names tell
    files: tuple[CorpusFile, ...] = field(default=())

    @property
    def is_embedded(self) -> bool:
        """True if the package contains it, False if it is downloaded."""
        return not self.files

    def find_pairs(self, folder: Path) -> dict[str, tuple[Path, ...]]:
        """Its parallel files in the folder that holds it. Errors as for `corpus.find_pairs`."""
        if self.pairs and folder.is_dir():
            return {part: tuple(folder / name for name in names) for part, names in self.pairs.items()}
        return find_pairs(folder, [file.name for file in self.files])


@cache
def known_corpora() -> dict[str, KnownCorpus]:
    """All corpora by name, in the order of the file."""
    entries = yaml.safe_load(files(__package__).joinpath("corpora.yaml").read_text(encoding="utf-8"))
    return {
        name: KnownCorpus(name, **{**entry, "files": tuple(CorpusFile(**file) for file in entry.get("files", ()))})
        for name, entry in entries.items()
    }


def find_corpus(name: str) -> KnownCorpus:
    """The corpus of this name. Raises UserError with the most similar name if there is none."""
    try:
        return known_corpora()[name]
    except KeyError:
        near = nearest(name, known_corpora())
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known_corpora())}"
        raise UserError(f"there is no corpus {name!r}; {hint}") from None


def download_files(
    corpus: KnownCorpus, folder: Path, from_folder: Path | None = None, progress: DownloadProgress | None = None
) -> Path:
    """Download the files of a corpus into `folder` and return it.

    Files that are present and correct are left alone, and no other file is overwritten. With `from_folder`, files are
    copied instead, from this folder or from its subfolder of the corpus's name. The sha256 of every file is checked
    before it is written, and no file is ever written partially. Raises UserError with the file, its address and the
    remedy.
    """
    if from_folder is not None and not from_folder.is_dir():
        raise UserError(f"{from_folder}: no such folder; --from-folder takes one that contains {corpus.files[0].name}")

    @cache  # an archive may contain several of the files
    def content_of(url: str) -> bytes:
        return _download(url, progress or (lambda url, done, total: None))

    missing = [file for file in corpus.files if not _is_complete(folder / file.name, file.sha256)]
    for file in missing:
        if (folder / file.name).exists():
            raise UserError(
                f"{folder / file.name}: exists, and is not the file of the corpus {corpus.name} (its sha256 differs); "
                f"nothing is overwritten: delete it, or choose another folder with --output"
            )

    # Files without an address come last, so that they do not prevent the download of the others.
    for file in sorted(missing, key=lambda file: file.url is None):
        place = folder / file.name
        if from_folder is not None:
            content = _from_folder(corpus, file, from_folder)
        else:
            content = _from_address(corpus, file, content_of)
        write_bytes(place, gzip.compress(content, mtime=0) if file.name.endswith(PACKED) else content)
    return folder


def _from_folder(corpus: KnownCorpus, file: CorpusFile, folder: Path) -> bytes:
    """The decompressed file, from `folder/FILE` or `folder/CORPUS/FILE`, which may be compressed whatever its name."""
    plain = file.name.removesuffix(".gz")
    names = dict.fromkeys([file.name, plain, *(plain + suffix for suffix in SUFFIXES)])
    places = [place / name for place in (folder, folder / corpus.name) for name in names]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        raise UserError(f"{folder}: neither {file.name} nor {corpus.name}/{file.name} is in this folder")
    content = read_bytes(place)
    if _sha256(content) != file.sha256:
        raise UserError(f"{place}: not the file of the corpus {corpus.name} (its sha256 differs); it was not copied")
    return content


def _from_address(corpus: KnownCorpus, file: CorpusFile, content_of: Callable[[str], bytes]) -> bytes:
    """The decompressed file from its public address, extracted from an archive if need be."""
    way_out = f"get the file elsewhere and run: seq2seq-attn data get {corpus.name} --from-folder DIR"
    if file.url is None:
        raise UserError(f"{file.name} has no public address ({corpus.note}); {way_out}")
    try:
        content = content_of(file.url)
        if file.member is not None:
            content = zipfile.ZipFile(io.BytesIO(content)).read(file.member)
    except (OSError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
        raise UserError(f"{file.name} cannot be downloaded from {file.url} ({error}); {way_out}") from None
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{file.name} is not in the archive {file.url} ({error}); {way_out}") from None
    content = decompressed(content, file.url)
    if _sha256(content) != file.sha256:
        raise UserError(f"{file.name}: the file at {file.url} is another one (its sha256 differs); {way_out}")
    return content


def _download(url: str, progress: DownloadProgress) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "seq2seq-attn"})
    received = bytearray()
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        total = int(response.headers["Content-Length"]) if "Content-Length" in response.headers else None
        while chunk := response.read(_CHUNK):
            received += chunk
            progress(url, len(received), total)
    return bytes(received)


def _is_complete(place: Path, sha256: str) -> bool:
    try:
        return digest(place) == sha256
    except UserError:
        return False


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
