"""Convert objects of torchtext's classic API (Field, Vocab, Dataset; 0.6.0).

torchtext itself is not imported: only attributes of the given objects are read. The extra `[torchtext]` installs the
version that loads under any torch; later ones do not load under torch 2.4 and newer. `Vectors`, and a `Vocab` built
with them, need no conversion: `corpora/vectors.py` accepts them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.vocabulary import SPECIALS, Vocabulary
from seq2seq_attn.errors import UserError


def vocabulary_from_torchtext(
    vocab: Any, specials: Iterable[str] = ("<unk>", "<pad>", "<bos>", "<sos>", "<eos>")
) -> Vocabulary:
    """This package's special tokens, then the ordinary tokens of a `torchtext.vocab.Vocab` in its order.

    `specials` are the special tokens of its `Field`. They are omitted wherever they occur (at the end with
    `specials_first=False`); `<unk> <pad> <s> </s>` with the ids 0 to 3 replace them.
    """
    omitted = {*specials, *SPECIALS}
    return Vocabulary(token for token in vocab.itos if token not in omitted)


def corpus_from_torchtext(dataset: Any, source: str = "src", target: str = "trg") -> ParallelCorpus:
    """The lines of a `TranslationDataset`, or of any dataset whose two text fields are named `source` and `target`.

    Its examples have been tokenized by the field. Each line is those tokens joined by spaces, so the `word` tokenizer
    yields the same tokens. Raises UserError if the dataset lacks one of the fields.
    """
    for name in (source, target):
        if name not in dataset.fields:
            raise UserError(f"torchtext: the dataset has no field {name!r}; it has {', '.join(dataset.fields)}")
    return ParallelCorpus(
        [_line(getattr(example, source)) for example in dataset.examples],
        [_line(getattr(example, target)) for example in dataset.examples],
        f"torchtext {type(dataset).__name__}",
    )


def _line(tokens: list[str] | str) -> str:
    return tokens if isinstance(tokens, str) else " ".join(tokens)
