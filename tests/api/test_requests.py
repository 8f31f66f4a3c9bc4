"""What is asked of translations: how they begin, and what they must not contain or repeat."""

from __future__ import annotations

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.corpora.codec import train_codec


def test_translations_begin_with_their_prefixes(model):
    found = model.translate(["a b c", "", "b", "c a"], prefixes=["a b", "a", "", "c"], n_best=3, beam_size=3)
    assert not found[1].candidates
    assert all(each.text.split()[:2] == ["a", "b"] for each in found[0].candidates)
    assert found.n_best[2] == model.translate(["b"], n_best=3, beam_size=3).n_best[0]
    assert all(each.text.startswith("c") for each in found[3].candidates)


@pytest.mark.parametrize("prefixes", [["a"], ["a", "b", "c"]])
def test_there_is_a_prefix_for_every_sentence(model, prefixes):
    with pytest.raises(s2s.UserError, match=f"{min(len(prefixes), 2)} "):
        model.translate(["a", "b"], prefixes=prefixes)


def test_a_prefix_that_is_too_long_is_refused_with_its_line(model):
    with pytest.raises(s2s.UserError, match="line 2: a prefix of 5 tokens, and max_length=5"):
        model.translate(["a", "b"], prefixes=["a a a a", "a a a a a"], max_length=5)


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 1}, {"seed": 3, "n_best": 4}, {"mbr": "chrf"}, {"precision": "bf16"}]
)
def test_what_is_avoided_is_in_no_translation(model, options):
    assert model.translate(["a b c"]).sentences == ["c b a"]
    for each in model.translate(["a b c", "c"], avoid=["b a", "c"], **options):
        assert each.candidates
        assert all("c" not in candidate.text and "b a" not in candidate.text for candidate in each.candidates)
    with pytest.raises(s2s.UserError, match="avoid: ' '"):
        model.translate(["a"], avoid=["a", " "])


def test_nothing_is_repeated(model):
    for each in model.translate(["a a a", "b b"], no_repeat_ngram=1, n_best=4):
        words = each.text.split()
        assert len(words) == len(set(words))


def test_an_ensemble_keeps_the_rules(model):
    found = model.translate(["a b c"], ensemble=[model], prefixes=["a"], avoid=["b"])
    assert found.sentences[0].startswith("a")
    assert "b" not in found.sentences[0]


def test_steps_refuse_what_they_do_not_keep(model):
    with pytest.raises(s2s.UserError, match="avoid"):
        model.steps("a b", avoid=["a"])


def test_every_spelling_of_a_phrase_by_subwords_is_found():
    codec = train_codec(["low lower lowest", "slow slower", "no nos"] * 9, 27, "bpe", vocabulary_size=30)
    tokens = set(codec.vocabulary.get_itos()[4:])

    def spelled(text):
        """All ways to cut a text into tokens, by recursion."""
        if not text:
            return [[]]
        ends = [end for end in range(1, len(text) + 1) if text[:end] in tokens]
        return [[text[:end], *rest] for end in ends for rest in spelled(text[end:])]

    found = codec.spellings("low no")
    pieces = [codec.vocabulary.lookup_tokens(each) for each in found]
    assert sorted(pieces) == sorted(spelled("▁low▁no"))
    assert pieces[0] == codec.pieces("low no")
    assert len(found) > 3
    assert {codec.decode(each) for each in found} == {"low no"}
    assert codec.spellings("xyz") == []
