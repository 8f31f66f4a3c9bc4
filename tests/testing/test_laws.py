"""How laws are called: one by one, all together, as tests, for classes, instances and names."""

from pathlib import Path
from unittest import SkipTest

import pytest
import torch

from seq2seq_attn.attention import Additive, Context, Dot, General, ScaledDot, Scorer
from seq2seq_attn.errors import UserError
from seq2seq_attn.testing import LawOutcome, LawWarning, Report, check, check_part, laws_of, parametrize_with_laws
from seq2seq_attn.testing.laws import outcome_of


def law_of(part, name, **options):
    (law,) = (law for law in laws_of(part, **options) if law.name == name)
    return law


def test_a_call_raises_what_pytest_reports(broken):
    law_of(broken.Sound, "positions")()
    with pytest.raises(AssertionError, match=r"key 0 changes score 1 by .*, but not score 0"):
        law_of(broken.OffByOne, "positions")()
    with pytest.raises(SkipTest, match="until the law `shapes` holds"):
        law_of(broken.SwapsAxes, "padding")()
    with pytest.warns(LawWarning, match="do not depend on the query"):
        law_of(broken.IgnoresQuery, "reads_query")()


def test_a_part_is_checked_for_all_laws_with_one_sentence_for_each_that_is_broken(broken, only_laws):
    only_laws("positions", "reads_query", "copies")
    check_part(broken.Sound)
    with pytest.raises(AssertionError) as error:
        check_part(broken.OffByOne)
    first, sentence, counts = str(error.value).splitlines()
    assert first.startswith("OffByOne(query_size=16, key_size=24), broken_scorers.py, line ")
    assert sentence.split()[:2] == ["broken", "positions"]
    assert counts == "0 hold, 1 broken, 0 warned of, 0 skipped"
    with pytest.warns(LawWarning, match=r"IgnoresQuery\(.*\), reads_query: the weights do not depend on the query"):
        check_part(broken.IgnoresQuery)


@parametrize_with_laws(General, Dot(5, 5))
def test_laws_can_be_parameters_of_a_test(law):
    if law.name in ("shapes", "positions"):
        law()


def test_laws_that_are_parameters_are_named_by_part_and_law():
    assert repr(law_of(General, "padding")) == "General-padding"


def test_an_exception_is_reported_with_its_line(broken):
    outcome = outcome_of(law_of(broken.RefusesOneSentence, "shapes"))
    place, _, message = outcome.message.partition(": ")
    file, _, line = place.partition(", line ")
    assert (file, message) == ("broken_scorers.py", "ValueError: one sentence")
    assert 'raise ValueError("one sentence' in Path(broken.__file__).read_text().splitlines()[int(line) - 1]


def test_an_assertion_of_the_part_is_an_exception_like_others(broken):
    class Asserts(broken.Sound, registered=False):
        def forward(self, query, prepared):
            assert len(query) > 1
            return super().forward(query, prepared)

    message = outcome_of(law_of(Asserts, "shapes")).message
    assert message.startswith("test_laws.py, line ")
    assert ": AssertionError: " in message


def test_a_report_has_one_line_per_law_and_counts_verdicts(broken, only_laws):
    only_laws("positions")
    report = check(broken.OffByOne)
    first, *lines, counts = str(report).splitlines()
    assert first == f"{report.part}, {report.place}"
    assert [line.split()[:2] for line in lines] == [
        ["holds", "shapes"],
        ["holds", "determinism"],
        ["broken", "positions"],
    ]
    assert lines[1].endswith("In eval mode equal arguments give equal results, and autograd does not change them.")
    assert counts == "2 hold, 1 broken, 0 warned of, 0 skipped"
    assert report.to_records()[-1] == {"law": "positions", "verdict": "broken", "message": report.outcomes[-1].message}
    assert (report.is_broken, Report("Mine()", "", (LawOutcome("x", "warning", ""),)).is_broken) == (True, False)


def test_outcomes_are_deterministic_and_leave_the_global_generator_alone(broken):
    torch.manual_seed(3)
    first = [outcome_of(law_of(broken.OffByOne, name)) for name in ("positions", "batch")]
    drawn = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), drawn)
    torch.manual_seed(4)
    assert [outcome_of(law_of(broken.OffByOne, name)) for name in ("positions", "batch")] == first


def test_an_instance_is_examined_as_it_is_and_not_changed():
    scorer = Additive(9, 11, hidden_size=13)
    before = {name: value.clone() for name, value in scorer.state_dict().items()}
    laws = [law for law in laws_of(scorer) if law.name not in ("compiled", "exported")]
    assert laws[0].subject.name == "Additive(query_size=9, key_size=11)"
    assert {outcome_of(law).verdict for law in laws} == {"holds"}
    assert scorer.training
    assert all(torch.equal(value, before[name]) for name, value in scorer.state_dict().items())
    assert all(parameter.grad is None for parameter in scorer.parameters())


def test_a_class_is_examined_with_its_sizes_and_options(broken):
    for part in (broken.Sound(7, 9, bias=True), None):
        law = law_of(broken.Sound, "gradients", bias=True) if part is None else law_of(part, "gradients")
        assert "key_layer.bias shifts all scores" in outcome_of(law).message
    assert law_of("general", "shapes", query_size=3).subject.name == "General(query_size=3, key_size=24)"
    assert law_of("seq2seq_attn.attention:Dot", "shapes").subject.name == "Dot(query_size=16, key_size=16)"


def test_saturation_of_an_unscaled_dot_product_is_a_warning_with_the_right_figures():
    message = outcome_of(law_of(Dot, "saturation")).message
    figures = message.partition("weights is ")[2].partition(";")[0].split(", ")
    draw = torch.Generator().manual_seed(5)
    for size, figure in zip((64, 256, 1024), figures, strict=True):
        query, keys = torch.randn(300, 1, size, generator=draw), torch.randn(300, 50, size, generator=draw)
        expected = (query @ keys.transpose(1, 2)).softmax(dim=-1).amax(dim=-1).mean().item()
        assert (float(figure.split()[0]), figure.split()[-1]) == (pytest.approx(expected, abs=0.08), str(size))
    assert outcome_of(law_of(ScaledDot, "saturation")).verdict == "holds"
    assert outcome_of(law_of(Dot(9, 9), "saturation")).verdict == "holds"


class NeedsMore(Context):
    reads_query = False

    def __init__(self, color):
        super().__init__()
        self.value_size = 24

    def prepare(self, keys, values=None, is_token=None):
        return keys

    def forward(self, query, source):
        return query, query


@pytest.mark.parametrize(
    ("part", "arguments", "message"),
    [
        (7, {}, "7 is not a scorer"),
        (Scorer, {}, "Scorer is an abstract scorer; implement forward, prepare"),
        (Dot, {"query_size": 5, "key_size": 7}, "cannot be constructed: Dot needs query_size == key_size, got 5 and 7"),
        (Additive, {"hidden": 3}, "Additive has no option 'hidden'; it has: hidden_size"),
        (Additive, {"hidden_size": -3}, "Additive needs hidden_size > 0, got -3"),
        (General(5, 7), {"query_size": 3}, "an instance of General already has its sizes and options; pass the class"),
        (NeedsMore, {}, "needs color; pass an instance"),
        ("dto", {}, "there is no scorer 'dto'; did you mean 'dot'"),
    ],
)
def test_a_part_that_cannot_be_checked_is_refused(part, arguments, message):
    with pytest.raises(UserError) as error:
        check(part, **arguments)
    assert message in str(error.value)
