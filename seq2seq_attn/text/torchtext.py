"""Bring over what a user of torchtext's classic API (Field, Vocab, Dataset, Vectors; 0.6.0) already has.

Needs no torchtext here: it reads attributes that the user's objects have. The extra `[torchtext]` installs
the version that loads under any torch; later ones do not load under torch 2.4 and newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.vocabulary import SPECIALS, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor


class HasVectors(Protocol):
    """`torchtext.vocab.Vectors` (GloVe, FastText, ...), or a `Vocab` that was built with vectors."""

    stoi: dict[str, int]
    vectors: Tensor


class Embedding(NamedTuple):
    """Rows for an embedding layer, and how much of it is pretrained."""

    matrix: Tensor  # (V, D)
    coverage: float  # share of the ordinary tokens that had a vector


def vocabulary_of(vocab: Any, specials: Iterable[str] = ("<unk>", "<pad>", "<bos>", "<sos>", "<eos>")) -> Vocabulary:
    """The ordinary tokens of a `torchtext.vocab.Vocab`, in its order, after this package's special tokens.

    Its own `specials`, by the names that its `Field` gave them, are left out wherever they stand (at the end
    under `specials_first=False`): `<unk> <pad> <s> </s>` with the ids 0 to 3 take their place.
    """
    left_out = {*specials, *SPECIALS}
    return Vocabulary(token for token in vocab.itos if token not in left_out)


def corpus_of(dataset: Any, source: str = "src", target: str = "trg") -> ParallelCorpus:
    """The lines of a `TranslationDataset`, or any dataset with two text fields named `source` and `target`.

    Its examples are tokenised already, by the field's own tokeniser: the lines hold the tokens with a space
    between, so the `word` tokeniser gives the same tokens again.
    """
    for name in (source, target):
        if name not in dataset.fields:
            raise UserError(f"torchtext: the dataset has no field {name!r}; it has {', '.join(dataset.fields)}")
    return ParallelCorpus(
        [_line(getattr(example, source)) for example in dataset.examples],
        [_line(getattr(example, target)) for example in dataset.examples],
        f"torchtext {type(dataset).__name__}",
    )


def embedding_of(vectors: HasVectors, vocabulary: Vocabulary, default: Tensor) -> Embedding:
    """Rows (V, D) for a vocabulary: a token's vector if `vectors` has one, else its row of `default`.

    `default` (V, D) is the layer's own initial weight; it is not changed. The special tokens keep theirs.
    Raises UserError if the sizes do not fit.
    """
    size, wanted = vectors.vectors.shape[1], (len(vocabulary), vectors.vectors.shape[1])
    if default.shape != wanted:
        raise UserError(
            f"torchtext: {len(vocabulary)} tokens and vectors of {size} dimensions need an embedding of "
            f"{wanted}, not {tuple(default.shape)}; set the embedding size to {size}"
        )
    matrix = default.clone()
    tokens = vocabulary.get_itos()[len(SPECIALS) :]
    found = [token for token in tokens if token in vectors.stoi]
    rows = [vectors.stoi[token] for token in found]
    matrix[vocabulary.lookup_indices(found)] = vectors.vectors[rows].to(default)
    return Embedding(matrix, len(found) / max(len(tokens), 1))


def _line(tokens: list[str] | str) -> str:
    return tokens if isinstance(tokens, str) else " ".join(tokens)
