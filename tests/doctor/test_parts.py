"""The laws of normalizers, windows and contexts."""

import pytest

from seq2seq_attn.attention import (
    Attention,
    ChunkwiseAttention,
    Context,
    FixedContext,
    General,
    KeyValueAttention,
    LocalM,
    MeanContext,
    MultiHead,
    NoContext,
    RandomToken,
    normalizer_classes,
    window_classes,
)
from seq2seq_attn.doctor import LAWS, check, check_law, check_subject, make_subject
from seq2seq_attn.errors import UserError

CONTEXTS = [NoContext, MeanContext, FixedContext, Attention, MultiHead, ChunkwiseAttention]
OURS = [
    part
    for part in (*normalizer_classes().values(), *window_classes().values())
    if part.__module__.startswith("seq2seq_attn.")
]


def findings(part, **sizes):
    """Findings other than ok, by law; graphs and translators have tests of their own."""
    subject = make_subject(part, **sizes)
    checked = [law for law in LAWS[subject.kind] if law not in ("compiled", "exported", "translator")]
    found = check_subject(subject, checked).findings
    return {law: finding.verdict for law, finding in found.items() if finding.verdict != "ok"}


@pytest.mark.parametrize("part", OURS + CONTEXTS, ids=lambda part: part.__name__)
def test_our_parts_keep_all_laws(part):
    assert "wrong" not in findings(part).values()


def test_a_context_around_another_size_of_keys_is_checked_as_an_instance():
    context = KeyValueAttention(Attention(General(16, 12)))
    assert "wrong" not in findings(context, query_size=16, key_size=24).values()


@pytest.mark.parametrize(
    "name", ["Shares", "DeclaresItsSum", "DeclaresPositions", "ReadsOnce", "LastTokens", "Reads", "RefusesAll"]
)
def test_a_sound_part_keeps_all_laws(broken_parts, name):
    assert findings(getattr(broken_parts, name)) == {}


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("GivesPaddingWeight", "rows"),
        ("SumsToLess", "rows"),
        ("OverflowsInExp", "rows"),
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
        ("CountsStepsUndeclared", "open_tokens"),
        ("SubtractsWeights", "open_tokens"),
        ("FreezesItsSlope", "gradients"),
        ("ReadsPadding", "more_padding"),
        ("StepsDiffer", "steps"),
        ("ForgetsToSelect", "select"),
        ("ChangesItsSource", "inputs"),
        ("DeniesItsQuery", "reads_query"),
        ("WrongWidth", "shapes"),
        ("HalvesItsGradient", "gradients"),
        ("KeepsTheLastSentence", "memory"),
        ("IgnoresItsMask", "may_read"),
        ("IgnoresItsBias", "bias"),
        ("CountsFromTheFirst", "causal"),
        ("IgnoresTheFuture", "causal"),
        ("DoublesWithoutWeights", "need_weights"),
        ("StartsAgain", "extend"),
        ("ReadsItsKeys", "values"),
        ("ReadsItsOwnPositionAlone", "causal"),
        ("CentersItsBias", "bias"),
        ("GivesUpOnInfinity", "bias"),
        ("ReturnsThree", "need_weights"),
        ("AppendsNoPadding", "extend"),
    ],
)
def test_a_defect_breaks_its_law(broken_parts, name, law):
    assert check_law(make_subject(getattr(broken_parts, name)), law).verdict == "wrong"


def test_a_law_of_one_option_does_not_need_another(broken_parts):
    subject = make_subject(broken_parts.TakesCausalAlone)
    verdicts = {law: check_law(subject, law).verdict for law in ("values", "may_read", "causal", "bias", "extend")}
    assert verdicts == {"values": "note", "may_read": "note", "causal": "ok", "bias": "note", "extend": "ok"}


@pytest.mark.parametrize("window", [LocalM(16, half_width=0), RandomToken(16)])
def test_a_bias_need_not_change_the_weights_of_a_single_position(window):
    assert check_law(make_subject(Attention(General(16, 24), window=window)), "bias").verdict == "ok"


@pytest.mark.parametrize("law", ["may_read", "causal", "bias", "need_weights"])
def test_a_context_without_an_option_gets_a_note(broken_parts, law):
    finding = check_law(make_subject(broken_parts.StepsDiffer), law)
    assert finding.verdict == "note"
    assert finding.message.startswith(f"the context has no {law};")


def test_a_context_with_unknown_constructor_arguments_must_be_an_instance(broken_parts):
    class NeedsMore(Context):
        reads_query = False

        def __init__(self, color):
            super().__init__()
            self.value_size = 24

        def prepare(self, keys, values=None, is_token=None):
            return keys

        def forward(self, query, source):
            return query, query

    with pytest.raises(UserError, match="needs color; pass an instance"):
        check(NeedsMore)
