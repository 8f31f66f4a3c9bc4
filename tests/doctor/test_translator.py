"""The law `translator`: a translator uses what the part computes."""

import pytest

from seq2seq_attn.attention import (
    Additive,
    FixedContext,
    LocalP,
    LocationAware,
    MultiHead,
    NoContext,
    Softmax,
    normalizer_classes,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.doctor import check_law, make_subject

PARTS = [Additive, LocationAware, Softmax, LocalP, MultiHead, NoContext, FixedContext]
OURS = {
    name: part
    for classes in (scorer_classes(), normalizer_classes(), window_classes())
    for name, part in classes.items()
    if part.__module__.startswith("seq2seq_attn.") and part not in PARTS
}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_translator_uses_what_our_parts_compute(part):
    verdict, message = check_law(make_subject(part), "translator")
    assert verdict == "ok", message


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_a_translator_uses_what_every_other_part_of_ours_computes(name):
    verdict, message = check_law(make_subject(OURS[name]), "translator")
    assert verdict == "ok", message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Sound", ""),
        ("DropsOut", ""),
        ("LooksTooFarAhead", "luong decoder: logits of all steps in one call"),
        ("CachesKeys", "RuntimeError"),
        ("CountsQueries", "beam search gives"),
    ],
)
def test_a_scorer_that_a_translator_computes_differently_is_wrong(broken, name, words):
    verdict, message = check_law(make_subject(getattr(broken, name)), "translator")
    assert (verdict == "wrong") == bool(words), message
    assert words in message
