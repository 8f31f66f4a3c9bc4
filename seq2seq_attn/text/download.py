"""Bring a corpus to this machine: from its public address, or from a folder where there is no network."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import urllib.request
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import decompressed, digest, read_bytes, write_bytes
from seq2seq_attn.text.manifest import Corpus, CorpusFile, find

Progress = Callable[[str, int, int | None], None]  # address, bytes so far, bytes in all if the server says

_TIMEOUT = 30  # seconds without an answer
_CHUNK = 1 << 16


def get(name: str, to: Path | None = None, from_folder: Path | None = None, progress: Progress | None = None) -> Path:
    """Fetch corpus `name` into the folder `to` (default `data/downloaded/NAME`) and return that folder.

    Files that are there already and right are left alone. `from_folder` takes them from a folder of that
    corpus, or from one that holds such a folder under the corpus's name. Every file is checked against the
    manifest's sha256 before it is written, whole. Raises UserError naming the file, the address and the way
    out.
    """
    corpus = find(name)
    if corpus.is_made:
        raise UserError(f"{name} is made, not fetched: seq2seq-attn data make {name}")
    return fetch(corpus, to or Path("data/downloaded") / name, from_folder, progress)


def fetch(corpus: Corpus, folder: Path, from_folder: Path | None = None, progress: Progress | None = None) -> Path:
    """As `get`, for a corpus that need not be in the manifest."""
    if from_folder is not None and not from_folder.is_dir():
        raise UserError(f"{from_folder}: no such folder; --from takes one that holds {corpus.files[0].name}")

    @cache  # one archive may hold several files
    def content_of(url: str) -> bytes:
        return _download(url, progress or (lambda url, done, total: None))

    # Files without an address come last, so that one of them does not keep the others away.
    for file in sorted(corpus.files, key=lambda file: file.url is None):
        place = folder / file.name
        if _holds(place, file.sha256):
            continue
        if from_folder is not None:
            content = _from_folder(corpus, file, from_folder)
        else:
            content = _from_address(corpus, file, content_of)
        write_bytes(place, gzip.compress(content, mtime=0) if file.name.endswith(".gz") else content)
    return folder


def _from_folder(corpus: Corpus, file: CorpusFile, folder: Path) -> bytes:
    """The file as text, from `folder/FILE` or `folder/CORPUS/FILE`, gzip or not whatever its name says."""
    places = [
        place / name for place in (folder, folder / corpus.name) for name in (file.name, file.name.removesuffix(".gz"))
    ]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        raise UserError(f"{folder}: neither {file.name} nor {corpus.name}/{file.name} is in this folder")
    content = read_bytes(place)
    if _sha256(content) != file.sha256:
        raise UserError(f"{place}: not the file of the corpus {corpus.name} (its sha256 differs); it was not copied")
    return content


def _from_address(corpus: Corpus, file: CorpusFile, content_of: Callable[[str], bytes]) -> bytes:
    """The file as text, out of whatever packing it has at its public address."""
    way_out = f"get the file elsewhere and run: seq2seq-attn data get {corpus.name} --from DIR"
    if file.url is None:
        raise UserError(f"{file.name} has no public address ({corpus.note}); {way_out}")
    try:
        content = content_of(file.url)
        if file.member is not None:
            content = zipfile.ZipFile(io.BytesIO(content)).read(file.member)
    except (OSError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
        raise UserError(f"{file.name} cannot be fetched from {file.url} ({error}); {way_out}") from None
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{file.name} is not in the archive {file.url} ({error}); {way_out}") from None
    content = decompressed(content, file.url)
    if _sha256(content) != file.sha256:
        raise UserError(f"{file.name}: what {file.url} holds is not the file (its sha256 differs); {way_out}")
    return content


def _download(url: str, progress: Progress) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "seq2seq-attn"})
    received = bytearray()
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        total = int(response.headers["Content-Length"]) if "Content-Length" in response.headers else None
        while chunk := response.read(_CHUNK):
            received += chunk
            progress(url, len(received), total)
    return bytes(received)


def _holds(place: Path, sha256: str) -> bool:
    """True if the file is there, whole and right."""
    try:
        return digest(place) == sha256
    except UserError:
        return False


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
