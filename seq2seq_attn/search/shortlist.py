"""Search with a shortlist: a part of the target vocabulary, chosen for the sources of a batch.

Most logits of a step belong to tokens that no translation of these sources needs (Jean et al. 2015, sec. 3.2). Without
them a step is cheaper, and probabilities are normalized over the shortlist, so that a log-probability is never below
that of forced decoding. Tokens outside the shortlist cannot be produced.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.corpora.vocabulary import SPECIALS
from seq2seq_attn.models.seq2seq import Decoded, Memory, Seq2Seq, Step, Wrapper


class Shortlist(NamedTuple):
    """Candidate target tokens of each source token, and tokens that are in every shortlist; both on the CPU."""

    translations: Tensor  # (source vocabulary, n) int64
    always: Tensor  # (m,) int64

    def tokens(self, source: Tokens, required: Tensor | None = None) -> Tensor:
        """The shortlist (M,) int64 for these sources, in ascending order, so the special tokens keep their ids.

        It contains the `required` tokens.
        """
        translations = self.translations[source.tokens[source.is_token].cpu()]
        required = self.always[:0] if required is None else required
        candidates = torch.cat((torch.arange(len(SPECIALS)), self.always, required, translations.flatten()))
        listed: Tensor = candidates.unique()  # type: ignore[no-untyped-call]
        return listed.to(source.tokens.device)


class Shortlisted(Wrapper):
    """A model restricted to the target tokens of a shortlist: its token i is `tokens[i]` of the original."""

    def __init__(self, model: Seq2Seq, tokens: Tensor) -> None:
        super().__init__(model.with_outputs(tokens))
        self.tokens = tokens

    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        return super().step(self.tokens[tokens], state, memory)

    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        return super().decode(self.tokens[inputs], memory, need_weights)
