"""The tokeniser of the Moses toolkit, which most results on Multi30k and WMT stand on."""

from __future__ import annotations

import re
from typing import Any

from sacremoses import MosesDetokenizer, MosesTokenizer

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.tokeniser import Tokeniser


class Moses(Tokeniser):
    """Moses rules (Koehn et al. 2007) as ported by sacremoses, without its XML escapes (`'s`, not `&apos;s`).

    `language` is an ISO 639 code; it chooses the abbreviations that keep their full stop and how apostrophes
    are cut. sacremoses treats a language that it does not know as English abbreviations with plain
    apostrophes.
    """

    kind = "moses"

    def __init__(self, language: str) -> None:
        if not re.fullmatch("[a-z]{2,3}", language):
            raise UserError(f"moses: language {language!r}: give its ISO 639 code, for example en, de or fr")
        self.language = language
        self._tokeniser = MosesTokenizer(language)
        self._detokeniser = MosesDetokenizer(language)

    def encode(self, line: str) -> list[str]:
        pieces: list[str] = self._tokeniser.tokenize(line, escape=False)
        return pieces

    def decode(self, pieces: list[str]) -> str:
        line: str = self._detokeniser.detokenize(pieces, unescape=False)
        return line

    def options(self) -> dict[str, Any]:
        return {"language": self.language}
