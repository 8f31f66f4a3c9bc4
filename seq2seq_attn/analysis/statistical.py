"""Word alignments by a statistical aligner: the row that attention is to be compared with.

eflomal (Östling & Tiedemann 2016) samples an HMM with fertilities in both directions. It learns from what the model
beside it has learnt from: a run's training pairs, cut by the run's tokenisers. The pairs to align join them, as an
aligner needs no held-out text. The sampling takes no seed: links differ a little from one call to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.pharaoh import Links, read_gold
from seq2seq_attn.runs import Say
from seq2seq_attn.runs.data import read_pairs
from seq2seq_attn.runs.folder import read_config
from seq2seq_attn.text.codec import Codec, load_codecs
from seq2seq_attn.text.corpus import ParallelCorpus


class TwoDirections(NamedTuple):
    """The links (source word, target word) of each pair; none for a pair with a blank side."""

    forward: list[Links]  # each target word has one, or none
    backward: list[Links]  # each source word has one, or none


def align_by_eflomal(run: Path, pairs: ParallelCorpus, say: Say = lambda _: None) -> TwoDirections:
    """Links between the whitespace-separated words of each pair: two words are linked if any of their pieces are.

    UserError: eflomal is not installed, or the run's training pairs are not where its configuration has them.
    """
    try:
        from eflomal import Aligner
    except ImportError as error:
        raise UserError(f"eflomal cannot be used ({error}); install it: pip install 'seq2seq_attn[align]'") from None
    training = read_pairs(read_config(run).data.train)
    source, target = load_codecs(run)
    say(f"eflomal learns from {len(training):,} training pairs and the {len(pairs):,} to align; this may take minutes")
    with TemporaryDirectory() as folder:
        files = Path(folder, "forward"), Path(folder, "backward")
        Aligner().align(
            _lines(source, [*pairs.source, *training.source]),
            _lines(target, [*pairs.target, *training.target]),
            links_filename_fwd=str(files[0]),
            links_filename_rev=str(files[1]),
        )
        found = (read_gold(file, len(pairs) + len(training)).sure for file in files)
        return TwoDirections(*(_between_words(links[: len(pairs)], pairs, source, target) for links in found))


def _lines(codec: Codec, lines: Iterable[str]) -> list[str]:
    """Each line's pieces apart by blanks, with no other white space, at which eflomal would cut them again."""
    return [" ".join(re.sub(r"\s", "▁", piece) for piece in codec.pieces(line)) for line in lines]


def _between_words(links: list[Links], pairs: ParallelCorpus, source: Codec, target: Codec) -> list[Links]:
    """Links between words from those between pieces."""
    found: list[Links] = []
    for of_pair, left, right in zip(links, pairs.source, pairs.target, strict=True):
        sources, targets = source.word_indices(left), target.word_indices(right)
        found.append(frozenset((sources[i], targets[j]) for i, j in of_pair))
    return found
