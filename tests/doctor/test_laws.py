"""Each law reports the defects that break it, and nothing else."""

import math
from pathlib import Path

import pytest
import torch

from seq2seq_attn.attention import Additive, Dot, General, Location, ScaledDot, Scorer
from seq2seq_attn.doctor import LAWS, Finding, Report, check, check_law, check_subject, make_subject
from seq2seq_attn.errors import UserError

# `test_graphs.py` has the laws of graphs: torch cannot trace the checks of shapes that are active here.
CHECKED = [law for law in LAWS["scorer"] if law not in ("compiled", "exported", "translator")]


def findings(scorer, **sizes):
    """Findings other than ok, by law."""
    found = check_subject(make_subject(scorer, **sizes), CHECKED).findings
    return {law: finding for law, finding in found.items() if finding.verdict != "ok"}


# Other laws that the same defect breaks.
ALSO = {
    "CachesKeys": ["extend"],
    "MixesSentences": ["queries", "training"],
    "ChangesKeys": ["strides"],
    "ChangesQuery": ["strides"],
    "CountsQueries": ["long_source"],
    "DividesByLength": ["zero_vectors"],
}


@pytest.mark.parametrize("name", ["Sound", "SumsWeights", "DropsOut", "HasAKinkAtZero"])
def test_a_sound_scorer_keeps_all_laws(broken, name):
    assert findings(getattr(broken, name)) == {}


@pytest.mark.parametrize(
    ("name", "law", "words"),
    [
        ("LosesAnAxis", "singleton_dims", ["(2, 3)", "(2, 3, 1)"]),
        ("OffByOne", "positions", ["key 0 changes score 1", "not score 0"]),
        ("MixesSentences", "batch", ["alone", "mixed"]),
        ("ChangesKeys", "inputs", ["prepare", "keys", "by 0.5"]),
        ("ChangesQuery", "inputs", ["forward", "query", "by 0.5"]),
        ("CachesKeys", "memory", ["another sentence"]),
        ("CountsQueries", "queries", ["3 queries in one call"]),
        ("LooksTooFarAhead", "queries", ["3 steps in one call"]),
        ("MixesHypotheses", "hypotheses", ["in a beam"]),
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
def test_a_defect_breaks_its_law_and_no_other(broken, name, law, words):
    found = findings(getattr(broken, name))
    verdicts = {law: finding.verdict for law, finding in found.items()}
    assert verdicts == {law: "wrong"} | dict.fromkeys(ALSO.get(name, ()), "wrong")
    for word in words:
        assert word in found[law].message


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        # Softmax over infinite scores in half precision is NaN, since the mask is applied later.
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
        ("ShiftsRows", {"more_padding": "warning", "positions": "note", "finite": "wrong"}),
        (
            "LooksAround",
            {
                "more_padding": "wrong",
                "positions": "note",
                "queries": "wrong",
                "long_source": "wrong",
                "extend": "wrong",
            },
        ),
        ("RemembersWeights", {"memory": "warning"}),
        ("HasAnInvisibleBias", {"gradients": "note"}),
        ("IgnoresQuery", {"reads_query": "warning"}),
        ("AddsQuery", {"reads_query": "warning"}),
        ("GatesQuery", {"finite": "warning"}),
        ("SupportsOneDtype", {"gradients": "note", "double": "wrong", "finite": "wrong"}),
    ],
)
def test_the_verdict_separates_what_is_allowed_from_what_is_wrong(broken, name, verdicts):
    assert {law: finding.verdict for law, finding in findings(getattr(broken, name)).items()} == verdicts


