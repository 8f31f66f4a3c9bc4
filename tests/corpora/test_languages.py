import pytest
from sacremoses.corpus import NonbreakingPrefixes

from seq2seq_attn.corpora.languages import MOSES, language_code, without_rules


@pytest.mark.parametrize(
    "text", ["fr", "FR", "fra", "fre", "fr-FR", "fr_FR", "fr_fr", "fra_Latn", "French", " french "]
)
def test_every_spelling_of_a_language_has_the_same_code(text):
    assert language_code(text) == "fr"


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["cmn", "zho", "chi", "zh-CN", "zh-Hant-TW", "cmn_Hans", "Chinese", "Mandarin"], "zh"),
        (["yue", "Cantonese"], "yue"),
        (["jpn", "Japanese"], "ja"),
        (["kor", "ko-KR"], "ko"),
        (["tha"], "th"),
        (["khm"], "km"),
        (["lao", "Lao"], "lo"),
        (["mya", "bur", "Burmese"], "my"),
        (["ara", "arb"], "ar"),
        (["heb", "iw"], "he"),
        (["hin"], "hi"),
        (["tam"], "ta"),
        (["amh"], "am"),
        (["deu", "ger", "de-AT", "German"], "de"),
        (["es-419", "spa"], "es"),
        (["Haitian Creole"], "ht"),
    ],
)
def test_codes_regions_and_names_of_other_languages(texts, code):
    assert {language_code(text) for text in texts} == {code}


@pytest.mark.parametrize("text", ["tlh", "actions", "de-en-fr1", "x", "", "français?"])
def test_what_is_no_known_language_is_returned_as_it_is(text):
    assert language_code(text) == text


def test_the_languages_of_moses_are_those_of_sacremoses_under_their_own_codes_and_names():
    known = NonbreakingPrefixes().available_langs
    assert {*MOSES} == {*known.values(), "ja", "ko"}
    assert {text: language_code(text) for text in known} == known


def test_a_language_without_rules_is_refused_with_the_list():
    assert without_rules("fr") is None
    assert without_rules("da").endswith("te, yue, zh; 'da' is none of them")
