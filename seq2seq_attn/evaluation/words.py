"""Words of translations: how rare they are, and which of them are repeated or left out compared with the reference.

Words are those that BLEU counts: the tokens of one of sacrebleu's tokenizers, case-sensitive unless lowercased. With
`13a` punctuation stands alone, with `zh` each Chinese character does. Several functions return two counts, a part and a
whole: the rate of a system is the sum of its parts over the sum of its wholes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import NamedTuple

from seq2seq_attn.evaluation.corpus_scores import bleu_metric
from seq2seq_attn.evaluation.groups import Band


class Bag(NamedTuple):
    """Counts of the words and bigrams of a sentence."""

    words: Counter[str]
    bigrams: Counter[tuple[str, str]]


def bags(lines: Iterable[str], tokenize: str = "13a", lowercase: bool = False) -> list[Bag]:
    """One bag per line. UserError: sacrebleu has no such tokenizer."""
    return [Bag(Counter(words), Counter(pairwise(words))) for words in _words(lines, tokenize, lowercase)]


def count_words(lines: Iterable[str], tokenize: str = "13a", lowercase: bool = False) -> Counter[str]:
    """How often each word occurs in all lines. Errors as for `bags`."""
    return Counter(chain.from_iterable(_words(lines, tokenize, lowercase)))


def _words(lines: Iterable[str], tokenize: str, lowercase: bool) -> Iterator[list[str]]:
    tokenizer = bleu_metric(tokenize, lowercase).tokenizer
    as_counted = (line.lower() if lowercase else line for line in lines)
    return (tokenizer(line.rstrip()).split() for line in as_counted)  # stripped, as BLEU does


FREQUENCIES = {"unseen": Band(0, 0), "1-5": Band(1, 5), "6-50": Band(6, 50), "51+": Band(51, None)}


def rarest(sentences: Iterable[Bag], counts: Mapping[str, int]) -> list[int | None]:
    """The count of each sentence's rarest word, 0 for a word not in `counts`; None for a sentence without words."""
    return [min((counts.get(word, 0) for word in sentence.words), default=None) for sentence in sentences]


def only(sentences: Iterable[Bag], kept: Container[str]) -> list[Bag]:
    """The sentences with these of their words alone."""
    return [each._replace(words=Counter({w: n for w, n in each.words.items() if w in kept})) for each in sentences]


def found(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """How many of the reference's words the hypothesis contains; and how many there are.

    Each occurrence is found at most once: Σ_w min(h(w), r(w)) of Σ_w r(w), with the counts h and r of the word in
    hypothesis and reference.
    """
    ours = hypothesis.words
    return sum(min(times, ours.get(word, 0)) for word, times in reference.words.items()), reference.words.total()


COMMON = 0.01  # a word with at least this share of all words counts as a function word


def repeated(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """Superfluous repetitions among the bigrams of the hypothesis, of all its bigrams.

        Σ_g max(0, h(g) - max(1, r(g))) of Σ_g h(g),    h, r: how often hypothesis and reference have the bigram g

    The first occurrence is free, and so is any further one that the reference has as well. Bigrams are counted because
    single words such as articles recur in any long sentence; a repeated word counts from its third occurrence on.
    """
    ours, theirs = hypothesis.bigrams, reference.bigrams
    again = (times - max(1, theirs[bigram]) for bigram, times in ours.items() if times > 1)
    return sum(max(0, times) for times in again), ours.total()


def repeats(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """1 if any bigram of the sentence is `repeated`, else 0; of one sentence."""
    return int(repeated(hypothesis, reference)[0] > 0), 1


def missing(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """Words of the reference that the hypothesis lacks, of all words of the reference.

    A paraphrase lacks them as well: of content words, this is an upper bound of what was left untranslated.
    """
    there, wanted = found(hypothesis, reference)
    return wanted - there, wanted


def lengths(hypothesis: Bag, reference: Bag) -> tuple[int, int]:
    """Numbers of words of hypothesis and reference; their ratio is far below 1 if much is left out."""
    return hypothesis.words.total(), reference.words.total()


def content_words(references: Collection[Bag]) -> frozenset[str]:
    """The words with a letter or digit that make up less than `COMMON` of a text: no list of stop words is needed."""
    counts: Counter[str] = Counter()
    for reference in references:
        counts.update(reference.words)
    most = COMMON * counts.total()
    return frozenset(word for word, times in counts.items() if times < most and any(map(str.isalnum, word)))
