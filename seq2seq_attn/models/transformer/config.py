"""The configuration of the Transformer, and how a model is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import sqrt
from typing import Any, Literal

from pydantic import Field, SerializeAsAny, model_validator
from torch import nn

from seq2seq_attn import attention
from seq2seq_attn.attention import own_options
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.models.context_config import (
    ContextConfig,
    NormalizerConfig,
    PositionConfig,
    ScorerConfig,
    WindowConfig,
    build_context,
    build_multi_head,
    build_part,
)
from seq2seq_attn.models.embedding import DropoutConfig, Probability
from seq2seq_attn.models.encoder import Encoder, EncoderConfig, TokenEncoderConfig
from seq2seq_attn.models.transformer.decoder import TransformerDecoder
from seq2seq_attn.models.transformer.encoder import TransformerEncoder
from seq2seq_attn.models.transformer.layers import Activation, DecoderLayer, EncoderLayer, FeedForward, Norm
from seq2seq_attn.models.transformer.seq2seq import TransformerSeq2Seq
from seq2seq_attn.strict import Layers, Size, Strict

SCALED_DOT = ScorerConfig(name="scaled_dot")
HEADS = 4


class LayersConfig(Strict):
    """The layers of a Transformer's encoder or decoder; the defaults are those of `tiny` (see docs/transformer.md)."""

    layers: Layers = 4  # each with self-attention and a feed-forward network
    heads: Size = HEADS  # of self-attention; they divide the width
    scorer: ScorerConfig = SCALED_DOT  # of self-attention
    normalizer: NormalizerConfig = NormalizerConfig()  # of self-attention
    window: WindowConfig | None = None  # of self-attention
    position: PositionConfig | None = PositionConfig(name="sinusoidal")  # null: none, and the order is not known
    feed_forward_size: Size = 256  # of the hidden layer of the networks
    activation: Activation = "relu"  # of the feed-forward networks
    norm: Norm = "pre"  # layer normalization before every sublayer, or after its residual connection
    layer_drop: float = Field(default=0.0, ge=0.0, lt=1.0)  # probability of skipping a layer in training
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # of the attention weights
    feed_forward_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # of the hidden layer of the networks

    @property
    def max_positions(self) -> int | None:
        """The length of a table of positions; None: no limit."""
        option = None if self.position is None else own_options(self.position.part).get("max_positions")
        if self.position is None or option is None:
            return None
        return int(self.position.options.get("max_positions", option.default))

    def make_position(self, size: int, place: str, *, in_attention: bool) -> attention.Position | None:
        """A new position, if it acts there: within every self-attention, or below the first layer.

        UserError if sizes do not fit.
        """
        config = self.position
        if config is None or config.part.in_attention != in_attention:
            return None
        return build_part(f"{place}.position", config, partial(config, size, self.heads))

    def self_attention(self, size: int, place: str, *, causal: bool) -> attention.SelfAttention:
        """The self-attention of a layer. UserError if sizes do not fit, or a part needs the steps one by one."""
        config = ContextConfig(scorer=self.scorer, normalizer=self.normalizer, window=self.window, heads=self.heads)
        position = self.make_position(size, place, in_attention=True)
        heads = build_multi_head(config, size, size, place=place, dropout=self.attention_dropout, position=position)
        try:
            return attention.SelfAttention(heads, causal)
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None

    def feed_forward(self, size: int) -> FeedForward:
        """The feed-forward network of a layer."""
        return FeedForward(size, self.feed_forward_size, self.activation, self.feed_forward_dropout)


class TransformerEncoderConfig(LayersConfig, TokenEncoderConfig):
    """`{kind: transformer, layers: 4, heads: 4, feed_forward_size: 256}`; as wide as its input."""

    kind: Literal["transformer"] = "transformer"

    def network(
        self, input_size: int, *, dropout: float, is_first: bool, layer_norm: bool = False
    ) -> TransformerEncoder:
        place, size = "model.encoder", input_size
        position = self.make_position(size, place, in_attention=False)
        layers = [
            EncoderLayer(
                self.self_attention(size, place, causal=False), self.feed_forward(size), size, self.norm, dropout
            )
            for _ in range(self.layers)
        ]
        encoder = TransformerEncoder(
            layers,
            size,
            self.norm,
            position,
            scale=sqrt(size) if is_first else 1.0,
            dropout=dropout,
            layer_drop=self.layer_drop,
        )
        initialize(encoder)
        return encoder


