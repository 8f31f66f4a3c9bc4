"""The interface of a model, which is all that search, training, alignment and analysis use.

A translator holds B sentences in its memory and N = B * K hypotheses in its state: K adjacent ones for each sentence,
with K = 1 in greedy search and K the beam size in beam search. The memory is not copied for the hypotheses of a beam;
K queries read the same source. A model is built from its configuration, a `ModelConfig`; every family of models is a
subclass with a `kind` and a `build` method.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import torch
from pydantic import Field, model_validator
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
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.models.losses import r_drop_loss, smoothed_loss
from seq2seq_attn.models.replace import replace_modules
from seq2seq_attn.strict import Size, Strict, Tagged

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


class Step(NamedTuple):
    """One step of decoding for N hypotheses."""

    logits: Tensor  # (N, V) of the next token
    state: Any  # Rows: the input of the next step
    weights: Tensor  # (N, S) attention weights: 0 on padding; rows sum to 1, or are 0 if the source was not read


class Decoded(NamedTuple):
    """All steps of decoding a known target (teacher forcing)."""

    features: Tensor  # (B, T, R); `project` maps them to logits
    weights: Tensor  # (B, T, S): row i are the attention weights while token i was predicted


class HeadWeights(NamedTuple):
    """The attention weights of every layer and head, one tensor per layer, under teacher forcing.

    Weights on padding are 0. Rows of padding have no meaning.
    """

    cross: tuple[Tensor, ...]  # (B, H, T, S): row i of the decoder's weights on the source, while token i was predicted
    encoder: tuple[Tensor, ...] = ()  # (B, H, S, S): self-attention of the source; no layer in a recurrent encoder
    decoder: tuple[Tensor, ...] = ()  # (B, H, T, T): causal self-attention; column j is input j, that is token j - 1

    def of_pair(self, row: int, target: int, source: int) -> HeadWeights:
        """The weights of one pair with T = `target` and S = `source` tokens: (H, T, S), (H, S, S) and (H, T, T)."""
        lengths = (target, source), (source, source), (target, target)
        return HeadWeights(
            *(
                tuple(weights[row, :, :rows, :columns] for weights in layers)
                for layers, (rows, columns) in zip(self, lengths, strict=True)
            )
        )


class EmbeddingTables(NamedTuple):
    """The embeddings of source and target tokens; the same module twice where one serves both."""

    source: nn.Embedding  # (V_source, E)
    target: nn.Embedding  # (V_target, E)


class Seq2Seq(nn.Module, ABC):
    """An autoregressive model p(Y | X) = prod_i p(y_i | y_1 .. y_{i-1}, X).

    Training and search need the abstract methods only. The methods below `forward` serve analysis and pretrained
    embeddings; a model can be trained and searched without defining them.
    """

    output: nn.Linear  # the vocabulary projection, R to V

    start_token: int = 2  # id of `<s>`, the first input of the decoder (corpora/vocabulary.py)

    @abstractmethod
    def encode(self, source: Any) -> Any:
        """Memory (Rows, one per sentence): everything that decoding needs of the source, computed once."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """State (Rows) before the first step, one hypothesis per sentence (N = B)."""

    @abstractmethod
    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Consume one token (N,) per hypothesis and predict the next; N is a multiple of the memory's B."""

    @abstractmethod
    def decode(self, inputs: Tensor, memory: Any) -> Decoded:
        """Consume the known inputs (B, T), `<s> y_1 .. y_{T-1}`, in one call; results equal those of T steps."""

    def features(self, inputs: Tensor, memory: Any) -> Tensor:
        """The features of `decode` (B, T, R) alone; a model can override it to save the time for the weights."""
        return self.decode(inputs, memory).features

    def project(self, features: Tensor) -> Tensor:
        """Logits (..., V) of features (..., R); a separate method, so that training does not project padding."""
        logits: Tensor = self.output(features)
        return logits

    def loss(self, features: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Two sums over M tokens in nats: `smoothed_loss`, and -log p(target), which has no gradient.

        Args:
            features: What predicts the tokens (M, R).
            targets: Their ids (M,) int64.
            label_smoothing: The share of the target distribution that is uniform.
        """
        return smoothed_loss(self.project(features), targets, label_smoothing)

    def r_drop_loss(
        self, features: Tensor, targets: Tensor, alpha: float, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """`r_drop_loss` of M tokens, and -log p(target); both are sums over the tokens.

        Args:
            features: What predicts the tokens (2 M, R): all with one dropout mask, then all with another.
            targets: Their ids (M,) int64.
            alpha: The weight of the divergence between the predictions with both masks.
            label_smoothing: The share of the target distribution that is uniform.
        """
        logits = self.project(features)
        return r_drop_loss(logits.view(2, len(targets), -1), targets, alpha, label_smoothing)

    def decoder_inputs(self, target: Tokens) -> Tensor:
        """`<s> y_1 .. y_{T-1}` (B, T) of `y_1 .. y_T` with y_T = `</s>`."""
        first = target.tokens.new_full((len(target.tokens), 1), self.start_token)
        return torch.cat((first, target.tokens[:, :-1]), dim=1)

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """Teacher forcing: logits (B, T, V), where those at i predict target token i."""
        return self.project(self.features(self.decoder_inputs(target), self.encode(source)))

    def with_outputs(self, tokens: Tensor) -> Seq2Seq:
        """A shallow copy that predicts only the target tokens (M,), in this order, from the same inputs.

        It shares all parameters with the original.
        """
        other = copy.copy(self)
        other._modules = {**self._modules, "output": SelectedOutputs(self.output, tokens)}
        return other

    @property
    def attends(self) -> bool:
        """Whether the decoder reads individual source positions through a context; if not, all weights are 0."""
        return bool(self.contexts_that_read())

    def contexts_that_read(self) -> list[Context]:
        """The contexts through which the decoder reads the encoder's states, in order of computation.

        Empty if the decoder sees at most a fixed summary, or reads the source without a `Context`. A decoder that
        attends in every layer has more than one.
        """
        return []

    def sources_read(self, memory: Any) -> list[PreparedSource]:
        """The prepared source of each of `contexts_that_read`, in the same order."""
        return []

    def with_changed_weights(self, changes: Sequence[Change]) -> Seq2Seq:
        """A model that shares all parameters and decodes with its own and with changed attention weights side by side.

        Its batches contain every sentence 1 + len(changes) times, one whole batch after the other; see `Counterfactual`
        for the weights of each copy. Nothing else in the model changes.
        """
        contexts = {context.reader(): context.heads for context in self.contexts_that_read()}
        return replace_modules(
            self, {reader: Counterfactual(reader, changes, heads) for reader, heads in contexts.items()}
        )

    def head_weights(self, source: Tokens, target: Tokens) -> HeadWeights:
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
        encoder = tuple(within)
        decoded = model.decode(self.decoder_inputs(target), memory)
        cross = tuple(torch.cat(calls, dim=2) for calls in read) or (decoded.weights[:, None],)
        return HeadWeights(cross, encoder, tuple(within[len(encoder) :]))

    def embed_source(self, source: Tokens) -> Tensor:
        """The encoder's input: embedded source tokens (B, S, E). NotImplementedError if the model has none."""
        raise self._missing("embed_source")

    def encode_embedded(self, embedded: Tensor, source: Tokens) -> Any:
        """The memory of embedded sources (B, S, E), for gradients with respect to the embeddings.

        `encode(source)` equals `encode_embedded(embed_source(source), source)`. NotImplementedError if the model has no
        embeddings.
        """
        raise self._missing("encode_embedded")

    def encoder_states(self, source: Tokens) -> Tensor:
        """h_1 .. h_S of each sentence (B, S, E). NotImplementedError if the model has no encoder with such states."""
        raise self._missing("encoder_states")

    def embedding_tables(self) -> EmbeddingTables:
        """The tables that pretrained word vectors are copied into. NotImplementedError if the model has none."""
        raise self._missing("embedding_tables")

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {method}")


class SelectedOutputs(nn.Module):
    """The outputs `rows` (M,) of a layer, in this order."""

    def __init__(self, layer: nn.Module, rows: Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.rows = rows

    def forward(self, input: Tensor) -> Tensor:
        outputs: Tensor = self.layer(input)
        return outputs[..., self.rows]


def _observed(context: Context, found: list[Tensor]) -> tuple[nn.Module, nn.Module]:
    """The reader of a context, and its replacement, which appends the weights (B, H, T, S) of every call to `found`."""
    reader = context.reader()
    return reader, Observed(reader, lambda weights: found.append(torch.unflatten(weights, 0, (-1, context.heads))))


_is_initialized: ContextVar[bool] = ContextVar("is_initialized", default=True)


def is_initialized() -> bool:
    """Whether a model that is built now needs initial weights."""
    return _is_initialized.get()


@contextmanager
def weights_from_a_file() -> Iterator[None]:
    """A block in which models are built whose weights are then all read: what costs most to initialize is left out.

    That is the orthogonal matrices of recurrent cells: a QR decomposition each, and half a second for a small model
    where several threads share a busy processor.
    """
    token = _is_initialized.set(False)
    try:
        yield
    finally:
        _is_initialized.reset(token)


Probability = Annotated[float, Field(ge=0.0, lt=1.0)]

Tied = Literal["none", "target", "all"]  # which embeddings share their table with the output projection


class DropoutConfig(Strict):
    """Dropout probabilities: of single elements, except `word`, which is that of whole embedded words."""

    embedding: Probability = 0.3  # of the embedded tokens
    word: Probability = 0.0  # of whole embedded words
    state: Probability = 0.2  # of the encoder's states, and of what each layer passes on
    readout: Probability = 0.5  # of the features before the projection to the vocabulary


class PretrainedConfig(Strict):
    """Files of word vectors: text (GloVe, fastText, word2vec; even compressed), or the .pt of torchtext's `Vectors`."""

    source: Path | None = None  # for the source embedding
    target: Path | None = None  # for the target embedding


class ModelConfig(Tagged):
    """The configuration of a model; this base class has the options that all families share."""

    decoder_size_key: ClassVar[str] = "model.decoder.hidden_size"  # of `decoder_size` in a configuration

    kind: str = "recurrent"  # family of models
    embedding_size: Size = 256  # of source and target tokens
    tie_embeddings: Tied | None = None  # tables shared with the output projection; null: as many as fit
    pretrained_embeddings: PretrainedConfig = PretrainedConfig()  # initial rows; tokens without a vector start random

    @abstractmethod
    def build(self, source_size: int, target_size: int, joint: bool) -> Seq2Seq:
        """An untrained model for vocabularies of these sizes; `joint` if both languages share one vocabulary.

        Parameters are drawn from torch's global generator. UserError if options contradict each other.
        """

    def tied(self, joint: bool, features: int) -> Tied:
        """Which embeddings share their table with the projection of `features` numbers: `tie_embeddings`.

        Where that is null: none if the sizes differ, all with one vocabulary and at most one file of vectors, else
        that of the target.
        """
        if self.tie_embeddings is not None:
            return self.tie_embeddings
        if features != self.embedding_size:
            return "none"
        files = {self.pretrained_embeddings.source, self.pretrained_embeddings.target} - {None}
        return "all" if joint and len(files) < 2 else "target"

    @property
    @abstractmethod
    def decoder_size(self) -> int:
        """The width of the decoder, which `match_parameters` increases to enlarge a model."""

    @abstractmethod
    def with_decoder_size(self, size: int) -> ModelConfig:
        """This configuration with another `decoder_size`."""

    @property
    def max_positions(self) -> tuple[int | None, int | None]:
        """The numbers of tokens of the longest source and target that fit, `</s>` included; None: no limit."""
        return None, None

    @model_validator(mode="after")
    def _tied_embeddings_have_one_file(self) -> ModelConfig:
        source, target = self.pretrained_embeddings.source, self.pretrained_embeddings.target
        if self.tie_embeddings == "all" and source and target and source != target:
            raise ValueError(
                f"tie_embeddings=all shares one embedding, which cannot start from both {source} and {target}; "
                f"give one file in pretrained_embeddings"
            )
        return self


def default_model() -> ModelConfig:
    """The default model: a recurrent one with default options."""
    return ModelConfig.model_validate({})
