"""What all families of models share in their configuration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import SerializeAsAny, model_validator
from torch import nn

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.embedding import DropoutConfig, Embedding
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.models.head import Head, HeadConfig, SoftmaxHeadConfig
from seq2seq_attn.models.seq2seq import Seq2Seq
from seq2seq_attn.strict import Size, Strict
from seq2seq_attn.strict.tagged import Tagged

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


Tied = Literal["none", "target", "all"]  # which embeddings share their table with the output projection


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
    encoder: SerializeAsAny[EncoderConfig]  # of the source
    head: SerializeAsAny[HeadConfig] = SoftmaxHeadConfig()  # probabilities of the next token

    @abstractmethod
    def build(self, source_size: Any, target_size: int, joint: bool) -> Seq2Seq:
        """An untrained model; parameters are drawn from torch's global generator.

        Args:
            source_size: Of the source's front end: the vocabulary, or the features of a position.
            target_size: The size of the target vocabulary.
            joint: Whether source and target share one vocabulary.

        Raises:
            UserError: Options contradict each other.
        """

    def build_embeddings(
        self, dropout: DropoutConfig, tied: Tied, source_size: Any, target_size: int, joint: bool
    ) -> tuple[Any, Embedding]:
        """The embeddings of source and target, the same one twice if `tied` is `all`; None if the source has no tokens.

        UserError if they are to be shared by two vocabularies.
        """
        if tied == "all" and not joint:
            raise UserError("model.tie_embeddings=all needs one vocabulary for both languages; set text.joint=true")
        source = self.encoder.build_embedding(source_size, self.embedding_size, dropout)
        if tied == "all":
            return source, source
        target = Embedding(target_size, self.embedding_size, dropout=dropout.embedding, word_dropout=dropout.word)
        return source, target

    def build_head(self, features: int, target: Embedding, tied: Tied, inputs: int | None = None) -> Head:
        """The head of features (R,), whose projection is the table of the target's embeddings if they are `tied`.

        `inputs` is the width of all `Read.inputs` together, if there are any. UserError if the sizes do not fit.
        """
        projection = nn.Linear(features, target.table.num_embeddings)
        if tied != "none":
            if features != self.embedding_size:
                raise UserError(
                    f"model.tie_embeddings={tied} needs features of the embeddings' size {self.embedding_size}, got "
                    f"{features}; use decoder.readout=deep without decoder.readout_size"
                )
            projection.weight = target.table.weight
        return self.head.build(projection, inputs or features)

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
