"""What a model does not know, in its input and in its output: shown, read back, and reported."""

import re
from itertools import product

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.api.scores import Scores
from seq2seq_attn.cli import main
from seq2seq_attn.corpora.casing import cased_as
from seq2seq_attn.evaluation.bayes_risk import mean_utilities, utility
from seq2seq_attn.evaluation.metrics import METRICS

SIDES = ("a b c", "c a b", "b c a")  # with a word that this model does not know


@pytest.fixture(scope="module")
def model(backwards, tmp_path_factory):
    """Writes words backwards, and knows two of their three letters: `<unk>` is learned as the third."""
    _, values = backwards
    return s2s.train(values, tmp_path_factory.mktemp("unknown") / "run", silent=True, **{"text.vocabulary_size": 6})


@pytest.fixture(scope="module")
def letter(model):
    """The one that it does not know."""
    (letter,) = {"a", "b", "c"} - {*model.trained.target.vocabulary.get_itos()}
    return letter


def test_a_predicted_unknown_token_is_shown(model, letter):
    assert model.translate(SIDES).sentences == [side[::-1].replace(letter, "<unk>") for side in SIDES]


def test_the_score_of_a_shown_translation_is_that_of_the_search(model):
    found = model.translate(SIDES, beam_size=8, n_best=8)
    shown = [(each.source, candidate) for each in found for candidate in each.candidates if candidate.text]
    assert sum("<unk>" in candidate.text for _, candidate in shown) > 3
    scores = model.score([(source, candidate.text) for source, candidate in shown]).log_probabilities
    assert scores == pytest.approx([candidate.log_probability for _, candidate in shown], abs=1e-4)
    assert all(len(set(texts)) == len(texts) for texts in found.n_best)


def test_minimum_bayes_risk_compares_what_is_shown(model):
    (beam,) = model.translate(SIDES[:1], n_best=5, beam_size=5).n_best
    assert sum("<unk>" in text for text in beam) > 1
    (best,) = model.translate(SIDES[:1], mbr="chrf", candidates=5, n_best=5, beam_size=5)
    utilities = dict(zip(beam, mean_utilities(beam, utility(METRICS["chrf"], "none")), strict=True))
    assert {each.text: each.score for each in best.candidates} == pytest.approx(utilities)
    scores = model.score([(best.source, each.text) for each in best.candidates if each.text]).log_probabilities
    assert scores == pytest.approx([each.log_probability for each in best.candidates if each.text], abs=1e-4)


def test_a_shown_unknown_word_is_aligned(model, letter):
    source, target = SIDES[0], SIDES[0][::-1].replace(letter, "<unk>")
    assert (letter, "<unk>") in model.align([(source, target)])[0].words


def test_an_unknown_word_is_replaced_by_the_source_token_that_it_attends_to(model):
    found = model.translate([*SIDES, ""], replace_unknown=True, n_best=3, beam_size=3)
    assert found.sentences == [*(side[::-1] for side in SIDES), ""]
    replaced = model.translate(SIDES, replace_unknown=True, mbr="chrf", candidates=4).sentences
    assert not any("<unk>" in text for text in replaced)
    # What is not in the vocabulary is read back as unknown, so the score of the text is that of the search here, too.
    scores = model.score([(each.source, each.text) for each in found[:3]]).log_probabilities
    assert scores == pytest.approx([each.candidates[0].log_probability for each in found[:3]], abs=1e-4)


def test_a_replaced_word_is_marked_with_its_source_word_and_how_it_was_found(model, letter):
    """The expected step, position and word come from the words written backwards, not from the weights."""
    source = SIDES[0]
    position = source.split().index(letter)
    step = len(source.split()) - 1 - position
    glossary = {letter: "zeta eta", **{each: each for each in {"a", "b", "c"} - {letter}}}
    for terms, shown, by in ((None, letter, "copy"), (glossary, "zeta eta", "glossary")):
        (found,) = model.translate([source], replace_unknown=True, glossary=terms, weights=True)
        (best,) = found.candidates
        assert best.text == source[::-1].replace(letter, shown)
        assert best.replaced == ((step, shown, by, position, letter),)
        assert found.record["translations"][0]["replaced"] == [
            {"step": step, "text": shown, "by": by, "position": position, "source": letter}
        ]
        assert found.attention.target[step] == f"{shown} (<unk>)"
        assert found.token_attention.translations[0].tokens[step] == "<unk>"
    maps = model.attention_maps(source, best.text.replace(shown, letter))
    assert maps.cross.target[step] == f"{letter} (<unk>)" == model.attention(source, source[::-1]).target[step]
    assert maps.cross.source[position] == f"{letter} (<unk>)" == found.attention.source[position]
    assert "replaced" not in model.translate([source])[0].record["translations"][0]


