"""Normalisers, one class per file; a file in this folder is all that a new one needs."""

from seq2seq_attn.attention.registry import import_folder

import_folder(__name__, __path__)
