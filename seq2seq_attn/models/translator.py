"""The interface of a model: all that search, training, alignment and analysis know of it.

A translator holds B sentences in its memory and N = B * K hypotheses in its state, K for each sentence, those of
one sentence next to each other: K = 1 in greedy search, the beam size in beam search. The memory is never copied for
the hypotheses of a beam; K queries read the same source. Before it is built, a model is known by its configuration
record: `ModelConfig`, of which every family of models is a subclass with a `kind` and `build`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from seq2seq_attn.attention import Change, Context, Counterfactual, PreparedSource
from seq2seq_attn.ops.replace import replace_modules
from seq2seq_attn.strict import Strict, Tagged
from seq2seq_attn.text.encoded import EncodedSentences, Ids

_Self = TypeVar("_Self")


class Sentences(NamedTuple):
    """A batch of sentences, every one closed by `</s>`, padded on the right."""

    tokens: Tensor  # (B, L) int64; what stands on padding is never read
    lengths: Tensor  # (B,) int64, on the CPU; `</s>` counts, so none is 0

    @property
    def is_token(self) -> Tensor:
        """(B, L) bool, True where a token is."""
        positions = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return positions < self.lengths.to(self.tokens.device, non_blocking=True)[:, None]


def pad(ids: Sequence[Ids], device: torch.device | str = "cpu") -> Sentences:
    """A batch of sentences, each a list of token ids closed by `</s>`; the lengths stay on the CPU.

    Raises UserError if a sentence has no token at all.
    """
    tokens, lengths = padded_batch(EncodedSentences.of(ids), range(len(ids)))
    return Sentences(tokens.to(device), lengths)


def padded_batch(sentences: EncodedSentences, rows: Sequence[int] | NDArray[np.int64]) -> Sentences:
    """A batch of the sentences with these numbers, on the CPU."""
    return Sentences(*map(torch.from_numpy, sentences.padded(rows)))


class Rows(Protocol):
    """An immutable record of tensors whose first dimension counts rows: sentences or hypotheses."""

    def select(self: _Self, rows: Tensor) -> _Self:
        """The record with these rows only, in this order; `rows` (M,) int64 may repeat a row."""
        ...


class Step(NamedTuple):
    """One step of decoding for N hypotheses."""

    logits: Tensor  # (N, V) of the next token
    state: Any  # Rows: what the next step needs
    weights: Tensor  # (N, S) under which the source was read: 0 on padding; rows sum to 1, or 0 if nothing was read


class Decoded(NamedTuple):
    """All steps of decoding when the target is known."""

    features: Tensor  # (B, T, R): `project` makes logits of them
    weights: Tensor  # (B, T, S): row i was read while token i was being predicted


class EmbeddingTables(NamedTuple):
    """The embeddings of source and target tokens; the same module twice where one serves both."""

    source: nn.Embedding  # (V_source, E)
    target: nn.Embedding  # (V_target, E)


class Translator(nn.Module, ABC):
    """A model of p(target | source), one target token after another.

    The abstract methods are what training and search need. The methods below `forward` serve analysis and pretrained
    embeddings; a model that does not define them can be trained and searched all the same.
    """

    output: nn.Linear  # the vocabulary projection, R to V

    start_token: int = 2  # `<s>`: what the decoder reads before its first token (text/vocabulary.py)

    @abstractmethod
    def encode(self, source: Sentences) -> Any:
        """Memory (Rows, one per sentence): all that decoding needs of the source, computed once."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """State (Rows) before the first step, one hypothesis per sentence (N = B)."""

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read one token (N,) for each hypothesis and predict the next; N is a multiple of the memory's B."""

    @abstractmethod
    def decode(self, inputs: Tensor, memory: Any) -> Decoded:
        """Read the known inputs (B, T), `<s> y_1 .. y_{T-1}`, in one call: the same numbers as T steps."""

    def project(self, features: Tensor) -> Tensor:
        """Logits (..., V) of features (..., R); separate, so that training projects no padding."""
        logits: Tensor = self.output(features)
        return logits

    def decoder_inputs(self, target: Sentences) -> Tensor:
        """`<s> y_1 .. y_{T-1}` (B, T) of `y_1 .. y_T` with y_T = `</s>`."""
        first = target.tokens.new_full((len(target.tokens), 1), self.start_token)
        return torch.cat((first, target.tokens[:, :-1]), dim=1)

    def forward(self, source: Sentences, target: Sentences) -> Tensor:
        """Teacher forcing: logits (B, T, V), those at i predict target token i."""
        return self.project(self.decode(self.decoder_inputs(target), self.encode(source)).features)

    @property
    def attends(self) -> bool:
        """Whether the decoder reads single words of the source through a context; False where all weights are 0."""
        return bool(self.contexts_that_read())

    def contexts_that_read(self) -> list[Context]:
        """The contexts through which the decoder reads the states of the source, in order of computation.

        Empty where the decoder sees a fixed summary at most, or reads the source by other means than a `Context`. More
        than one in a decoder that reads in every layer.
        """
        return []

    def sources_read(self, memory: Any) -> list[PreparedSource]:
        """What each of `contexts_that_read` has prepared of the source, in the same order."""
        return []

    def with_changed_weights(self, changes: Sequence[Change]) -> Translator:
        """The same model, parameters shared, that decodes under its own weights and under changed ones side by side.

        Its batches hold their sentences 1 + len(changes) times, one whole batch after another; `Counterfactual` tells
        what each copy reads. Nothing else of the model changes.
        """
        readers = [context.reader() for context in self.contexts_that_read()]
        return replace_modules(self, {reader: Counterfactual(reader, changes) for reader in readers})

    def embed_source(self, source: Sentences) -> Tensor:
        """Embedded source tokens (B, S, E), as the encoder reads them; NotImplementedError if there are none."""
        raise self._missing("embed_source")

    def encode_embedded(self, embedded: Tensor, source: Sentences) -> Any:
        """The memory of sources that are embedded already, (B, S, E), for gradients with respect to the embeddings.

        `encode(source)` equals `encode_embedded(embed_source(source), source)`.
        """
        raise self._missing("encode_embedded")

    def embedding_tables(self) -> EmbeddingTables:
        """The tables that pretrained word vectors are written into; NotImplementedError if there are none."""
        raise self._missing("embedding_tables")

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {method}")


