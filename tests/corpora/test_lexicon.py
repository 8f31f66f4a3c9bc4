"""The lexicon is that of IBM model 1, whose reference implementation is written out here pair by pair."""

import random
from collections import defaultdict
from itertools import pairwise

import pytest

from seq2seq_attn.corpora import lexicon
from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.lexicon import ITERATIONS, MAX_TRANSLATIONS, Lexicon, learn_lexicon
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError


def learn(pairs, source_size, target_size):
    sources, targets = ([[*sentence, EOS] for sentence in side] for side in zip(*pairs, strict=True))
    return learn_lexicon(EncodedLines.of(sources), EncodedLines.of(targets), source_size, target_size)


def random_pairs():
    draw = random.Random(4)
    return [
        (draw.choices(range(4, 11), k=draw.randint(1, 6)), draw.choices(range(4, 17), k=draw.randint(1, 5)))
        for _ in range(9)
    ]


def model_1(pairs):
    """t(y | x) of Brown et al. 1993."""
    pairs = [([*x, EOS], [*y, EOS]) for x, y in pairs]
    t = {(x, y): 1.0 for xs, ys in pairs for x in xs for y in ys}
    for _ in range(ITERATIONS):
        expected, total = defaultdict(float), defaultdict(float)
        for xs, ys in pairs:
            for y in ys:
                of_all = sum(t[x, y] for x in xs)
                for x in xs:
                    expected[x, y] += t[x, y] / of_all
                    total[x] += t[x, y] / of_all
        t = {(x, y): count / total[x] for (x, y), count in expected.items()}
    return t


def test_translations_are_ranked_by_their_probability():
    pairs = random_pairs()
    t, learned = model_1(pairs), learn(pairs, 12, 17)
    for x in range(12):
        known = {y for source, y in t if source == x}
        ranked = learned.translations[x].tolist()
        assert set(ranked[: len(known)]) == known
        assert set(ranked[len(known) :]) == {EOS}  # 11 is in no pair
        probabilities = [t[x, y] for y in ranked[: len(known)]]
        assert all(one > other - 1e-12 for one, other in pairwise(probabilities))


def test_translations_are_learned_from_cooccurrence():
    das, haus, buch, ein, the, house, book, a = 4, 5, 6, 7, 4, 5, 6, 7
    learned = learn([([das, haus], [the, house]), ([das, buch], [the, book]), ([ein, buch], [a, book])], 8, 8)
    assert learned.translations[[das, haus, buch, ein], 0].tolist() == [the, house, book, a]


def test_the_chunk_size_does_not_change_the_lexicon(monkeypatch):
    whole = learn(random_pairs(), 12, 17)
    monkeypatch.setattr(lexicon, "_CHUNK", 2)
    assert (learn(random_pairs(), 12, 17).translations == whole.translations).all()


def test_frequent_tokens_are_sorted_by_count():
    frequent = learn([([4], [9, 6, 9]), ([4, 5], [6, 9, 8])], 6, 10).frequent.tolist()
    assert frequent == [9, EOS, 6, 8, 0, 1, 2, 4, 5, 7]


def test_only_the_most_probable_translations_are_kept():
    pairs = [([4, 5], [word]) for word in range(4, 130)] + [([4], [129])] * 3
    ranked = learn(pairs, 6, 130).translations[4].tolist()
    assert len(ranked) == len(set(ranked)) == MAX_TRANSLATIONS
    assert ranked[:2] == [EOS, 129]


def test_a_saved_lexicon_loads_equal_and_a_broken_one_is_refused(tmp_path):
    path, learned = tmp_path / "lexicon.safetensors", learn(random_pairs(), 12, 17)
    path.write_bytes(learned.content())
    for ours, theirs in zip(Lexicon.load(path), learned, strict=True):
        assert (ours == theirs).all()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"lexicon\.safetensors: not a valid lexicon.*delete it"):
        Lexicon.load(path)
