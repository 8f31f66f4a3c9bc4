"""The interface of a model, which is all that search, training, alignment and analysis use; what all families share.

A model holds B sources in its memory and N = B * K hypotheses in its state: K adjacent ones for each source, with K = 1
in greedy search and K the beam size in beam search. The memory is not copied for the hypotheses of a beam; K queries
read the same source. A source is encoded into S states, which need not be as many as it has positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import (
    Change,
    Context,
    Counterfactual,
    History,
    Observed,
    PreparedSource,
    SelfAttention,
    each_tensor,
)
from seq2seq_attn.corpora.source import Source, Tokens
from seq2seq_attn.models.embedding import Embedding
from seq2seq_attn.models.encoder import Encoded, Encoder, TokenEncoder
from seq2seq_attn.models.head import Head, Read
from seq2seq_attn.models.replace import replace_modules, with_parts

_Self = TypeVar("_Self")


class Rows(Protocol):
    """An immutable record of tensors whose first dimension are rows: sentences or hypotheses."""

    def select(self: _Self, rows: Tensor) -> _Self:
        """The record with only these rows, in this order; `rows` (M,) int64 may repeat a row."""
        ...


def start_reading(context: Context, source: PreparedSource) -> History:
    """The history of a context before the first step, for one hypothesis per sentence: tensors (B, ...)."""
    return each_tensor(_flatten_beams, context.start(source))


def read_source(
    context: Context, queries: Tensor, source: PreparedSource, history: History
) -> tuple[Tensor, Tensor, History]:
    """Contexts (N, context_size), weights (N, S) and the next history, for one step with queries (N, query_size).

    The N = B * K hypotheses of B sentences are K queries per sentence, so the source is not copied.
    """

    def per_sentence(tensor: Tensor) -> Tensor:
        return tensor.view(source.sentences, -1, *tensor.shape[1:])

    contexts, weights, history = context(per_sentence(queries), source, each_tensor(per_sentence, history))
    return contexts.flatten(0, 1), weights.flatten(0, 1), each_tensor(_flatten_beams, history)


def _flatten_beams(tensor: Tensor) -> Tensor:
    """(B * K, ...) of a history's (B, K, ...)."""
    return tensor.flatten(0, 1)


class Memory(NamedTuple):
    """B encoded sources: everything that decoding needs of them, computed once."""

    source: Any  # Rows, one per source: as the decoder reads it
    is_state: Tensor  # (B, S) bool, True at states, False on padding
    head: Any = None  # Rows, what the head prepared (`Head.prepare`); None for a head that reads no source

    def select(self, rows: Tensor) -> Memory:
        """The record with only these rows, in this order; `rows` (M,) int64 may repeat a row."""
        head = None if self.head is None else self.head.select(rows)
        return Memory(self.source.select(rows), self.is_state.index_select(0, rows), head)


class Step(NamedTuple):
    """One step of decoding for N hypotheses."""

    logits: Tensor  # (N, V) of the next token
    state: Any  # Rows: the input of the next step
    weights: Tensor  # (N, S) attention weights: 0 on padding; rows sum to 1, or are 0 if the source was not read


class Decoded(NamedTuple):
    """All steps of decoding a known target (teacher forcing)."""

    features: Tensor  # (B, T, R): what the head predicts from
    weights: Tensor | None  # (B, T, S): row i are the attention weights while token i was predicted; None if not needed
    inputs: tuple[Tensor, ...] = ()  # (B, T, ...) each, as H_i, C_i and E y_{i-1}: what the features are computed from


class HeadWeights(NamedTuple):
    """The attention weights of every layer and head, one tensor per layer, under teacher forcing.

    Weights on padding are 0. Rows of padding have no meaning.
    """

    cross: tuple[Tensor, ...]  # (B, H, T, S): row i of the decoder's weights on the states, while token i was predicted
    encoder: tuple[Tensor, ...] = ()  # (B, H, S, S): self-attention of the source; no layer in a recurrent encoder
    decoder: tuple[Tensor, ...] = ()  # (B, H, T, T): causal self-attention; column j is input j, that is token j - 1
    is_state: Tensor | None = None  # (B, S) bool, True at states; None once the padding is removed

    def of_pair(self, row: int, target: int) -> HeadWeights:
        """The weights of one pair with T = `target` tokens, without padding: (H, T, S), (H, S, S) and (H, T, T)."""
        assert self.is_state is not None
        (states,) = self.is_state[row].nonzero(as_tuple=True)
        return HeadWeights(
            tuple(weights[row, :, :target, states] for weights in self.cross),
            # An encoder may join positions after its self-attention.
            tuple(
                weights[row][:, states][:, :, states] if weights.shape[-1] == self.is_state.shape[1] else weights[row]
                for weights in self.encoder
            ),
            tuple(weights[row, :, :target, :target] for weights in self.decoder),
        )