_is_initialised: ContextVar[bool] = ContextVar("is_initialised", default=True)


def is_initialised() -> bool:
    """Whether a model that is built now needs initial weights."""
    return _is_initialised.get()


@contextmanager
def weights_from_a_file() -> Iterator[None]:
    """A block in which models are built whose weights are then all read: what costs most to initialise is left out.

    That is the orthogonal matrices of recurrent cells: a QR decomposition each, and half a second for a small model
    where several threads share a busy processor.
    """
    token = _is_initialised.set(False)
    try:
        yield
    finally:
        _is_initialised.reset(token)


class PretrainedConfig(Strict):
    """Files of word vectors: text (GloVe, fastText, word2vec; plain or .gz), or the .pt of torchtext's `Vectors`."""

    source: Path | None = None
    target: Path | None = None


class ModelConfig(Tagged):
    """A model of one family; this base has the options that all families share."""

    kind: str = "recurrent"
    embedding_size: PositiveInt = 256
    tie_embeddings: Literal["none", "target", "all"] = "none"
    pretrained_embeddings: PretrainedConfig = PretrainedConfig()  # initial rows; tokens without a vector start random

    @abstractmethod
    def build(self, source_size: int, target_size: int, joint: bool) -> Translator:
        """An untrained model for vocabularies of these sizes; `joint` says that both are the same vocabulary.

        Parameters are drawn from torch's global generator. UserError where options do not fit each other.
        """

    @property
    @abstractmethod
    def decoder_size(self) -> int:
        """The width of the decoder, by which `match_parameters` makes a model larger."""

    @abstractmethod
    def with_decoder_size(self, size: int) -> ModelConfig:
        """The same configuration with another `decoder_size`."""

    @model_validator(mode="after")
    def _tied_embeddings_have_one_file(self) -> ModelConfig:
        source, target = self.pretrained_embeddings.source, self.pretrained_embeddings.target
        if self.tie_embeddings == "all" and source and target and source != target:
            raise ValueError(
                f"tie_embeddings=all makes one embedding of both, which cannot start from {source} and from {target}; "
                f"name one file in pretrained_embeddings"
            )
        return self


def default_model() -> ModelConfig:
    """The default family with its defaults."""
    return ModelConfig.model_validate({})
