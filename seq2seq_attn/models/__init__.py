"""Translation models behind one interface (`seq2seq.py`). Importing this package registers its families."""

from seq2seq_attn.models.encoders import (
    ConvolutionalConfig,
    ConvolutionalGridConfig,
    LinearConfig,
    PretrainedGridConfig,
    PyramidalConfig,
)
from seq2seq_attn.models.factored import FactoredEncoderConfig
from seq2seq_attn.models.heads.pointer_generator import PointerGeneratorConfig
from seq2seq_attn.models.multi_source import MultiSourceEncoderConfig
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig

__all__ = [
    "ConvolutionalConfig",
    "ConvolutionalGridConfig",
    "FactoredEncoderConfig",
    "LinearConfig",
    "MultiSourceEncoderConfig",
    "PointerGeneratorConfig",
    "PretrainedGridConfig",
    "PyramidalConfig",
    "RecurrentConfig",
    "TransformerConfig",
]
