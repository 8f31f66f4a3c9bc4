"""The case of the source, in the translations of a model that writes lower case."""

import pytest

from seq2seq_attn.corpora.casing import cased_as


@pytest.mark.parametrize(
    ("source", "text", "kept", "cased"),
    [
        ("Two dogs run.", "zwei hunde laufen.", (), "Zwei hunde laufen."),
        ("TWO DOGS", "zwei hunde", (), "ZWEI HUNDE"),
        ("two DOGS", "zwei hunde", (), "zwei hunde"),
        ("I", "ich", (), "Ich"),
        ("« Two", "« zwei", (), "« Zwei"),
        ("两 只 狗", "two dogs", (), "two dogs"),
        ("Two", "两 只", (), "两 只"),
        ("Two", "", (), ""),
        ("ÜBER", "ǆ über", (), "Ǆ ÜBER"),
        ("Über", "ǆ über", (), "ǅ über"),
        ("TWO IPODS", "zwei iPods ipod", ["iPods"], "ZWEI iPods IPOD"),
        ("A DOG", "ein <b>hund</b>", ["<b>", "</b>"], "EIN <b>HUND</b>"),
        ("The a", "a die a", ["a"], "a die a"),
    ],
)
def test_a_text_gets_the_case_of_its_source_but_for_what_is_kept(source, text, kept, cased):
    assert cased_as(source, text, kept) == cased
