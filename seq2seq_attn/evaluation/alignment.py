"""Word alignments: links as text, their agreement with gold links, and one alignment from those of two directions.

Files are in the Pharaoh format: one line per sentence pair, links separated by blanks. `i-j` links source word i to
target word j, both counted from 0. Gold alignments write a link that is possible but not sure as `ipj`
(lilt/alignment-scripts, SimAlign) or `i?j` (cdec): both are read, the first is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from seq2seq_attn.errors import UserError, shown
from seq2seq_attn.files.reading import iterate_lines

Link = tuple[int, int]  # source word, target word
Links = Set[Link]  # of one sentence pair

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")


class Gold(NamedTuple):
    """The gold links of one sentence pair. Sure links are possible as well: sure <= possible (Och & Ney, 2003)."""

    sure: Links
    possible: Links


class GoldCorpus(NamedTuple):
    """The gold links of every sentence pair, in the order that `alignment_error_rate(predicted, *gold)` takes."""

    sure: list[Links]
    possible: list[Links]


def parse_links(line: str, place: str = "links") -> Gold:
    """The links of a line. UserError, starting with `place`: a word is not a link."""
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            rule = "write i-j, or ipj for one that is possible, not sure"
            raise UserError(f"{place}: {shown(word)} is not a link; {rule}")
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def format_links(links: Iterable[Link]) -> str:
    """The links of one sentence pair as a line, sorted."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def read_gold(path: Path, sentences: int | None = None) -> GoldCorpus:
    """The links in a text file; an empty line is a sentence pair without links.

    UserError: the file cannot be read, contains a bad link, or does not have `sentences` lines, if given.
    """
    lines = list(iterate_lines(path))
    if sentences is not None and len(lines) != sentences:
        raise _unequal(path, len(lines), sentences)
    gold = [parse_links(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    return GoldCorpus([pair.sure for pair in gold], [pair.possible for pair in gold])


def read_gold_of(
    path: Path, sources: Sequence[str], targets: Sequence[str], words: Callable[[str], Sequence[str]] = str.split
) -> GoldCorpus:
    """The links in a file between the words of these sentence pairs; otherwise as `iterate_gold_of`."""
    gold = list(iterate_gold_of(path, zip(sources, targets, strict=True), words))
    return GoldCorpus([pair.sure for pair in gold], [pair.possible for pair in gold])


def iterate_gold_of(
    path: Path, pairs: Iterable[tuple[str, str]], words: Callable[[str], Sequence[str]] = str.split
) -> Iterator[Gold]:
    """The links in a file between the words of these sentence pairs, one after the other.

    `words` are those of a source that is not blank; the words of a target are what white space separates.

    UserError: as for `read_gold`, or a link to a word outside its sentence, as in files that count words from 1.
    """
    lines, waiting = iterate_lines(path), iter(pairs)
    for number, (line, pair) in enumerate(zip_longest(lines, waiting), start=1):
        if line is None or pair is None:
            found = number - (line is None) + sum(1 for _ in lines)  # the one that has ended adds nothing
            raise _unequal(path, found, number - (pair is None) + sum(1 for _ in waiting))
        gold = parse_links(line, f"{path}, line {number}")
        m, n = len(words(pair[0])) if pair[0].strip() else 0, len(pair[1].split())
        for i, j in sorted(gold.possible):
            if i >= m or j >= n:
                raise UserError(
                    f"{path}, line {number}: link {i}-{j}, but the pair has {m} source and {n} target "
                    "words; words are separated by white space and counted from 0"
                )
        yield gold


def _unequal(path: Path, lines: int, sentences: int) -> UserError:
    return UserError(f"{path}: {lines} lines for {sentences} sentence pairs; each needs its line of links")


def read_gold_for(path: Path, predicted: Sequence[Links], first_word: int | None = None) -> GoldCorpus:
    """Gold links to be compared with predicted ones whose sentences are not known; the result counts words from 0.

    `first_word` is the number of the first word in the file. If it is not given, it is 0, and a file that seems to
    count from 1 is refused: none of its links has a 0 on either side, although predicted links have.

    UserError: as for `read_gold`, or the file contradicts `first_word`.
    """

    def shifted(corpus: list[Links]) -> list[Links]:
        return [frozenset((i - 1, j - 1) for i, j in links) for links in corpus]

    gold = read_gold(path, len(predicted))
    numbers = {number for links in gold.possible for link in links for number in link}
    seems_one = 0 not in numbers and any(0 in link for links in predicted for link in links)
    if first_word is None and numbers and seems_one:
        raise UserError(
            f"{path}: no link has a first word (0), so the file seems to count words from 1; with --first-word 1 it is "
            "read so, with --first-word 0 as it is"
        )
    if first_word != 1:
        return gold
    if 0 in numbers:
        raise UserError(f"{path}: has links with word 0, so it does not count words from 1; leave out --first-word")
    sure, possible = (shifted(links) for links in gold)
    return GoldCorpus(sure, possible)


@dataclass(frozen=True)
class Agreement:
    """How well predicted links agree with gold links (Och & Ney, 2003), each rate from 0 to 1.

    Links are counted over all sentence pairs: A predicted, S sure, P possible.

        precision = |A & P| / |A|     recall = |A & S| / |S|     AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

    Where no link is sure, recall is 1 and AER = 1 - precision: the share of predicted links that are not possible. A
    spoken word is such a case: any of its frames may be linked to it, but none must be.
    """

    predicted: int  # |A|
    sure: int  # |S|
    predicted_and_sure: int  # |A & S|
    predicted_and_possible: int  # |A & P|
    pairs: tuple[tuple[int, ...], ...] = field(default=(), repr=False, compare=False)  # of each source, if known

    @property
    def precision(self) -> float:
        """|A & P| / |A|; 0 if nothing was predicted."""
        return self.predicted_and_possible / max(self.predicted, 1)

    @property
    def recall(self) -> float:
        """|A & S| / |S|; 1 if no link is sure."""
        return self.predicted_and_sure / self.sure if self.sure else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 - AER if every possible link is sure."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    @property
    def error_rate(self) -> float:
        """AER; lower is better."""
        return 1 - (self.predicted_and_sure + self.predicted_and_possible) / max(1, self.predicted + self.sure)

    @property
    def rates(self) -> dict[str, float]:
        """The four rates by their names."""
        return {"aer": self.error_rate, "precision": self.precision, "recall": self.recall, "f1": self.f1}

    @property
    def error_rate_interval(self) -> tuple[float, float] | None:
        """The central 95 % of AER over resampled sources; None if fewer than two are known, or nothing is linked."""
        if len(self.pairs) < 2 or not sum(pair[0] + pair[1] for pair in self.pairs):
            return None
        import numpy as np  # here, because help texts import this file

        from seq2seq_attn.evaluation.resampling import rate_interval

        predicted, sure, hits_of_sure, hits = np.array(self.pairs).T
        links = predicted + sure
        return rate_interval(np.stack((links - hits_of_sure - hits, links), axis=-1)[None])


def agreement(
    predicted: Sequence[Links],
    sure: Sequence[Links],
    possible: Sequence[Links] | None = None,
    sources: Sequence[str] | None = None,
) -> Agreement:
    """Compare links, one set per sentence pair; without `possible`, only the sure links are possible.

    A sure link counts as possible whether or not `possible` contains it. With `sources`, the interval draws pairs that
    have the same source together; without them, one by one.
    UserError: the numbers of sentence pairs differ, or the gold alignment has no link.
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise UserError(
            f"{len(predicted)} lines of predicted links, {len(sure)} of sure and {len(possible)} of possible "
            "ones; line i of each must belong to the same sentence pair"
        )
    if not any(sure) and not any(possible):
        raise UserError("nothing to score: the gold alignment has no link; check that it is the right file")
    counts: tuple[tuple[int, ...], ...] = tuple(map(count_links, predicted, sure, possible))
    predicted_links, sure_links, of_sure, of_possible = map(sum, zip(*counts, strict=True))
    if sources is not None:
        import numpy as np  # here, because help texts import this file

        from seq2seq_attn.evaluation.counts import number_sources, sum_by_source

        summed = sum_by_source(np.array([counts]), number_sources(sources))
        counts = tuple(map(tuple, summed[0].tolist()))
    return Agreement(predicted_links, sure_links, of_sure, of_possible, counts)


def count_links(predicted: Links, sure: Links, possible: Links) -> tuple[int, int, int, int]:
    """The numbers of `Agreement` for one sentence pair, in its order; an agreement has their sums."""
    return len(predicted), len(sure), len(predicted & sure), len(predicted & (sure | possible))


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """AER, from 0 (perfect) to 1; arguments and errors as in `agreement`."""
    return agreement(predicted, sure, possible).error_rate


def trivial_error_rates(gold: GoldCorpus, source_lengths: Sequence[int], targets: Sequence[str]) -> dict[str, float]:
    """AER of alignments that know nothing of the words; a useful alignment is below both.

    `diagonal` links target word j of n to source word ⌊(j + 1/2) m / n⌋ of m, counted from 0. `random` links every
    target word to a source word drawn uniformly; its AER is that of the expected counts. Neither links the words of a
    target whose source is blank.
    """
    lengths = [(m, len(target.split()) if m else 0) for m, target in zip(source_lengths, targets, strict=True)]
    diagonal = [frozenset(((2 * j + 1) * m // (2 * n), j) for j in range(n)) for m, n in lengths]
    predicted, sure = sum(n for _, n in lengths), sum(map(len, gold.sure))
    hits = sum((len(s) + len(s | p)) / m for s, p, (m, _) in zip(gold.sure, gold.possible, lengths, strict=True) if m)
    return {
        "diagonal": alignment_error_rate(diagonal, gold.sure, gold.possible),
        "random": 1 - hits / (predicted + sure),
    }


def mean_jump(links: Links) -> float | None:
    """Mean jump in source words between consecutive target words; 0 if both sentences have the same order.

        1/(n - 1) Σ_{i=2..n} |a_i - b_{i-1} - 1|

    This is the distortion of phrase-based models (Koehn, Och & Marcu 2003) with each linked target word as a phrase:
    a_i is the first and b_i the last source word that the i-th of them is linked to. Staying at the same word counts 1.
    None for fewer than two linked target words.
    """
    targets = sorted({target for _, target in links})
    sources = {each: [source for source, target in links if target == each] for each in targets}
    jumps = [abs(min(sources[after]) - max(sources[before]) - 1) for before, after in pairwise(targets)]
    return sum(jumps) / len(jumps) if jumps else None


Method = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
DEFAULT_METHOD: Method = "grow-diag-final-and"

# Steps (source, target) from a link to its neighbors, in the order in which Moses's symal visits them.
_BESIDE = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def symmetrize(forward: Links, backward: Links, method: Method = DEFAULT_METHOD) -> Links:
    """The links (source word, target word) of one sentence pair, from those of both directions.

    `forward` is the alignment of a source-to-target model, which gives each target word its links; `backward` is that
    of the other direction, after `flipped`. A directed alignment gives each word of one side its links; combined with
    the other direction it becomes many-to-many. The intersection I has the higher precision, the union U the higher
    recall (Och & Ney 2003). Between them are the heuristics of Koehn et al. 2003; they start from I and add links of U:

        grow-diag              neighbors of a link, including diagonal ones, that give a word its first link
        grow-diag-final        then all of one direction, then of the other, that give a word its first link
        grow-diag-final-and    the same, if they give both their words the first link

    An added link takes effect immediately, so the order matters: it is that of Moses's symal, by target word, then by
    source word. UserError: an unknown method.
    """
    if method not in get_args(Method):
        raise UserError(f"symmetrization {method!r}: choose from {', '.join(get_args(Method))}")
    if method == "union":
        return forward | backward
    links = set(forward & backward)
    linked = {source for source, _ in links}, {target for _, target in links}  # words of either side that have a link

    def add(candidates: Iterable[Link], needed: int) -> None:
        """Adds, one after another, those that are the first link of at least `needed` of their two words."""
        for link in candidates:
            if sum(word not in words for word, words in zip(link, linked, strict=True)) >= needed:
                links.add(link)
                for word, words in zip(link, linked, strict=True):
                    words.add(word)

    size = -1 if method != "intersection" else len(links)
    while size < len(links):  # neighbors of links, and neighbors of these, until nothing changes
        size = len(links)
        for source, target in _in_order(forward | backward):
            if (source, target) in links:
                beside = ((source + right, target + down) for right, down in _BESIDE)
                add((link for link in beside if link in forward or link in backward), needed=1)
    if method in ("grow-diag-final", "grow-diag-final-and"):
        for directed in (forward, backward):
            add(_in_order(directed), needed=2 if method == "grow-diag-final-and" else 1)
    return frozenset(links)


def flipped(links: Links) -> Links:
    """Every link with source and target swapped."""
    return frozenset((target, source) for source, target in links)


def _in_order(links: Links) -> list[Link]:
    return sorted(links, key=lambda link: (link[1], link[0]))
