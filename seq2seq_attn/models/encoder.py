"""What every family of models expects of an encoder, its configuration, and encoders of embedded tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, Field, SerializeAsAny
from torch import Tensor, nn

from seq2seq_attn.corpora.source import Source, Tokens
from seq2seq_attn.models.embedding import DropoutConfig, Embedding
from seq2seq_attn.strict.tagged import Tagged


class Encoded(NamedTuple):
    """The states h_1..h_S of B sources; S need not be the length of the source."""

    states: Tensor  # (B, S, state_size)
    is_state: Tensor  # (B, S) bool, True at states, False on padding: at least one state for each source

    @classmethod
    def packed(cls, states: Tensor, is_state: Tensor) -> Encoded:
        """The states with padding after them, where it is among them: what counts positions sees the states alone."""
        order = (~is_state).sort(dim=1, stable=True).indices
        return cls(states.take_along_dim(order[:, :, None], dim=1), is_state.gather(1, order))


class Encoder(nn.Module, ABC):
    """States h_1..h_S of a source, which the decoder reads through its context.

    An encoder reads a batch of sources as its front end made them: it embeds, convolves or joins positions by itself.
    """

    state_size: int  # width of the states
    directions: int = 1  # 2: the halves of a state are those of a forward and of a backward direction
    reads_as_states: bool = True  # whether its self-attention, if any, is between its states, in their order

    @abstractmethod
    def forward(self, source: Any) -> Encoded:
        """The states of a batch of sources, a `Source`. Padding has no effect on them."""

    def rows(self, source: Any) -> int:
        """How many rows the grid has whose cells, row by row, are the states of this batch; 1: they are a sequence."""
        return 1

    def embed(self, source: Source) -> Tensor:
        """The input (B, L, E) to which gradients are taken, such as embedded tokens. NotImplementedError: none."""
        raise NotImplementedError(f"{type(self).__name__} does not define embed")

    def encode_embedded(self, embedded: Tensor, source: Source) -> Encoded:
        """The states, given what `embed` returned. NotImplementedError: the encoder defines no `embed`."""
        raise NotImplementedError(f"{type(self).__name__} does not define encode_embedded")


class EncoderConfig(Tagged):
    """The configuration of an encoder; every kind has a subclass with its own options and `build`."""

    kind: str = "recurrent"

    reads: ClassVar[type] = Tokens  # the batches that the encoder reads, a kind of `Source`

    @property
    def max_positions(self) -> int | None:
        """The number of positions of the longest source, `</s>` included; None: no limit."""
        return None

    def build_embedding(self, source_size: Any, size: int, dropout: DropoutConfig) -> Any:
        """The embedding of the source, with vectors of this size; None for an encoder that does not read tokens."""
        if self.reads is not Tokens:
            return None
        return Embedding(source_size, size, dropout=dropout.embedding, word_dropout=dropout.word)

    @abstractmethod
    def build(self, source_size: Any, embedding: Any, dropout: DropoutConfig, layer_norm: bool = False) -> Encoder:
        """An untrained encoder. UserError if sizes do not fit.

        Args:
            source_size: Of the front end: the vocabulary, or the features of a position.
            embedding: What `build_embedding` returned.
            dropout: The probabilities.
            layer_norm: Whether recurrent layers are normalized, which otherwise have no normalization.
        """


class SequenceEncoder(nn.Module, ABC):
    """States of a sequence of vectors, one for each of them: the layers above the embeddings."""

    state_size: int  # width of the states
    directions: int = 1  # as in `Encoder`

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """States (B, S, state_size) of vectors (B, S, E); lengths (B,) on the CPU. Padding has no effect."""


class TokenEncoder(Encoder):
    """The states of embedded tokens, one for each token."""

    def __init__(self, embedding: Embedding, network: SequenceEncoder) -> None:
        super().__init__()
        self.embedding = embedding
        self.network = network
        self.state_size, self.directions = network.state_size, network.directions

    def forward(self, source: Tokens) -> Encoded:
        return self.encode_embedded(self.embed(source), source)

    def embed(self, source: Any) -> Tensor:
        embedded: Tensor = self.embedding(source.tokens)
        return embedded

    def encode_embedded(self, embedded: Tensor, source: Any) -> Encoded:
        return Encoded(self.network(embedded, source.lengths), source.is_token)


class TokenEncoderConfig(EncoderConfig):
    """The configuration of an encoder of tokens: that of the network above the embeddings."""

    @abstractmethod
    def network(self, input_size: int, *, dropout: float, is_first: bool, layer_norm: bool = False) -> SequenceEncoder:
        """The network over inputs of this width: embedded tokens, or the states of another network if not `is_first`.

        `dropout` is that between its layers. UserError if sizes do not fit.
        """

    def build(
        self, source_size: Any, embedding: Embedding, dropout: DropoutConfig, layer_norm: bool = False
    ) -> TokenEncoder:
        network = self.network(embedding.size, dropout=dropout.state, is_first=True, layer_norm=layer_norm)
        return TokenEncoder(embedding, network)


def as_token_encoder(config: EncoderConfig) -> EncoderConfig:
    """The configuration itself. ValueError: it is not that of a network above embeddings or other states."""
    if not isinstance(config, TokenEncoderConfig):
        raise ValueError(f"kind={config.kind} is no network above embeddings or other states; use it alone")
    return config


def lowest(*limits: int | None) -> int | None:
    """The lowest of these limits, where None is no limit."""
    return min(filter(None, limits), default=None)


class StackedEncoder(SequenceEncoder):
    """Networks on top of each other: each reads the states of the one below."""

    def __init__(self, encoders: Sequence[SequenceEncoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.state_size, self.directions = encoders[-1].state_size, encoders[-1].directions

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        states = embedded
        for encoder in self.encoders:
            states = encoder(states, lengths)
        return states


Network = Annotated[SerializeAsAny[EncoderConfig], AfterValidator(as_token_encoder)]
Encoders = Annotated[tuple[Network, ...], Field(min_length=2, max_length=16)]


class StackedEncoderConfig(TokenEncoderConfig):
    """`{kind: stacked, encoders: [{kind: recurrent}, {kind: transformer, layers: 1}]}`: self-attention over states."""

    kind: Literal["stacked"] = "stacked"
    encoders: Encoders  # from the lowest to the top

    @property
    def max_positions(self) -> int | None:
        return lowest(*(config.max_positions for config in self.encoders))

    def network(self, input_size: int, *, dropout: float, is_first: bool, layer_norm: bool = False) -> StackedEncoder:
        encoders: list[SequenceEncoder] = []
        for config in self.encoders:
            assert isinstance(config, TokenEncoderConfig)
            size = encoders[-1].state_size if encoders else input_size
            encoders.append(config.network(size, dropout=dropout, layer_norm=layer_norm, is_first=not encoders))
        return StackedEncoder(encoders)
