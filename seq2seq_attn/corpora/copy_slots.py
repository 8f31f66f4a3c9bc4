"""Copy slots: ids for the words of a source that are in no vocabulary, so that a model can write them."""

from __future__ import annotations

from collections.abc import Iterable

from seq2seq_attn.corpora.vocabulary import UNK, Vocabulary


class SlotVocabulary(Vocabulary):
    """A vocabulary with further ids, the slots, for tokens that it does not have.

    The k-th distinct one of a source has the id of slot k, there and in its target: the extended vocabulary of See et
    al. 2017, sec. 2.2, with a fixed size. A token for which no slot is left is unknown. A slot without a token is shown
    as `⟨copy3⟩`; no text is read as one.

    >>> vocabulary = SlotVocabulary(Vocabulary(["runs", "on"]), slots=2).of_source("xfoo runs on xbar xfoo".split())
    >>> vocabulary.lookup_indices("xbar runs xfoo xbaz".split()), vocabulary.lookup_tokens([6, 7])
    ([7, 4, 6, 0], ['xfoo', 'xbar'])
    """

    def __init__(self, known: Vocabulary, slots: int, tokens: Iterable[str] | None = None) -> None:
        self.known = known
        self.slots = slots
        self._is_of_source = tokens is not None
        unknown = dict.fromkeys(token for token in tokens or () if token not in known)
        filled = [*unknown][:slots]
        self._ids = {token: index for index, token in enumerate(filled, start=len(known))}
        self._shown = [*filled, *(f"⟨copy{number}⟩" for number in range(len(filled) + 1, slots + 1))]

    def of_source(self, tokens: Iterable[str]) -> Vocabulary:
        return self if self._is_of_source else SlotVocabulary(self.known, self.slots, tokens)

    def __len__(self) -> int:
        return len(self.known) + self.slots

    def __contains__(self, token: object) -> bool:
        return token in self.known or token in self._ids

    def __getitem__(self, token: str) -> int:
        return self.known[token] or self._ids.get(token, UNK)

    def lookup_indices(self, tokens: Iterable[str]) -> list[int]:
        return [self[token] for token in tokens]

    def _token(self, index: int) -> str:
        first = len(self.known)
        return self._shown[index - first] if index >= first else self.known.lookup_tokens([index])[0]

    def get_itos(self) -> list[str]:
        return [*self.known.get_itos(), *self._shown]

    def content(self) -> bytes:
        """That of the vocabulary without the slots."""
        return self.known.content()