def test_translate_counts_what_it_replaced(model, letter, tmp_path, capsys):
    (tmp_path / "source").write_text("".join(f"{side}\n" for side in SIDES))
    (tmp_path / "terms").write_text(f"{letter}\tzeta\n")
    command = ["translate", str(model.folder), str(tmp_path / "source"), "--replace-unknown"]
    for more, listed in ((), 0), (("--glossary", str(tmp_path / "terms")), 3):
        with pytest.raises(SystemExit):
            main([*command, *more])
        assert f"replaced 3 of 3 unknown words in the outputs, {listed} by the glossary\n" in capsys.readouterr().err


def test_a_model_of_lower_case_writes_the_case_of_its_source(backwards, tmp_path):
    text = {"text.vocabulary_size": 7, "text.lowercase": True, "text.protected": ["<x>"]}
    model = s2s.train(backwards[1], tmp_path / "run", silent=True, **text)
    (letter,) = {"a", "b", "c"} - {*model.trained.target.vocabulary.get_itos()}
    first, second = sorted({"a", "b", "c"} - {letter})
    options = {"casing": "source", "replace_unknown": True}
    lines = [f"{first.upper()} {second}", f"{first} {second.upper()}", f"{first} {second} {letter}".upper()]
    expected = [f"{second.upper()} {first}", f"{second} {first}", f"{letter} {second} {first}".upper()]
    assert model.translate(lines, **options).sentences == expected
    assert model.translate(lines).sentences[0] == f"{second} {first}"
    (found,) = model.translate([f"{first.upper()} {letter.upper()}"], **options)  # copied: as it is in the source
    assert found.text == f"{letter} {first}".upper()
    assert found.candidates[0].replaced[0].text == letter.upper()
    shown = model.translate([f"{first} {letter}".upper()], casing="source").sentences  # a symbol has no case
    assert shown == [f"<unk> {first.upper()}"]
    tagged = f"<x> {first.upper()} {second}"  # nor is that of a tag the case of its sentence
    assert model.trained.source.read(tagged).strip() == f"{first.upper()} {second}"
    plain, cased = (model.translate([tagged], **given).sentences[0] for given in ({}, {"casing": "source"}))
    assert cased == cased_as("A b", plain, ["<x>", "<unk>"])


def test_a_glossary_asks_for_what_the_model_can_write_and_replaces_what_it_cannot(model, letter):
    known = min({"a", "b", "c"} - {letter})
    with pytest.raises(s2s.UserError, match="line 1"):
        model.translate([letter], glossary={letter: "zeta"})
    (found,) = model.translate([f"{letter} {known}"], glossary={letter: "zeta", known: known}, replace_unknown=True)
    assert [each.phrase for each in found.candidates[0].constraints] == [known]
    assert found.text == f"{known} zeta"
    with pytest.raises(s2s.UserError, match="line 1"):  # of two source words: nothing says which of them is replaced
        model.translate([f"{letter} {known}"], glossary={f"{letter} {known}": "zeta"}, replace_unknown=True)


def test_a_model_without_weights_refuses_to_replace_unknown_words(compared, backwards, tmp_path):
    distracted = compared.model("distracted")
    with pytest.raises(s2s.UserError, match=r"search\.replace_unknown: this model does not attend to single source"):
        distracted.translate(["a"], replace_unknown=True)
    changes = {"search.replace_unknown": True, "model.context": {"kind": "fixed"}}
    with pytest.raises(s2s.UserError, match=r"search\.replace_unknown"):  # before it is trained, not after
        s2s.train(backwards[1], tmp_path / "run", silent=True, **changes)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_translation_knows_what_was_read_and_the_unknown_words_of_its_source(model, letter):
    found = model.translate([f"a x {letter}", "", "<unk> a"])
    known = "" if letter == "a" else "a"
    assert [list(each) for each in found.unknown] == [
        [word for word in ("a", "x", letter) if word != known],
        [],
        [word for word in ("<unk>", "a") if word != known],
    ]
    marked = (word if word == known else f"{word} (<unk>)" for word in ("a", "x", letter))
    assert found[0].tokens == (*marked, "</s>")
    assert found[1].tokens == ()
    assert found.to_records()[0]["unknown"] == list(found[0].unknown)


def test_training_and_evaluation_record_the_share_of_unknown_words(model, letter):
    words = [letters for length in (1, 2, 3) for letters in product("abc", repeat=length)]
    unknown, total = sum(each.count(letter) for each in words), sum(map(len, words))  # 34 of 102
    shares = {"unknown_source_words": unknown / total, "unknown_reference_words": unknown / total}
    assert model.metrics["validation"] == shares
    assert shares.items() <= model.metrics["test"].items()
    assert re.search(r"unknown words +33\.33  % of the words of the sources", repr(Scores(model.metrics["test"])))


def test_training_says_how_many_words_are_unknown(backwards, tmp_path, capsys):
    changes = {"text.vocabulary_size": 6, "training.max_epochs": 1, "training.validate_every": 1}
    s2s.train(backwards[1], tmp_path / "run", **changes)
    said = capsys.readouterr().err
    shares = "33.33 % of the source and 33.33 % of the target"
    assert f"; unknown words: validation {shares}, test {shares}\n" in said
