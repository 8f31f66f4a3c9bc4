"""Pretrained word vectors, and the initial weight of an embedding from them."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from seq2seq_attn.corpora.vocabulary import SPECIALS, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import open_text

_SAFE = "2.10"  # before, `torch.load` with weights_only=True could be made to corrupt memory (CVE-2026-24747)
_HEADER = re.compile(rb"\d+ (\d+)\s*")  # of word2vec and fastText: number of vectors and their size


class HasVectors(Protocol):
    """`WordVectors`, `torchtext.vocab.Vectors` (GloVe, FastText, ...), or a `Vocab` that was built with vectors."""

    @property
    def stoi(self) -> dict[str, int]: ...  # token to row

    @property
    def vectors(self) -> Tensor: ...  # (N, D)


class WordVectors(NamedTuple):
    """Vectors read from a file."""

    stoi: dict[str, int]
    vectors: Tensor  # (N, D)


class Coverage(NamedTuple):
    """How many of a vocabulary's ordinary tokens have a vector."""

    found: int
    tokens: int


class PretrainedEmbedding(NamedTuple):
    """Weight of an embedding layer, and how many of its rows are pretrained."""

    matrix: Tensor  # (V, D)
    coverage: Coverage


def pretrained_embedding(vectors: HasVectors, vocabulary: Vocabulary, default: Tensor) -> PretrainedEmbedding:
    """The weight (V, D) for a vocabulary: a token's vector if `vectors` has one, otherwise its row of `default`.

    `default` (V, D) is the layer's own initial weight; it is not modified. Special tokens keep their rows of it.
    Raises UserError if the sizes do not match.
    """
    size, wanted = vectors.vectors.shape[1], (len(vocabulary), vectors.vectors.shape[1])
    if default.shape != wanted:
        raise UserError(
            f"{len(vocabulary)} tokens and vectors of size {size} need an embedding of {wanted}, "
            f"not {tuple(default.shape)}; set model.embedding_size={size}"
        )
    matrix = default.clone()
    tokens = vocabulary.get_itos()[len(SPECIALS) :]
    found = [token for token in tokens if token in vectors.stoi]
    rows = [vectors.stoi[token] for token in found]
    matrix[vocabulary.lookup_indices(found)] = vectors.vectors[rows].to(default)
    return PretrainedEmbedding(matrix, Coverage(len(found), len(tokens)))


def read_vectors(path: Path, vocabulary: Vocabulary, size: int) -> WordVectors:
    """The vectors that a file has for tokens of a vocabulary; `size` is the embedding size.

    The file is text, even compressed, with a token and its vector per line (GloVe, fastText, word2vec) and optionally
    their number and size in the first line; only the vocabulary's vectors are kept in memory. A file whose name ends in
    `.pt` is the cache of torchtext's `Vectors` (0.6.0), which is loaded without unpickling objects. Raises UserError
    for a missing or corrupt file, with the line, and for vectors of another size.
    """
    return _read_cache(path, size) if path.suffix == ".pt" else _read_text(path, vocabulary, size)


def _read_text(path: Path, vocabulary: Vocabulary, size: int) -> WordVectors:
    # Tokens are compared as bytes: crawled text has tokens that are not UTF-8, which are simply not in the vocabulary.
    wanted = {token.encode(): token for token in vocabulary.get_itos()[len(SPECIALS) :]}
    stoi: dict[str, int] = {}
    rows: list[Tensor] = []
    number = 0
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            token, _, numbers = line.rstrip().partition(b" ")
            if number == 1:
                header = _HEADER.fullmatch(line)
                _refuse_other_size(path, int(header[1]) if header else len(_row(path, 1, numbers)), size)
                if header:
                    continue
            count = numbers.count(b" ") + 1
            if count != size:
                if _is_of_several_words(numbers.split(b" ")[: max(count - size, 0)]):
                    continue
                _refuse_line(path, number, f"{len(numbers.split())} numbers after the token, {size} in the first")
            if token in wanted:
                stoi[wanted[token]] = len(rows)
                rows.append(_row(path, number, numbers))
    if number == 0:
        raise UserError(f"{path}: the file is empty")
    return WordVectors(stoi, torch.stack(rows) if rows else torch.empty(0, size))


def _is_of_several_words(further: Sequence[bytes]) -> bool:
    """Whether a token goes on with these words, as some of GloVe's do; no vocabulary has it."""
    return bool(further) and all(further) and not any(map(_is_number, further))


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _row(path: Path, number: int, numbers: bytes) -> Tensor:
    try:
        row = [float(text) for text in numbers.split()]
    except ValueError:
        row = []
    if not row or not all(map(math.isfinite, row)):
        _refuse_line(path, number, f"{numbers[:20]!r} after the token are not finite numbers")
    return torch.tensor(row)


def _refuse_line(path: Path, number: int, reason: str) -> NoReturn:
    raise UserError(
        f"{path}, line {number}: not a token and its vector, with a space between any two: {reason}; "
        f"give vectors as text, or download the file again"
    )


def _refuse_other_size(path: Path, found: int, size: int) -> None:
    if found != size:
        raise UserError(f"{path}: vectors of size {found}, but model.embedding_size={size}; set it to {found}")


def _read_cache(path: Path, size: int) -> WordVectors:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    remedy = "give the text file that it was made from"
    if TorchVersion(torch.__version__) < _SAFE:
        raise UserError(f"{path}: is read from torch {_SAFE} on, and this is {torch.__version__}; {remedy}")
    try:
        with zipfile.ZipFile(path) as archive:
            if (damaged := archive.testzip()) is not None:  # `torch.load` does not look at the checksums
                raise ValueError(f"{damaged} is damaged")
        _, stoi, vectors, dim = torch.load(path, map_location="cpu", weights_only=True)
        cached = WordVectors(dict(stoi), vectors.view(-1, dim))
    except Exception as error:  # the type depends on what is in the file
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: not a cache of the Vectors of torchtext 0.6.0 ({reason}); {remedy}") from None
    _refuse_other_size(path, dim, size)
    return cached
