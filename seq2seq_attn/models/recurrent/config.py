"""The recurrent model's configuration, and the model that it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from seq2seq_attn import attention
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.bahdanau import BahdanauDecoder
from seq2seq_attn.models.recurrent.cells import CELLS
from seq2seq_attn.models.recurrent.conditional import ConditionalDecoder
from seq2seq_attn.models.recurrent.context import ContextConfig, build_context
from seq2seq_attn.models.recurrent.decoders import Decoder
from seq2seq_attn.models.recurrent.embedding import Embedding
from seq2seq_attn.models.recurrent.encoder import RecurrentEncoder
from seq2seq_attn.models.recurrent.luong import LuongDecoder
from seq2seq_attn.models.recurrent.readout import DeepOutput, PlainOutput
from seq2seq_attn.models.recurrent.reversed_encoder import AnyEncoder, ReversedEncoder
from seq2seq_attn.models.recurrent.translator import RecurrentTranslator
from seq2seq_attn.ops.linear import Linear
from seq2seq_attn.ops.replace import use_fused_modules
from seq2seq_attn.strict import Strict

CellName = Literal["gru", "lstm", "rnn"]
Probability = Field(default=0.0, ge=0.0, lt=1.0)


class EncoderConfig(Strict):
    cell: CellName = "gru"
    hidden_size: PositiveInt = 256  # of each direction
    layers: PositiveInt = 1
    bidirectional: bool = True
    reverse_source: bool = False  # from the last word to the first; positions stay those of the sentence as written

    @model_validator(mode="after")
    def _what_is_read_both_ways_has_no_reverse(self) -> EncoderConfig:
        if self.reverse_source and self.bidirectional:
            raise ValueError("reverse_source=true is for one direction, two read both ways; set bidirectional=false")
        return self


class DecoderConfig(Strict):
    kind: Literal["bahdanau", "luong", "conditional"] = "bahdanau"
    cell: CellName = "gru"
    hidden_size: PositiveInt = 512
    input_feeding: bool = True  # of the luong decoder
    readout: Literal["deep", "plain"] = "deep"
    readout_size: PositiveInt | None = None  # of the deep readout; the embeddings' size unless given


class DropoutConfig(Strict):
    """Probabilities of dropping; `word` drops whole embedded words, `state` the encoder's states."""

    embedding: float = Probability
    word: float = Probability
    state: float = Probability
    readout: float = Probability


class PretrainedConfig(Strict):
    """Files of word vectors: text (GloVe, fastText, word2vec; plain or .gz), or the .pt of torchtext's `Vectors`."""

    source: Path | None = None
    target: Path | None = None


class RecurrentConfig(Strict):
    """GRU, LSTM or plain RNN encoder-decoder."""

    kind: Literal["recurrent"] = "recurrent"
    embedding_size: PositiveInt = 256
    tie_embeddings: Literal["none", "target", "all"] = "none"
    pretrained_embeddings: PretrainedConfig = PretrainedConfig()  # where they start; tokens without a vector at random
    layer_norm: bool = False
    encoder: EncoderConfig = EncoderConfig()
    summary: Literal["last", "mean", "learned"] = "last"  # C, which sets H_0 = tanh(W C)
    context: ContextConfig = ContextConfig()
    decoder: DecoderConfig = DecoderConfig()
    dropout: DropoutConfig = DropoutConfig()

    @model_validator(mode="after")
    def _one_embedding_starts_once(self) -> RecurrentConfig:
        source, target = self.pretrained_embeddings.source, self.pretrained_embeddings.target
        if self.tie_embeddings == "all" and source and target and source != target:
            raise ValueError(
                f"tie_embeddings=all makes one embedding of both, which cannot start from {source} and from {target}; "
                f"name one file in pretrained_embeddings"
            )
        return self


def build_recurrent(config: RecurrentConfig, source_size: int, target_size: int, joint: bool) -> RecurrentTranslator:
    """The model for vocabularies of these sizes; `joint` says that both are the same one."""
    dropout = config.dropout
    embedding = {"dropout": dropout.embedding, "word_dropout": dropout.word}
    source_embedding = Embedding(source_size, config.embedding_size, **embedding)
    if config.tie_embeddings == "all":
        if not joint:
            raise UserError("model.tie_embeddings=all needs one vocabulary for both languages; set text.joint=true")
        target_embedding = source_embedding
    else:
        target_embedding = Embedding(target_size, config.embedding_size, **embedding)
    encoder = _encoder(config)
    summary = _summary(config, encoder)
    context = build_context(config.context, config.decoder.hidden_size, encoder, summary)
    use_fused_modules(context)  # attention itself is made of torch alone
    decoder = _decoder(config, context)
    readout, features = _readout(config, context)
    output = Linear(features, target_size)
    if config.tie_embeddings != "none":
        if features != config.embedding_size:
            raise UserError(
                f"model.tie_embeddings={config.tie_embeddings} needs features of the embeddings' size "
                f"{config.embedding_size}, got {features}; use decoder.readout=deep without decoder.readout_size"
            )
        output.weight = target_embedding.table.weight
    return RecurrentTranslator(
        source_embedding,
        encoder,
        summary,
        target_embedding,
        decoder,
        readout,
        output,
        state_dropout=dropout.state,
    )


def _encoder(config: RecurrentConfig) -> AnyEncoder:
    options = config.encoder
    encoder = RecurrentEncoder(
        config.embedding_size,
        options.hidden_size,
        cell=options.cell,
        layers=options.layers,
        bidirectional=options.bidirectional,
        dropout=config.dropout.state,
        layer_norm=config.layer_norm,
    )
    return ReversedEncoder(encoder) if options.reverse_source else encoder


def _summary(config: RecurrentConfig, encoder: AnyEncoder) -> attention.Summary:
    if config.summary == "last":
        return attention.LastState(directions=encoder.directions)
    return attention.MeanState() if config.summary == "mean" else attention.LearnedPool(encoder.state_size)


def _decoder(config: RecurrentConfig, context: attention.Context) -> Decoder:
    options, size = config.decoder, config.embedding_size
    cell = CELLS[options.cell](options.hidden_size, config.layer_norm)
    if options.kind == "bahdanau":
        return BahdanauDecoder(cell, context, size)
    if options.kind == "luong":
        return LuongDecoder(cell, context, size, input_feeding=options.input_feeding)
    return ConditionalDecoder(cell, CELLS[options.cell](options.hidden_size, config.layer_norm), context, size)


def _readout(config: RecurrentConfig, context: attention.Context) -> tuple[DeepOutput | PlainOutput, int]:
    options = config.decoder
    if options.readout == "plain":
        return PlainOutput(dropout=config.dropout.readout), options.hidden_size
    size = options.readout_size or config.embedding_size
    readout = DeepOutput(
        options.hidden_size, context.value_size, config.embedding_size, size, dropout=config.dropout.readout
    )
    return readout, size
