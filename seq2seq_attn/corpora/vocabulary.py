"""Tokens and their ids, with the method names of `torchtext.vocab.Vocab` (0.12 and later)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import read_bytes

SPECIALS = ("<unk>", "<pad>", "<s>", "</s>")
UNK, PAD, BOS, EOS = range(len(SPECIALS))


class Vocabulary:
    """Distinct tokens, numbered in order; the four special tokens always have the ids 0 to 3.

    `tokens` are the ordinary ones. An unknown token has the id of `<unk>`, as with torchtext's
    `set_default_index(vocab["<unk>"])`. Raises UserError for a duplicate token.
    """

    slots: int = 0  # ids at the end for tokens of one source that are not in the vocabulary (`corpora/copy_slots.py`)

    def __init__(self, tokens: Iterable[str]) -> None:
        self._itos = [*SPECIALS, *tokens]
        self._stoi = {token: index for index, token in enumerate(self._itos)}
        if len(self._stoi) < len(self._itos):
            twice = next(token for token, count in Counter(self._itos).items() if count > 1)
            raise UserError(f"vocabulary: the token {twice!r} occurs twice; tokens must be distinct")

    @classmethod
    def build(
        cls,
        sentences: Iterable[Iterable[str]],
        max_size: int | None = None,
        minimum_frequency: int = 1,
        *,
        always: Sequence[str] = (),
    ) -> Vocabulary:
        """The tokens in `always`, then the most frequent ones of some sentences, ties in alphabetical order.

        `max_size` includes all of them and the special tokens, so it is the number of rows of an embedding. Raises
        UserError if it leaves no room for frequent tokens.
        """
        fixed = [*SPECIALS, *always]
        if max_size is not None and max_size <= len(fixed):
            raise UserError(
                f"vocabulary size {max_size}: the special tokens and protected symbols alone are {len(fixed)}; "
                "choose a larger one"
            )
        counts = Counter(token for sentence in sentences for token in sentence)
        for token in fixed:
            del counts[token]
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        frequent = [token for token, count in ranked if count >= minimum_frequency]
        return cls([*always, *(frequent if max_size is None else frequent[: max_size - len(fixed)])])

    def __len__(self) -> int:
        return len(self._itos)

    def __contains__(self, token: object) -> bool:
        return token in self._stoi

    def __getitem__(self, token: str) -> int:
        return self._stoi.get(token, UNK)

    def lookup_indices(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, that of `<unk>` for unknown ones."""
        return [self._stoi.get(token, UNK) for token in tokens]

    def lookup_tokens(self, indices: Sequence[int]) -> list[str]:
        """The tokens of ids; IndexError for an id outside the vocabulary."""
        size = len(self)
        for index in indices:
            if not 0 <= index < size:
                raise IndexError(f"id {index} is not in a vocabulary of {size} tokens")
        return [self._token(index) for index in indices]

    def _token(self, index: int) -> str:
        return self._itos[index]

    def of_source(self, tokens: Iterable[str]) -> Vocabulary:
        """The vocabulary of a source with these tokens, and of its target; itself, unless it has slots for them."""
        return self

    def get_itos(self) -> list[str]:
        """All tokens in the order of their ids (a copy)."""
        return list(self._itos)

    def get_stoi(self) -> dict[str, int]:
        """Token to id (a copy)."""
        return {token: index for index, token in enumerate(self.get_itos())}

    def content(self) -> bytes:
        """The content of its file: one token per line, UTF-8; line n has the token with id n - 1."""
        return "".join(f"{token}\n" for token in self._itos).encode("utf-8")

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a file with this `content`. Raises UserError for any other file."""
        try:
            tokens = read_bytes(path).decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise UserError(f"{path}: not a vocabulary: it is not UTF-8 text") from None
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            raise UserError(f"{path}: not a vocabulary: its first lines must be {' '.join(SPECIALS)}, one per line")
        return cls(tokens[len(SPECIALS) :])


def unfit_symbols(symbols: Sequence[str]) -> str | None:
    """In words, why these cannot be protected symbols, each of which is one piece of a line; None if they can."""
    for index, symbol in enumerate(symbols):
        others = [each for each in (*symbols[:index], *symbols[index + 1 :]) if each in symbol]
        if not symbol or any(each.isspace() or each in "\0▁▅" for each in symbol):
            return f"{symbol!r} is empty or has white space, NUL, ▁ or ▅, which separate pieces; choose another symbol"
        if symbol in SPECIALS:
            return f"{symbol} is a special token already; leave it out"
        if others:
            return f"{symbol} contains {others[0]}; each must be a symbol of its own"
    return None
