"""Families of models: the record that `model.kind` of a configuration selects, and what every family offers.

A family is a subclass of `ModelConfig` with a kind of its own and `build`. The rest of the package knows a model by
this record before it is built, and by the interface `Translator` afterwards.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt, model_validator

from seq2seq_attn.models.translator import Translator
from seq2seq_attn.strict import Strict, Tagged


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
