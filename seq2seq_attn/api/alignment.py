"""Pairs of sentences, and links between their words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from seq2seq_attn.api.answers import Alignments, PairLinks
from seq2seq_attn.corpora.corpus import ParallelCorpus, refuse_no_text
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import Links, Method, symmetrize
from seq2seq_attn.runs import Say, find_run, warn

Pairs = ParallelCorpus | Iterable[tuple[str, str]]


def align_by_eflomal(run: Path | str, pairs: Pairs, *, symmetrize: Method, say: Say = warn) -> Alignments:
    """Links between the words of sources and targets, by a statistical aligner that the training pairs of a run train.

    Args:
        run: The run.
        pairs: Sources and their targets.
        symmetrize: How the links of the two directions are combined.
        say: Called with messages.

    Raises:
        UserError: eflomal is not installed, or fails.
    """
    from seq2seq_attn.analysis import word_alignment

    corpus = corpus_of(pairs)
    found = word_alignment.align_by_eflomal(find_run(Path(run)), corpus, say)
    return alignments(corpus, combined(found.forward, found.backward, symmetrize), str.split)


def combined(forward: Iterable[Links], backward: Iterable[Links], method: Method) -> list[Links]:
    """The links of the two directions of each pair, combined."""
    return [symmetrize(*links, method) for links in zip(forward, backward, strict=True)]


def alignments(corpus: ParallelCorpus, links: Sequence[Links], words: Callable[[str], Sequence[str]]) -> Alignments:
    """One record per pair; `words` splits a source into those that links name."""
    named = (tuple(words(line)) if line.strip() else () for line in corpus.source)
    return Alignments(map(PairLinks, corpus.source, corpus.target, links, named))


def corpus_of(pairs: Pairs) -> ParallelCorpus:
    """The pairs as a corpus. UserError: one of them is not two texts."""
    if isinstance(pairs, ParallelCorpus):
        return pairs
    sources, targets = [], []
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2:
            raise UserError(f"pair {number}: {pair!r} is not a pair of sentences; give a list of (source, target)")
        refuse_no_text(pair, f"pair {number}, side")
        sources.append(pair[0])
        targets.append(pair[1])
    return ParallelCorpus(sources, targets, "pairs")
