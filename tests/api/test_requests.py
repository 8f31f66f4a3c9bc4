"""What is asked of translations: how they begin, and what they must not contain or repeat."""

from __future__ import annotations

import numpy as np
import pytest

import seq2seq_attn as s2s
from seq2seq_attn.corpora.learning import train_codec
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.runs.requests import Constraint, Glossary, met


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
    with pytest.raises(s2s.UserError, match=r"line 2: a prefix of 5 tokens .* max_length=5"):
        model.translate(["a", "b"], prefixes=["a a a a", "a a a a a"], max_length=5)


def test_a_prefix_that_the_model_cannot_write_is_refused_with_its_line_and_words(model):
    with pytest.raises(s2s.UserError, match=r"line 2: .*'y' and 'z'"):
        model.translate(["a", "b"], prefixes=["a", "a y a z"])
    assert model.translate(["b"], prefixes=["a <unk>"]).sentences[0].startswith("a <unk>")


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


def test_translations_contain_their_constraints_and_say_by_which_steps(model):
    given = [["a a"], [], ["b", "c c", "b"], ["c"]]
    found = model.translate(["c b", "a b c", "a", ""], constraints=given, beam_size=4, n_best=2, weights=True)
    assert found.sentences[1] == "c b a"
    for each, phrases in zip(found[:3], given, strict=False):
        for candidate in each.candidates:
            words = candidate.text.split()
            assert [constraint.phrase for constraint in candidate.constraints] == phrases
            assert all(" ".join(words[slice(*each.steps)]) == each.phrase for each in candidate.constraints)
    first, second, third = (constraint.steps for constraint in found[2].candidates[0].constraints)
    assert len({*range(*first), *range(*second), *range(*third)}) == 4
    assert found[0].record["translations"][0]["constraints"][0]["phrase"] == "a a"
    assert "constraints" not in found[1].record["translations"][0]
    assert not found[3].candidates


def test_what_was_asked_for_is_marked_in_pictures(model, tmp_path):
    (found,) = model.translate(
        ["a b c"], prefixes=["a"], constraints=[["b b"]], glossary={"c": "c c"}, weights=True, beam_size=5
    )
    marks = {each.by: slice(*each.steps) for each in found.candidates[0].constraints}
    assert marks.keys() == {"prefix", "constraint", "glossary"}
    view = found.attention
    assert view.target[marks["prefix"]] == ("a (prefix)",)
    assert view.target[marks["constraint"]] == ("b (constraint)",) * 2
    assert view.target[marks["glossary"]] == ("c (glossary)",) * 2
    assert sum("(" in each for each in view.target) == 5
    assert "b (constraint)" in view.save(tmp_path / "a.svg").read_text()
    assert "b (constraint)" in view.save(tmp_path / "a.html").read_text()


def test_a_constraint_of_the_reference_changes_nothing_and_another_costs_probability(model):
    free, same, other = (
        model.translate(["a b c"], constraints=each and [each])[0].candidates[0] for each in (None, ["b a"], ["b b"])
    )
    assert (same.text, round(same.log_probability, 4)) == (free.text, round(free.log_probability, 4))
    assert other.log_probability < free.log_probability


def test_a_glossary_asks_for_the_longest_entry_that_a_source_has(model, tmp_path):
    (tmp_path / "terms").write_text("a b\tc c\n\na\tb b\n")
    found = model.translate(["a b", "c a", "c"], glossary=tmp_path / "terms")
    assert [[each.phrase for each in one.candidates[0].constraints] for one in found] == [["c c"], ["b b"], []]
    assert "c c" in found.sentences[0]
    glossary = Glossary({"New York": "NY", "York": "Y", "C++": "cpp"})
    assert [term for _, term in glossary.terms("York, New York, Yorkshire and C++.")] == ["Y", "NY", "cpp"]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("", {}),
        ("z", {}),
        ("a b", {"avoid": ["b"]}),
        ("a", {"beam_size": 1}),
        ("a", {"seed": 3}),
        ("a a a a", {"max_length": 4}),
    ],
)
def test_what_cannot_be_met_is_refused_with_its_line(model, line, options):
    with pytest.raises(s2s.UserError, match="line 2"):
        model.translate(["a", "b"], constraints=[[], [line]], **options)


def test_a_damaged_glossary_is_refused_with_its_line(model, tmp_path):
    for content in ("a\tb\nb\n", "a\tb\na\tc\n", "a\tb\n\tc\n"):
        (tmp_path / "terms").write_text(content)
        with pytest.raises(s2s.UserError, match=r"terms:2: "):
            model.translate(["a"], glossary=tmp_path / "terms")
    for given in (["a"], {"a": 1}, {"a": " "}):
        with pytest.raises(s2s.UserError, match="glossary"):
            model.translate(["a"], glossary=given)


def test_a_word_that_goes_on_is_not_the_one_that_was_asked_for():
    text = TextConfig(tokenizer="bpe", vocabulary_size=30)
    codec = train_codec(["low lower lowest", "slow slower", "no nos"] * 9, 27, text, "en")
    low, st = codec.spellings("low")[0], codec.vocabulary.lookup_indices(["s", "t"])
    assert met(codec, ["low"], [*low, *st]) == (Constraint("low", None),)
    assert met(codec, ["low"], [*st, *low]) == (Constraint("low", (2, 2 + len(low))),)
    assert met(codec, ["low"], [*low, *st, *low]) == (Constraint("low", (len(low) + 2, 2 * len(low) + 2)),)


def test_an_ensemble_keeps_the_rules(model):
    found = model.translate(["a b c"], ensemble=[model], prefixes=["a"], avoid=["b"], constraints=[["c c"]])
    assert "c c" in found.sentences[0]
    assert found.sentences[0].startswith("a")
    assert "b" not in found.sentences[0]


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("options", [{}, {"constraints": [["c c"]]}, {"beam_groups": 2}], ids=str)
def test_scores_follow_from_log_probability_length_and_weights(model, members, options):
    ranking = {"length_penalty": 0.5, "length_reward": 0.3, "coverage_penalty": 0.7}
    others = [model] * (members - 1)
    (found,) = model.translate(["a b c"], weights=True, beam_size=4, n_best=4, ensemble=others, **ranking, **options)
    expected = []
    for each, read in zip(found.candidates, found.token_attention.translations, strict=True):
        length, covered = len(read.tokens), np.log(np.minimum(read.weights.sum(axis=0), 1)).sum()
        expected.append(each.log_probability / ((5 + length) / 6) ** 0.5 + 0.3 * length + 0.7 * covered)
    assert [each.score for each in found.candidates] == pytest.approx(expected, rel=1e-4)
    assert "beam_groups" in options or expected == sorted(expected, reverse=True)


def test_a_model_without_weights_has_no_coverage(compared, model):
    distracted = compared.model("distracted")
    assert distracted.translate(["a"], length_reward=0.5, beam_groups=5).sentences
    for ensemble in ([], [model]):
        with pytest.raises(s2s.UserError, match="does not attend to single source words"):
            distracted.translate(["a"], coverage_penalty=0.2, ensemble=ensemble)


def test_steps_refuse_what_they_do_not_keep(model):
    with pytest.raises(s2s.UserError, match="avoid"):
        model.steps("a b", avoid=["a"])


def test_every_spelling_of_a_phrase_by_subwords_is_found():
    text = TextConfig(tokenizer="bpe", vocabulary_size=30)
    codec = train_codec(["low lower lowest", "slow slower", "no nos"] * 9, 27, text, "en")
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
