"""Every law speaks where it is broken, and only there."""

from pathlib import Path

import pytest
import torch

from seq2seq_attn.attention import Additive, Dot, General, Location, MeanContext, ScaledDot, Scorer
from seq2seq_attn.doctor import LAWS, Finding, Report, check_scorer, check_law, check_subject, make_subject
from seq2seq_attn.errors import UserError

# Graphs are asked in `test_graphs.py`, where nothing checks shapes: torch cannot trace that.
ASKED = [law for law in LAWS["scorer"] if law not in ("compiled", "exported", "translator")]


def findings(scorer, **sizes):
    """What is not ok, by law."""
    found = check_subject(make_subject(scorer, **sizes), ASKED).findings
    return {law: finding for law, finding in found.items() if finding.verdict != "ok"}


# Where the same defect breaks what other laws ask as well.
ALSO = {
    "MixesSentences": ["queries", "training"],
    "ChangesKeys": ["strides"],
    "ChangesQuery": ["strides"],
    "CountsQueries": ["long_source"],
    "DividesByLength": ["zero_vectors"],
}


@pytest.mark.parametrize("name", ["Sound", "SumsWeights", "DropsOut", "BendsAtZero"])
def test_of_a_sound_scorer_nothing_is_said(broken, name):
    assert findings(getattr(broken, name)) == {}


@pytest.mark.parametrize(
    ("name", "law", "words"),
    [
        ("LosesAnAxis", "singleton_dims", ["(2, 3)", "(2, 3, 1)"]),
        ("OffByOne", "positions", ["key 0 leaves score 0 alone and moves score 1"]),
        ("MixesSentences", "batch", ["alone", "mixed"]),
        ("ChangesKeys", "inputs", ["prepare", "keys", "by 0.5"]),
        ("ChangesQuery", "inputs", ["forward", "query", "by 0.5"]),
        ("CachesKeys", "memory", ["another sentence"]),
        ("CountsQueries", "queries", ["3 queries at once"]),
        ("LooksTooFarAhead", "queries", ["3 steps in one call"]),
        ("MixesHypotheses", "hypotheses", ["side by side"]),
        ("ChangesHistory", "hypotheses", ["in place"]),
        ("HasAnUnusedParameter", "gradients", ["no gradient reaches gate.weight, gate.bias"]),
        ("Detaches", "gradients", ["no gradient reaches the keys"]),
        ("Overflows", "finite", ["NaN", "the gradient of query", "float32", "10000"]),
        ("DividesByLength", "finite", ["NaN", "weights", "float32", "around 0"]),
        ("ForgetsToSave", "state_dict", ["register"]),
        ("CannotBePickled", "copies", ["AttributeError", "pickle"]),
        ("SharesItself", "copies", ["deepcopy shares"]),
    ],
)
def test_a_defect_is_found_by_its_law_and_by_no_other(broken, name, law, words):
    found = findings(getattr(broken, name))
    verdicts = {law: finding.verdict for law, finding in found.items()}
    assert verdicts == {law: "wrong"} | dict.fromkeys(ALSO.get(name, ()), "wrong")
    for word in words:
        assert word in found[law].message


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        # Softmax over infinite scores in half precision is NaN, as the mask that would help comes later.
        (
            "MasksInside",
            {
                "more_padding": "wrong",
                "positions": "note",
                "queries": "wrong",
                "long_source": "wrong",
                "finite": "wrong",
            },
        ),
        ("ShiftsAlike", {"more_padding": "warning", "positions": "note", "finite": "wrong"}),
        (
            "LooksAround",
            {"more_padding": "wrong", "positions": "note", "queries": "wrong", "long_source": "wrong"},
        ),
        ("RemembersWeights", {"memory": "warning"}),
        ("HasAnInvisibleBias", {"gradients": "note"}),
        ("IgnoresQuery", {"reads_query": "warning"}),
        ("AddsQuery", {"reads_query": "warning"}),
        ("GatesQuery", {"finite": "warning"}),
        ("KnowsOneType", {"gradients": "note", "double": "wrong", "finite": "wrong"}),
    ],
)
def test_what_is_allowed_is_told_apart_from_what_is_wrong(broken, name, verdicts):
    assert {law: finding.verdict for law, finding in findings(getattr(broken, name)).items()} == verdicts


