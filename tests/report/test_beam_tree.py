"""The layout of a beam: every step once, each in its own cell, and no line through a node."""

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.report.html_attention import beam_layout
from seq2seq_attn.results.examples import EXAMPLES, BeamHypothesis, DecodingStep, DecodingTrace


def reading(parents, ends, log_probabilities=None):
    beam = [
        DecodingStep(str(place), (log_probabilities or {}).get(place, -1.0), parent)
        for place, parent in enumerate(parents)
    ]
    found = [BeamHypothesis(last, -1.0, -1.0) for last in ends]
    return DecodingTrace("a", 1, 2, ("</s>",), (), (), None, tuple(beam), tuple(found), (DecodingStep("</s>", -1.0),))


BUSHY = reading([None, None, 0, 0, 1, 2, 2, 3, 4, 5, 5, 7, 10, 9], [12, 13, 11])


def places(nodes):
    return {int(node.step.token): (node.row, node.column) for node in nodes}


def test_the_best_hypothesis_is_the_first_row_and_branches_go_below():
    nodes = beam_layout(reading([None, 0, 0, 2, 1], [3, 4]))
    assert places(nodes) == {0: (1, 2), 2: (1, 3), 3: (1, 4), 1: (2, 3), 4: (2, 4)}
    assert {int(n.step.token): n.rank for n in nodes} == {0: 1, 2: 1, 3: 1, 1: 2, 4: 2}
    assert {int(n.step.token) for n in nodes if n.hypothesis} == {3, 4}


def test_pruned_steps_come_last_in_order_of_probability():
    nodes = beam_layout(reading([None, None, None, 0], [3], {1: -5.0, 2: -2.0}))
    assert places(nodes) == {0: (1, 2), 3: (1, 3), 2: (2, 2), 1: (3, 2)}
    assert [node.rank for node in nodes if node.row > 1] == [None, None]


def test_every_step_has_its_own_cell_right_of_its_parent():
    nodes = beam_layout(BUSHY)
    where = places(nodes)
    assert len(where) == len(set(where.values())) == len(BUSHY.beam)
    for node in nodes:
        parent = node.step.parent
        row, column = (1, 1) if parent is None else where[parent]
        assert (node.parent_row, node.column) == (row, column + 1)
        assert node.row >= row


def test_no_line_to_a_branch_crosses_the_line_between_two_other_steps():
    nodes = beam_layout(BUSHY)
    for branch in nodes:
        between = range(branch.parent_row + 1, branch.row)
        crossed = [n for n in nodes if n.column == branch.column and n.row in between and n.row == n.parent_row]
        assert crossed == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["beam"][2].update(parent=2), "beam.2: parent 2 is not an earlier step"),
        (lambda r: r["reference"][1]["scores"].pop(), "reference.1: weights and scores need 4 numbers"),
        (lambda r: r["hypotheses"][1].update(last=6), "last must be one of the 6 steps"),
        (lambda r: r["norms"].pop(), "norms needs 4 numbers"),
        (lambda r: r["source_words"].append(2), "source_words needs 3 numbers"),
        (lambda r: r["beam"][0].update(log_probability="-0.1"), "valid number"),
    ],
)
def test_examples_that_do_not_fit_together_are_refused(change, message, all_values, write):
    change(all_values["examples.json"][0]["readings"][0])
    with pytest.raises(UserError, match=r"examples\.json: 0\.readings\.0") as refused:
        EXAMPLES.load(write(all_values))
    assert message in str(refused.value)
