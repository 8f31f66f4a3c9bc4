"""Encoders of sources that are not text, one class per file. Importing this package registers their kinds."""

from seq2seq_attn.models.encoders.convolutional_grid import ConvolutionalGridConfig

__all__ = ["ConvolutionalGridConfig"]