def test_weight_on_padding_is_wrong(monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.normalizer.masked", lambda scores, is_token: scores)
    verdict, message = check_law(make_subject(ScaledDot), "padding")
    assert verdict == "wrong"
    assert message.startswith("padding gets weights up to 0.")


def test_weights_that_do_not_depend_on_the_keys_are_noted():
    assert findings(Location) == {
        "reads_keys": ("note", "the weights do not depend on the keys, but only on positions")
    }


def largest_weights(message):
    return [
        float(figure)
        for figure in message.partition("the largest of 50 weights is ")[2].partition(", their")[0].split(", ")
    ]


def test_saturation_of_an_unscaled_dot_product_is_a_warning_with_the_right_figures():
    subject = make_subject(Dot)
    verdict, message = check_law(subject, "saturation")
    assert verdict == "warning"
    assert "at size 64, 256, 1024" in message
    draw = torch.Generator().manual_seed(5)
    for size, largest in zip((64, 256, 1024), largest_weights(message), strict=True):
        query, keys = torch.randn(300, 1, size, generator=draw), torch.randn(300, 50, size, generator=draw)
        expected = (query @ keys.transpose(1, 2)).softmax(dim=-1).amax(dim=-1).mean().item()
        assert largest == pytest.approx(expected, abs=0.08)


def test_a_scaled_dot_product_does_not_saturate_at_any_size():
    verdict, message = check_law(make_subject(ScaledDot), "saturation")
    assert verdict == "ok"
    assert largest_weights(message) == pytest.approx([0.13] * 3, abs=0.03)


@pytest.mark.parametrize("name", ["SwapsAxes", "PreparesAList", "IsNotANumber", "IsRandom"])
def test_other_laws_are_skipped_if_shapes_or_determinism_are_broken(broken, name):
    report = check(getattr(broken, name))
    assert report.is_wrong
    assert report.findings.keys() == {"shapes", "determinism"}
    assert {*report.findings, *report.skipped} == set(LAWS["scorer"])
    assert "not checked until that is fixed: singleton_dims, padding" in str(report)


def test_an_exception_is_reported_with_its_line_and_the_other_laws_are_checked(broken):
    found = findings(broken.RefusesOneSentence)
    assert found.keys() == {"singleton_dims", "batch", "positions", "queries", "long_source"}
    for finding in found.values():
        source, _, message = finding.message.partition(": ")
        file, _, line = source.partition(", line ")
        assert file == "broken_scorers.py"
        assert 'raise ValueError("one sentence' in Path(broken.__file__).read_text().splitlines()[int(line) - 1]
        assert message == "ValueError: one sentence"


def test_a_report_has_one_line_per_law_and_counts_verdicts():
    findings = {"shapes": Finding("ok", "as expected"), "batch": Finding("wrong", "mixed"), "memory": Finding("ok", "")}
    report = Report("Mine(query_size=5, key_size=7)", findings, skipped=("copies",))
    first, *laws, skipped, counts = str(report).splitlines()
    assert first == "Mine(query_size=5, key_size=7)"
    assert [line.split()[:2] for line in laws] == [["ok", "shapes"], ["wrong", "batch"], ["ok", "memory"]]
    assert "copies" in skipped
    assert counts == "2 ok, 0 note, 0 warning, 1 wrong"


def test_reports_are_deterministic_and_leave_the_global_generator_alone(broken):
    torch.manual_seed(3)
    first = {law: check_law(make_subject(broken.Sound), law) for law in CHECKED}
    drawn = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), drawn)
    torch.manual_seed(4)
    assert {law: check_law(make_subject(broken.Sound), law) for law in first} == first


def test_an_instance_is_checked_as_it_is_and_not_modified(broken):
    scorer = Additive(9, 11, hidden_size=13)
    before = {name: value.clone() for name, value in scorer.state_dict().items()}
    subject = make_subject(scorer)
    assert subject.name == "Additive(query_size=9, key_size=11)"
    assert all(check_law(subject, law).verdict == "ok" for law in CHECKED)
    assert scorer.training
    assert all(torch.equal(value, before[name]) for name, value in scorer.state_dict().items())
    assert all(parameter.grad is None for parameter in scorer.parameters())
    assert check_law(subject, "saturation").message.endswith("at size 9")


def test_a_class_is_checked_with_its_options(broken):
    assert "key_layer.bias shifts all scores" in findings(broken.Sound(7, 9, bias=True))["gradients"].message
    assert "key_layer.bias shifts all scores" in findings(broken.Sound, options={"bias": True})["gradients"].message


@pytest.mark.parametrize(
    ("scorer", "sizes", "message"),
    [
        (7, {}, "7 is not a scorer"),
        (Scorer, {}, "Scorer is an abstract scorer; implement forward, prepare"),
        (Dot, {"query_size": 5, "key_size": 7}, "cannot be constructed: Dot needs query_size == key_size, got 5 and 7"),
        (Additive, {"options": {"hidden": 3}}, "Additive has no option 'hidden'; it has: hidden_size"),
        (Additive, {"options": {"hidden_size": -3}}, "Additive needs hidden_size > 0, got -3"),
        (General(5, 7), {"query_size": 3}, "an instance of General already has its sizes and options; pass the class"),
    ],
)
def test_a_part_that_cannot_be_checked_is_refused(scorer, sizes, message):
    with pytest.raises(UserError) as error:
        make_subject(scorer, **sizes)
    assert message in str(error.value)


def test_nan_in_a_variable_of_the_module_is_not_a_change(broken, monkeypatch):
    monkeypatch.setattr(broken, "nan", math.nan, raising=False)
    assert check_law(make_subject(broken.Sound), "memory").verdict == "ok"


class Large(General, registered=False):
    """Scores at which softmax is saturated."""

    def forward(self, query, prepared):
        return 100 * super().forward(query, prepared)


class Single(General, registered=False):
    """In float32, whatever the inputs are."""

    def forward(self, query, prepared):
        return super().forward(query, prepared).float()


def test_a_saturated_softmax_is_not_taken_for_a_parameter_without_effect():
    assert check_law(make_subject(Large), "gradients").verdict == "ok"


def test_gradients_that_cannot_be_measured_are_not_said_to_be_measured():
    found = check_law(make_subject(Single), "gradients")
    assert (found.verdict, "cannot be compared with differences" in found.message) == ("note", True)