class TransformerDropout(DropoutConfig):
    embedding: Probability = 0.0
    state: Probability = 0.15
    readout: Probability = 0.0


class TransformerConfig(ModelConfig):
    """Transformer encoder-decoder (Vaswani et al. 2017), or a recurrent encoder with a Transformer decoder.

    `embedding_size` is the width of all layers. What is not given of `encoder` and `context` is that of a Transformer:
    `encoder.kind=transformer`, `context.scorer=scaled_dot` and `context.heads=4`.
    """

    decoder_size_key = "model.decoder.feed_forward_size"

    kind: Literal["transformer"] = "transformer"
    embedding_size: Size = 128
    encoder: SerializeAsAny[EncoderConfig] = TransformerEncoderConfig()
    summary: Literal["last", "mean", "learned"] = "mean"  # C of the fixed context
    context: ContextConfig = ContextConfig(scorer=SCALED_DOT, heads=HEADS)
    decoder: LayersConfig = LayersConfig()
    dropout: TransformerDropout = TransformerDropout()

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_a_transformer(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        defaults: dict[str, dict[str, Any]] = {
            "encoder": {"kind": "transformer"},
            "context": {"scorer": "scaled_dot", "heads": HEADS},
        }
        given = {key: values[key] for key in defaults if isinstance(values.get(key), Mapping)}
        return {**values, **{key: defaults[key] | given[key] for key in given}}

    @property
    def max_positions(self) -> tuple[int | None, int | None]:
        return self.encoder.max_positions, self.decoder.max_positions

    @property
    def decoder_size(self) -> int:
        return self.decoder.feed_forward_size

    def with_decoder_size(self, size: int) -> TransformerConfig:
        return self.model_copy(update={"decoder": self.decoder.model_copy(update={"feed_forward_size": size})})

    def build(self, source_size: Any, target_size: int, joint: bool) -> TransformerSeq2Seq:
        tied = self.tied(joint, self.embedding_size)
        embeddings = self.build_embeddings(self.dropout, tied, source_size, target_size, joint)
        encoder = self.encoder.build(source_size, embeddings[0], self.dropout)
        decoder = self._decoder(encoder)
        head = self.build_head(self.embedding_size, embeddings[1], tied)
        return TransformerSeq2Seq(encoder, embeddings[1], decoder, head, readout_dropout=self.dropout.readout)

    def _decoder(self, encoder: Encoder) -> TransformerDecoder:
        options, place, size, dropout = self.decoder, "model.decoder", self.embedding_size, self.dropout.state
        position = options.make_position(size, place, in_attention=False)
        layers = []
        for _ in range(options.layers):
            context = self._context(encoder)
            projects = isinstance(context, attention.MultiHead) and context.value_size == size
            layers.append(
                DecoderLayer(
                    options.self_attention(size, place, causal=True),
                    context,
                    nn.Identity() if projects else nn.Linear(context.value_size, size),
                    options.feed_forward(size),
                    size,
                    options.norm,
                    dropout,
                )
            )
        decoder = TransformerDecoder(
            layers,
            size,
            options.norm,
            position,
            scale=sqrt(size),
            dropout=dropout,
            layer_drop=options.layer_drop,
        )
        initialize(decoder)
        return decoder

    def _context(self, encoder: Encoder) -> attention.Context:
        """The context of one layer."""
        config, size = self.context, self.embedding_size
        if config.kind == "none":
            raise UserError(
                "model.context.kind=none leaves a Transformer without the source, as its decoder has no first state; "
                "choose fixed, mean or attention"
            )
        if config.kind == "attention":
            if config.separate_values or config.frozen_scorer:
                raise UserError(
                    "model.context.separate_values and frozen_scorer are not for a Transformer, whose heads project "
                    "keys and values; leave them out"
                )
            return build_multi_head(
                config, size, encoder.state_size, place="model.context", dropout=self.decoder.attention_dropout
            )
        summary = attention.summary_of(self.summary, encoder.state_size, encoder.directions)
        return build_context(config, size, encoder.state_size, encoder.directions, summary)


def initialize(stack: nn.Module) -> None:
    """Weights of linear layers uniform in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010, eq. 16), biases 0."""
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
