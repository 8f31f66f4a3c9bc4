"""Attention weights between tokens, in files for other programs: JSON lines, or NumPy's .npz, by the file's suffix.

Both formats hold the same records and are written sentence by sentence; docs/alignment.md describes them. A file gets
its final name when it is complete.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq_attn.corpora.vocabulary import EOS, SPECIALS
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.attention_weights import CrossAttention
from seq2seq_attn.files.plain import to_json
from seq2seq_attn.files.writing import explained, writing

if TYPE_CHECKING:  # without torch, so that the name of a file is checked before it is imported
    from seq2seq_attn.runs.model import TrainedModel
    from seq2seq_attn.search.forced import Forced
    from seq2seq_attn.search.hypotheses import Hypothesis

END = SPECIALS[EOS]
BLANK = "a blank sentence has no attention weights; give one with text on both sides"
NO_WEIGHTS = "model.context.kind: this model does not attend to single source words, so it has no weights"

DECIMALS = 6  # of a weight in JSON; a single-precision number near 1 has 7


class TargetAttention(NamedTuple):
    """One translation, found by a search or given."""

    tokens: list[str]  # `</s>` last, unless the search was cut at its maximum length
    score: float  # by which a search ranked it; log p(target | source) of a given one
    weights: NDArray[np.float32]  # (tokens, source tokens); row i was used to predict token i


class TokenAttention(NamedTuple):
    """One sentence; a blank line has no tokens and no translations."""

    source: list[str]  # the tokens that the model read, `</s>` last
    translations: list[TargetAttention]  # best first


Write = Callable[[TokenAttention], None]


def searched_attention(model: TrainedModel, line: str, hypotheses: Sequence[Hypothesis]) -> TokenAttention:
    """The attention of the hypotheses of a line, from a search with `with_weights=True`."""
    found = []
    for hypothesis in hypotheses:
        weights: Any = hypothesis.weights
        words = model.target.given(line).vocabulary.lookup_tokens(hypothesis.tokens)
        tokens = [*words, END][: len(weights)]
        found.append(TargetAttention(tokens, hypothesis.score, weights.numpy()))
    return TokenAttention([*model.source_labels(line, found[0].weights.shape[1])] if found else [], found)


def forced_attention(attention: CrossAttention | None, forced: Forced | None) -> TokenAttention:
    """The attention of a given target; None for a pair with a blank side."""
    if attention is None or forced is None:
        return TokenAttention([], [])
    return TokenAttention([*attention.source], [TargetAttention([*attention.target], forced.total, attention.weights)])


def attention_file(path: Path) -> AbstractContextManager[Write]:
    """A context manager that yields a function, to be called with one sentence after another.

    UserError: the suffix is unknown, before anything is written; or, within the block, the file cannot be written.
    """
    if path.suffix not in _FORMATS:
        raise UserError(f"{path}: attention is written to a file that ends in {' or '.join(_FORMATS)}")
    return _FORMATS[path.suffix](path)


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with writing(path) as file:

        def write(sentence: TokenAttention) -> None:
            line = to_json(_plain(sentence))
            with explained(path):
                file.write(f"{line}\n".encode())

        yield write


def _plain(sentence: TokenAttention) -> dict[str, object]:
    translations = [
        {
            "target": translation.tokens,
            "score": translation.score,
            "weights": translation.weights.astype(np.float64).round(DECIMALS).tolist(),
        }
        for translation in sentence.translations
    ]
    return {"source": sentence.source, "translations": translations}


@contextmanager
def _npz(path: Path) -> Iterator[Write]:
    numbers = count()
    with writing(path) as file:
        archive = zipfile.ZipFile(file, "w")

        def write(sentence: TokenAttention) -> None:
            number = next(numbers)
            with explained(path):
                _add(archive, f"{number}/source", _strings(sentence.source))
                for place, translation in enumerate(sentence.translations):
                    _add(archive, f"{number}/{place}/target", _strings(translation.tokens))
                    _add(archive, f"{number}/{place}/score", translation.score)
                    _add(archive, f"{number}/{place}/weights", translation.weights)

        try:
            yield write
        finally:
            with explained(path):
                archive.close()  # writes the central directory


def _strings(tokens: list[str]) -> ArrayLike:
    # The dtype is given because an empty list has none.
    return np.array(tokens, dtype=np.str_)


def _add(archive: zipfile.ZipFile, name: str, values: ArrayLike) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.save(entry, values, allow_pickle=False)


_FORMATS = {".jsonl": _json_lines, ".npz": _npz}