def test_padding_that_gets_weight_is_wrong(monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.normaliser.masked", lambda scores, is_token: scores)
    verdict, message = check_law(make_subject(ScaledDot), "padding")
    assert verdict == "wrong"
    assert message.startswith("padding gets weights up to 0.")


def test_keys_that_play_no_part_are_noted():
    assert findings(Location) == {
        "reads_keys": ("note", "the weights do not depend on the keys: what stands at a position plays no part")
    }


def largest_weights(message):
    return [float(figure) for figure in message.partition("the largest is ")[2].partition(", their")[0].split(", ")]


def test_an_unscaled_dot_is_told_that_it_saturates_with_figures():
    subject = make_subject(Dot)
    verdict, message = check_law(subject, "saturation")
    assert verdict == "warning"
    assert "at size 64, 256, 1024" in message
    draw = torch.Generator().manual_seed(5)
    for size, largest in zip((64, 256, 1024), largest_weights(message), strict=True):
        query, keys = torch.randn(300, 1, size, generator=draw), torch.randn(300, 50, size, generator=draw)
        expected = (query @ keys.transpose(1, 2)).softmax(dim=-1).amax(dim=-1).mean().item()
        assert largest == pytest.approx(expected, abs=0.08)


def test_a_scaled_dot_is_as_sharp_at_every_size_and_no_more():
    verdict, message = check_law(make_subject(ScaledDot), "saturation")
    assert verdict == "ok"
    assert largest_weights(message) == pytest.approx([0.13] * 3, abs=0.03)


@pytest.mark.parametrize("name", ["SwapsAxes", "PreparesAList", "IsNotANumber", "IsRandom"])
def test_nothing_is_compared_while_scores_have_no_shape_or_no_value(broken, name):
    report = check_scorer(getattr(broken, name))
    assert report.is_wrong
    assert report.findings.keys() == {"shapes", "determinism"}
    assert {*report.findings, *report.skipped} == set(LAWS["scorer"])
    assert "not asked before that is mended: singleton_dims, padding" in str(report)


def test_what_a_scorer_raises_is_said_with_its_line_and_the_other_laws_are_asked(broken):
    found = findings(broken.RefusesOneSentence)
    assert found.keys() == {"singleton_dims", "batch", "positions", "queries", "long_source"}
    for finding in found.values():
        source, _, message = finding.message.partition(": ")
        file, _, line = source.partition(", line ")
        assert file == "broken_scorers.py"
        assert 'raise ValueError("one sentence' in Path(broken.__file__).read_text().splitlines()[int(line) - 1]
        assert message == "ValueError: one sentence"


def test_a_report_has_a_line_a_law_and_counts_them():
    findings = {"shapes": Finding("ok", "as wanted"), "batch": Finding("wrong", "mixed"), "memory": Finding("ok", "")}
    report = Report("Mine(query_size=5, key_size=7)", findings, skipped=("copies",))
    first, *laws, skipped, counts = str(report).splitlines()
    assert first == "Mine(query_size=5, key_size=7)"
    assert [line.split()[:2] for line in laws] == [["ok", "shapes"], ["wrong", "batch"], ["ok", "memory"]]
    assert "copies" in skipped
    assert counts == "2 ok, 0 note, 0 warning, 1 wrong"


def test_the_same_scorer_gets_the_same_report_and_random_numbers_elsewhere_stay_theirs(broken):
    torch.manual_seed(3)
    first = {law: check_law(make_subject(broken.Sound), law) for law in ASKED}
    drawn = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), drawn)
    torch.manual_seed(4)
    assert {law: check_law(make_subject(broken.Sound), law) for law in first} == first


def test_an_object_is_examined_as_it_is_and_stays_as_it_was(broken):
    scorer = Additive(9, 11, hidden_size=13)
    before = {name: value.clone() for name, value in scorer.state_dict().items()}
    subject = make_subject(scorer)
    assert subject.name == "Additive(query_size=9, key_size=11)"
    assert all(check_law(subject, law).verdict == "ok" for law in ASKED)
    assert scorer.training
    assert all(torch.equal(value, before[name]) for name, value in scorer.state_dict().items())
    assert all(parameter.grad is None for parameter in scorer.parameters())
    assert check_law(subject, "saturation").message.endswith("at size 9")


def test_a_scorer_is_examined_with_the_options_it_is_made_with(broken):
    assert "key_layer.bias: shifts all scores" in findings(broken.Sound(7, 9, bias=True))["gradients"].message
    assert "key_layer.bias: shifts all scores" in findings(broken.Sound, options={"bias": True})["gradients"].message


@pytest.mark.parametrize(
    ("scorer", "sizes", "message"),
    [
        (7, {}, "7 is no scorer"),
        (Scorer, {}, "Scorer is no whole scorer; it still needs forward, prepare"),
        (Dot, {"query_size": 5, "key_size": 7}, "cannot be made: Dot needs query_size == key_size, got 5 and 7"),
        (Additive, {"options": {"hidden": 3}}, "Additive has no option 'hidden'; it has: hidden_size"),
        (Additive, {"options": {"hidden_size": -3}}, "Additive needs hidden_size > 0, got -3"),
        (General(5, 7), {"query_size": 3}, "the General has its sizes and options; give its class"),
    ],
)
def test_what_cannot_be_examined_is_refused(scorer, sizes, message):
    with pytest.raises(UserError) as error:
        make_subject(scorer, **sizes)
    assert message in str(error.value)


def test_a_part_of_another_kind_is_no_scorer():
    with pytest.raises(UserError, match="MeanContext is no scorer; give it Scorer as its base class"):
        check_scorer(MeanContext)
