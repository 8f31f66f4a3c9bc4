"""The text of a run as its model reads it, codecs and token ids: made once for all runs on the same text."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from seq2seq_attn import text
from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.runs.cache import Cache
from seq2seq_attn.runs.corpora import read_pairs, train_text
from seq2seq_attn.text.codec import Codec, load_codecs, save_codecs
from seq2seq_attn.text.encoded import EncodedSentences
from seq2seq_attn.text.files import digest

TOKENISED = ".tokenised"  # the cache, in the folder of the runs

Codecs = tuple[Codec, Codec]  # of source and target; the same object twice if they are joint
Encoded = tuple[EncodedSentences, EncodedSentences]  # row i of one translates row i of the other


def codecs_of(config: Config, kept: Cache) -> Codecs:
    """Codecs learnt from the training pairs of a configuration."""
    files = config.data.train
    return kept.get(
        f"codecs {_program()} {config.text!r} {_content(files)}",
        make=lambda: train_text(config, read_pairs(files)),
        save=lambda codecs, entry: save_codecs(*codecs, entry),
        load=load_codecs,
    )


def encoded(files: PairFiles, codecs: Codecs, kept: Cache) -> Encoded:
    """All pairs of these files, blank and long ones too."""
    return kept.get(
        f"pairs {_program()} {[_described(codec) for codec in codecs]} {_content(files)}",
        make=lambda: encode(files, codecs),
        save=_save,
        load=_load,
    )


def encode(files: PairFiles, codecs: Codecs) -> Encoded:
    """The same as `encoded`, made anew and kept nowhere."""
    source, target = codecs
    pairs = read_pairs(files)
    return EncodedSentences.of(map(source.encode, pairs.source)), EncodedSentences.of(map(target.encode, pairs.target))


def _save(pairs: Encoded, entry: Path) -> None:
    source, target = pairs
    source.save(entry, "source")
    target.save(entry, "target")


def _load(entry: Path) -> Encoded:
    return EncodedSentences.load(entry, "source"), EncodedSentences.load(entry, "target")


def _content(files: PairFiles) -> str:
    return f"{files.columns} {[digest(path) for path in files.paths]}"


def _described(codec: Codec) -> str:
    return f"{codec.tokeniser.kind} {codec.tokeniser.options()} {codec.lowercase} {codec.vocabulary.get_itos()}"


@cache
def _program() -> str:
    """What makes ids of text: the code of the room `text`, and what it calls."""
    code = [digest(path) for path in sorted(Path(text.__file__).parent.glob("*.py"))]
    return f"{sys.version} {version('sentencepiece')} {version('sacremoses')} {code}"