class EmbeddingTables(NamedTuple):
    """The embeddings of source and target tokens; the same module twice where one serves both."""

    source: nn.Embedding | None  # (V_source, E); None: the source is not tokens
    target: nn.Embedding  # (V_target, E)


class Seq2Seq(nn.Module, ABC):
    """An autoregressive model p(Y | X) = prod_i p(y_i | y_1 .. y_{i-1}, X).

    Training and search need the abstract methods and the head only. The methods below `forward` serve analysis and
    pretrained embeddings; a model can be trained and searched without defining them.
    """

    head: Head

    start_token: int = 2  # id of `<s>`, the first input of the decoder (corpora/vocabulary.py)
    sums_values: bool = True  # whether a step reads Σ_j a_ij v_j; False: it reads one position, with probability a_ij

    @abstractmethod
    def encode(self, source: Any) -> Memory:
        """The memory of a batch of sources, a `Source`."""

    @abstractmethod
    def start(self, memory: Memory) -> Any:
        """State (Rows) before the first step, one hypothesis per source (N = B)."""

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        """Consume one token (N,) per hypothesis and predict the next; N is a multiple of the memory's B."""

    @abstractmethod
    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        """Consume the known inputs (B, T), `<s> y_1 .. y_{T-1}`, in one call; results equal those of T steps.

        Without `need_weights`, a model may leave out the weights to save their time.
        """

    def teach(self, source: Any, target: Tokens, need_weights: bool = True) -> tuple[Decoded, Memory]:
        """Teacher forcing: encodes the source and decodes the known target; what all predictions are made from."""
        memory = self.encode(source)
        return self.decode(self.decoder_inputs(target), memory, need_weights), memory

    def reads(self, decoded: Decoded, memory: Memory, places: Tensor) -> tuple[Read, Any]:
        """What the head predicts M tokens from: the steps at `places` (M,) among all B * T, as in `Tokens.placed`."""
        own = None if memory.head is None else memory.head.select(places // decoded.features.shape[1])

        def at_places(part: Tensor) -> Tensor:
            return part.flatten(0, 1).index_select(0, places)

        if not self.head.needs_weights:
            return Read(at_places(decoded.features)), own
        weights = None if decoded.weights is None else at_places(decoded.weights)
        return Read(at_places(decoded.features), weights, tuple(map(at_places, decoded.inputs))), own

    def logits(self, decoded: Decoded, memory: Memory, places: Tensor) -> Tensor:
        """Logits (M, V) of the steps at `places` (M,), as in `reads`: padding is not projected."""
        logits: Tensor = self.head(*self.reads(decoded, memory, places))
        return logits

    def next_logits(self, read: Read, memory: Memory) -> Tensor:
        """Logits (N, V) of one step."""
        own, is_state = memory.head, memory.is_state
        # An exported step has no mask, and one hypothesis for each source.
        if own is not None and is_state is not None and len(is_state) < len(read.features):
            sources = torch.arange(len(is_state), device=is_state.device)
            own = own.select(sources.repeat_interleave(len(read.features) // len(sources)))
        logits: Tensor = self.head(read, own)
        return logits

    def decoder_inputs(self, target: Tokens) -> Tensor:
        """`<s> y_1 .. y_{T-1}` (B, T) of `y_1 .. y_T` with y_T = `</s>`."""
        first = target.tokens.new_full((len(target.tokens), 1), self.start_token)
        return torch.cat((first, target.tokens[:, :-1]), dim=1)

    def forward(self, source: Source, target: Tokens) -> Tensor:
        """Teacher forcing: logits (B, T, V), where those at i predict target token i."""
        decoded, memory = self.teach(source, target, self.head.needs_weights)
        every = torch.arange(target.tokens.numel(), device=target.tokens.device)
        return self.logits(decoded, memory, every).view(*target.tokens.shape, -1)

    def with_outputs(self, tokens: Tensor) -> Seq2Seq:
        """A shallow copy that predicts only the target tokens (M,), in this order, from the same inputs.

        It shares all parameters with the original. UserError: its head cannot be restricted.
        """
        return with_parts(self, {**self._modules, "head": self.head.with_outputs(tokens)})

    @property
    def attends(self) -> bool:
        """Whether the decoder reads individual states of the source through a context; if not, all weights are 0."""
        return bool(self.contexts_that_read())

    def contexts_that_read(self) -> list[Context]:
        """The contexts through which the decoder reads the encoder's states, in order of computation.

        Empty if the decoder sees at most a fixed summary, or reads the source without a `Context`. A decoder that
        attends in every layer has more than one.
        """
        return []

    def with_changed_weights(self, changes: Sequence[Change]) -> Seq2Seq:
        """A model that shares all parameters and decodes with its own and with changed attention weights side by side.

        Its batches contain every source 1 + len(changes) times, one whole batch after the other; see `Counterfactual`
        for the weights of each copy. Nothing else in the model changes.
        """
        contexts = {context.reader(): context.heads for context in self.contexts_that_read()}
        return replace_modules(
            self, {reader: Counterfactual(reader, changes, heads) for reader, heads in contexts.items()}
        )

    def head_weights(self, source: Source, target: Tokens) -> HeadWeights:
        """The weights of every layer and head under teacher forcing; `decode` gives their mean.

        The layers are those of `contexts_that_read`, in this order, and of every `SelfAttention` within the model. A
        model that reads the source otherwise has one layer with one head: the weights of `decode`.
        """
        contexts = self.contexts_that_read()
        read: list[list[Tensor]] = [[] for _ in contexts]  # for each context, the weights of each call
        within: list[Tensor] = []  # of self-attention, in order of computation
        observed = [_observed(context, found) for context, found in zip(contexts, read, strict=True)]
        observed += [_observed(each.attention, within) for each in self.modules() if isinstance(each, SelfAttention)]
        model = replace_modules(self, dict(observed))
        memory = model.encode(source)
        layers = len(within)
        decoded = model.decode(self.decoder_inputs(target), memory)
        assert decoded.weights is not None
        cross = tuple(torch.cat(calls, dim=2) for calls in read) or (decoded.weights[:, None],)
        is_named = all(each.reads_as_states for each in self.modules() if isinstance(each, Encoder))
        return HeadWeights(cross, tuple(within[:layers]) if is_named else (), tuple(within[layers:]), memory.is_state)

    def embed_source(self, source: Source) -> Tensor:
        """The encoder's input (B, L, E), such as embedded tokens. NotImplementedError if the model has none."""
        raise self._missing("embed_source")

    def encode_embedded(self, embedded: Tensor, source: Source) -> Memory:
        """The memory of embedded sources (B, L, E), for gradients with respect to the embeddings.

        `encode(source)` equals `encode_embedded(embed_source(source), source)`. NotImplementedError if the model has no
        embeddings.
        """
        raise self._missing("encode_embedded")

    def rows(self, source: Source) -> int:
        """How many rows the grid of the states has, as `Encoder.rows`; 1: they are a sequence."""
        return 1

    def encoder_states(self, source: Source) -> Encoded:
        """h_1 .. h_S of each source. NotImplementedError if the model has no encoder with such states."""
        raise self._missing("encoder_states")

    def summary_of(self, source: Source) -> Tensor | None:
        """C of each source (B, H), the one vector from which its decoder starts; None if the model has none."""
        return None

    @property
    def repeats_summary(self) -> bool:
        """Whether the decoder also reads C at every step, and nothing else of the source."""
        return False

    def embedding_tables(self) -> EmbeddingTables:
        """The tables that pretrained word vectors are copied into. NotImplementedError if the model has none."""
        raise self._missing("embedding_tables")

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {method}")


class EncoderDecoder(Seq2Seq):
    """An encoder, whose states a decoder reads; subclasses define how."""

    def __init__(self, encoder: Encoder, target_embedding: Embedding, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.target_embedding = target_embedding
        self.head = head

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Any:
        """The states as the decoder reads them (Rows), computed once."""

    def encode(self, source: Source) -> Memory:
        return self._memory(self.encoder(source), source)

    def embed_source(self, source: Source) -> Tensor:
        return self.encoder.embed(source)

    def encode_embedded(self, embedded: Tensor, source: Source) -> Memory:
        return self._memory(self.encoder.encode_embedded(embedded, source), source)

    def _memory(self, encoded: Encoded, source: Source) -> Memory:
        return Memory(self.prepare(encoded), encoded.is_state, self.head.prepare(source))

    def rows(self, source: Source) -> int:
        return self.encoder.rows(source)

    def encoder_states(self, source: Source) -> Encoded:
        encoded: Encoded = self.encoder(source)
        return encoded

    def embedding_tables(self) -> EmbeddingTables:
        source = self.encoder.embedding.table if isinstance(self.encoder, TokenEncoder) else None
        return EmbeddingTables(source, self.target_embedding.table)


class Wrapper(Seq2Seq):
    """A model that differs from another in what a subclass overrides."""

    def __init__(self, inner: Seq2Seq) -> None:
        super().__init__()
        self.inner = inner
        self.head, self.start_token = inner.head, inner.start_token

    def encode(self, source: Any) -> Memory:
        return self.inner.encode(source)

    def start(self, memory: Memory) -> Any:
        return self.inner.start(memory)

    def step(self, tokens: Tensor, state: Any, memory: Memory) -> Step:
        return self.inner.step(tokens, state, memory)

    def decode(self, inputs: Tensor, memory: Memory, need_weights: bool = True) -> Decoded:
        return self.inner.decode(inputs, memory, need_weights)


def _observed(context: Context, found: list[Tensor]) -> tuple[nn.Module, nn.Module]:
    """The reader of a context, and its replacement, which appends the weights (B, H, T, S) of every call to `found`."""
    reader = context.reader()
    return reader, Observed(reader, lambda weights: found.append(torch.unflatten(weights, 0, (-1, context.heads))))
