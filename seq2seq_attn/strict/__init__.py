"""Strict configuration records: read from YAML, overridden by `key.path=value`, checked once, written back.

pydantic finds mistakes but reports them in terms of its own classes, which no user has written. Here a mistake becomes
one line: file, line, key, value, what is expected there and the closest valid name.
"""

from seq2seq_attn.strict.mistakes import wanted
from seq2seq_attn.strict.reading import (
    ConfigError,
    Override,
    dump,
    merge,
    overridden_key,
    override,
    parse,
    parse_overridden,
    read_yaml,
)
from seq2seq_attn.strict.records import Layers, Seed, Size, Strict, checked_number

__all__ = [
    "ConfigError",
    "Layers",
    "Override",
    "Seed",
    "Size",
    "Strict",
    "checked_number",
    "dump",
    "merge",
    "overridden_key",
    "override",
    "parse",
    "parse_overridden",
    "read_yaml",
    "wanted",
]
