"""The corpora that the package contains: in a checkout, links to the folders of `data/`; in a wheel, their files.

`data/make.py` generates them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from seq2seq_attn.files.reading import read_bytes
from seq2seq_attn.files.writing import write_new

EMBEDDED = Path(__file__).parent / "shipped"
TOM_AND_JERRY = EMBEDDED / "tom-and-jerry"  # which the models of the package were trained on
TOM_AND_JERRY_SHORT = EMBEDDED / "tom-and-jerry-short"  # sentences of at most ten words


def copy_embedded(name: str, folder: Path) -> Path:
    """Writes the files of a corpus into a folder, and returns the folder.

    UserError: as in `write_new`; nothing is overwritten.
    """
    write_new({folder / path.name: read_bytes(path) for path in sorted((EMBEDDED / name).iterdir())})
    return folder


def glosses(words: Iterable[str]) -> dict[str, str]:
    """The English gloss of each word; none at all for text with any word that Tom and Jerry lacks."""
    known = json.loads((TOM_AND_JERRY / "glosses.json").read_text(encoding="utf-8"))
    wanted = set(words)
    return {word: known[word] for word in sorted(wanted)} if wanted <= known.keys() else {}
