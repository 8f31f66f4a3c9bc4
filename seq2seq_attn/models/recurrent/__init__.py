"""The recurrent encoder-decoder: cells, encoder, decoders, and the translator that combines them.

Importing this package registers its kinds of decoder.
"""

from seq2seq_attn.models.recurrent.bahdanau import BahdanauConfig
from seq2seq_attn.models.recurrent.conditional import ConditionalConfig
from seq2seq_attn.models.recurrent.hard import HardConfig
from seq2seq_attn.models.recurrent.luong import LuongConfig

__all__ = ["BahdanauConfig", "ConditionalConfig", "HardConfig", "LuongConfig"]
