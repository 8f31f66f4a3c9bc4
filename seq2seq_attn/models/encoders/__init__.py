"""Encoders of sources that are not text, one class per file. Importing this package registers their kinds."""

from seq2seq_attn.models.encoders.convolutional import ConvolutionalConfig
from seq2seq_attn.models.encoders.convolutional_grid import ConvolutionalGridConfig
from seq2seq_attn.models.encoders.frames import LinearConfig
from seq2seq_attn.models.encoders.pretrained_grid import PretrainedGridConfig
from seq2seq_attn.models.encoders.pyramidal import PyramidalConfig

__all__ = ["ConvolutionalConfig", "ConvolutionalGridConfig", "LinearConfig", "PretrainedGridConfig", "PyramidalConfig"]
