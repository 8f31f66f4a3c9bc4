"""The doctor's laws of normalisers, windows and contexts."""

import pytest

from seq2seq_attn.attention import (
    Attention,
    ChunkwiseAttention,
    Context,
    FixedContext,
    General,
    KeyValueAttention,
    MeanContext,
    MultiHead,
    NoContext,
    normaliser_classes,
    window_classes,
)
from seq2seq_attn.doctor import LAWS, check_part, check_law, check_subject, make_subject
from seq2seq_attn.errors import UserError

CONTEXTS = [NoContext, MeanContext, FixedContext, Attention, MultiHead, ChunkwiseAttention]
OURS = [
    part
    for part in (*normaliser_classes().values(), *window_classes().values())
    if part.__module__.startswith("seq2seq_attn.")
]


def findings(part, **sizes):
    """What is not ok, by law; graphs and translators are asked in tests of their own."""
    subject = make_subject(part, **sizes)
    asked = [law for law in LAWS[subject.kind] if law not in ("compiled", "exported", "translator")]
    found = check_subject(subject, asked).findings
    return {law: finding.verdict for law, finding in found.items() if finding.verdict != "ok"}


@pytest.mark.parametrize("part", OURS + CONTEXTS, ids=lambda part: part.__name__)
def test_nothing_is_wrong_with_a_part_of_ours(part):
    assert "wrong" not in findings(part).values()


def test_a_context_that_halves_its_keys_is_examined_as_an_object():
    halves = KeyValueAttention(Attention(General(16, 12)))
    assert "wrong" not in findings(halves, query_size=16, key_size=24).values()


@pytest.mark.parametrize(
    "name", ["Shares", "DeclaresItsSum", "DeclaresThatPlacesCount", "ReadsOnce", "LastTokens", "Reads"]
)
def test_of_a_sound_part_nothing_is_said(broken_parts, name):
    assert findings(getattr(broken_parts, name)) == {}


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("SpillsOntoPadding", "rows"),
        ("MissesTheSum", "rows"),
        ("OverflowsAtOnce", "rows"),
        ("ForgetsToMaskInTraining", "rows"),
        ("PrefersTheFirst", "permutation"),
        ("MixesRows", "batch"),
        ("LosesHalfItsGradient", "gradients"),
        ("RoundsInHalfPrecision", "precision"),
        ("RemembersOnItself", "memory"),
        ("ChangesItsHistory", "history"),
        ("MixesItsHypotheses", "history"),
        ("OpensPadding", "more_padding"),
        ("ClosesEverything", "open_tokens"),
        ("CountsStepsInSecret", "open_tokens"),
        ("SubtractsWeights", "open_tokens"),
        ("FreezesItsSlope", "gradients"),
        ("ReadsPadding", "more_padding"),
        ("StepsOtherwise", "steps"),
        ("ForgetsToSelect", "select"),
        ("ChangesItsSource", "inputs"),
        ("HidesItsQuery", "reads_query"),
        ("WrongWidth", "shapes"),
        ("HalvesItsGradient", "gradients"),
        ("KeepsTheLastSentence", "memory"),
    ],
)
def test_a_defect_is_found_by_its_law(broken_parts, name, law):
    assert check_law(make_subject(getattr(broken_parts, name)), law).verdict == "wrong"


def test_a_context_that_needs_more_than_is_known_is_to_be_given_as_an_object(broken_parts):
    class NeedsMore(Context):
        reads_query = False

        def __init__(self, colour):
            super().__init__()
            self.value_size = 24

        def prepare(self, keys, values=None, is_token=None):
            return keys

        def forward(self, query, source):
            return query, query

    with pytest.raises(UserError, match="needs colour; give an object"):
        check_part(NeedsMore)
