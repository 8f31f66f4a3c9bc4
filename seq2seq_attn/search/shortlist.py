"""A search among a part of the vocabulary: what the sources can be translated by, and what is frequent anyway.

Most of the logits of a step are of tokens that no translation of these sources needs (Jean et al. 2015, sec. 3.2). Left
out they cost nothing, and their probability goes to the others: a log-probability is that among the tokens of the list,
so not below that of forced decoding. What is not on the list cannot be found.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2seq_attn.models.translator import Decoded, Sentences, Step, Translator
from seq2seq_attn.ops.inference import with_rows
from seq2seq_attn.text.vocabulary import SPECIALS


class Shortlist(NamedTuple):
    """Target tokens by source token, and those that are on every list; all on the CPU."""

    translations: Tensor  # (source vocabulary, n) int64
    always: Tensor  # (m,) int64

    def tokens(self, source: Sentences) -> Tensor:
        """The list (M,) int64 for these sources, ascending: the special tokens keep their ids."""
        translations = self.translations[source.tokens[source.is_token].cpu()]
        all_of_them = torch.cat((torch.arange(len(SPECIALS)), self.always, translations.flatten()))
        listed: Tensor = all_of_them.unique()  # type: ignore[no-untyped-call]
        return listed.to(source.tokens.device)


class Shortlisted(Translator):
    """The same model with a vocabulary of the listed target tokens: token i here is `tokens[i]` there."""

    def __init__(self, translator: Translator, tokens: Tensor) -> None:
        super().__init__()
        output = with_rows(translator.output, tokens)
        self.inner = translator if output is None else _with_output(translator, output)
        self.is_cut = output is not None  # not an output layer that a user changed: of its outputs some are taken
        self.tokens = tokens
        self.start_token = translator.start_token

    def encode(self, source: Sentences) -> Any:
        return self.inner.encode(source)

    def start(self, memory: Any) -> Any:
        return self.inner.start(memory)

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        step = self.inner.step(self.tokens[tokens], state, memory)
        return step if self.is_cut else step._replace(logits=step.logits[:, self.tokens])

    def decode(self, inputs: Tensor, memory: Any) -> Decoded:
        return self.inner.decode(self.tokens[inputs], memory)

    def project(self, features: Tensor) -> Tensor:
        logits = self.inner.project(features)
        return logits if self.is_cut else logits[..., self.tokens]


def _with_output(translator: Translator, output: nn.Linear) -> Translator:
    """A copy with another vocabulary projection; all else is that of `translator`, and nothing of it is walked through.

    A single sentence is searched in a few milliseconds, of which a deep copy would take one.
    """
    other = copy.copy(translator)
    other._modules = {**translator._modules, "output": output}
    return other
