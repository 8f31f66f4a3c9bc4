"""Attention in a file for other programs: JSON lines or NumPy's .npz, by the file's ending.

Both hold the same, sentence by sentence, and are written as the sentences come; docs/alignment.md shows them. The file
gets its name when all of it is there.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from seq2seq_attn.analysis.token_attention import TokenAttention
from seq2seq_attn.errors import UserError
from seq2seq_attn.text.files import explained, writing

Write = Callable[[TokenAttention], None]

DECIMALS = 6  # of a weight in JSON: a single-precision number near 1 knows no more than 7


def attention_file(path: Path) -> AbstractContextManager[Write]:
    """A block in which to call what it yields with one sentence after the other.

    UserError, before anything is written: an ending that there is not; in the block: the file cannot be written.
    """
    if path.suffix not in _FORMATS:
        raise UserError(f"{path}: attention is written to a file that ends in {' or '.join(_FORMATS)}")
    return _FORMATS[path.suffix](path)


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with writing(path) as file:

        def write(sentence: TokenAttention) -> None:
            line = json.dumps(_plain(sentence), ensure_ascii=False)
            with explained(path):
                file.write(f"{line}\n".encode())

        yield write


def _plain(sentence: TokenAttention) -> dict[str, object]:
    translations = [
        {
            "target": translation.tokens,
            "score": translation.score,
            "weights": translation.weights.astype(np.float64).round(DECIMALS).tolist(),
        }
        for translation in sentence.translations
    ]
    return {"source": sentence.source, "translations": translations}


@contextmanager
def _npz(path: Path) -> Iterator[Write]:
    numbers = count()
    with writing(path) as file:
        archive = zipfile.ZipFile(file, "w")

        def write(sentence: TokenAttention) -> None:
            number = next(numbers)
            with explained(path):
                _add(archive, f"{number}/source", _strings(sentence.source))
                for place, translation in enumerate(sentence.translations):
                    _add(archive, f"{number}/{place}/target", _strings(translation.tokens))
                    _add(archive, f"{number}/{place}/score", translation.score)
                    _add(archive, f"{number}/{place}/weights", translation.weights)

        try:
            yield write
        finally:
            with explained(path):
                archive.close()  # writes its table of contents


def _strings(tokens: list[str]) -> ArrayLike:
    # Of strings even where there is none: NumPy would need pickle for an array of objects.
    return np.array(tokens, dtype=np.str_)


def _add(archive: zipfile.ZipFile, name: str, values: ArrayLike) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.save(entry, values, allow_pickle=False)


_FORMATS = {".jsonl": _json_lines, ".npz": _npz}
