from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.pharaoh import parse_links
from seq2seq_attn.evaluation.symmetrisation import flipped, symmetrise

METHODS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")

# Eight words a side. Both directions have 0-0 1-1 4-3. Of the others
#   1-2 stands below 1-1 and gives target 2 its first link; then 2-2 beside it gives source 2 its first
#   0-4 and 4-6 give a target word its first link, 6-5 both words; nothing that has grown is beside them
#   3-0 and 5-5 give a source word its first, 7-7 both; 6-4 neither, as 0-4 and 6-5 came before it
FORWARD = parse_links("0-0 1-1 1-2 4-3 0-4 6-5 4-6").sure  # each target word has one at most
BACKWARD = parse_links("0-0 1-1 2-2 3-0 4-3 5-5 6-4 7-7").sure  # each source word has one at most


def test_every_method_worked_by_hand():
    def joined(method):
        return symmetrise(FORWARD, BACKWARD, method)

    assert joined("intersection") == parse_links("0-0 1-1 4-3").sure
    assert joined("union") == parse_links("0-0 1-1 1-2 4-3 0-4 6-5 4-6 2-2 3-0 5-5 6-4 7-7").sure
    assert joined("grow-diag") == parse_links("0-0 1-1 4-3 1-2 2-2").sure
    assert joined("grow-diag-final-and") == parse_links("0-0 1-1 4-3 1-2 2-2 6-5 7-7").sure
    assert joined("grow-diag-final") == joined("union") - {(6, 4)}


def test_grow_diag_follows_the_diagonal_from_link_to_link_and_leaps_no_gap():
    diagonal = {(i, i) for i in (0, 1, 2, 3, 5)}
    assert symmetrise({(2, 2)}, diagonal, "grow-diag") == {(0, 0), (1, 1), (2, 2), (3, 3)}


def test_a_neighbour_whose_words_both_have_links_is_not_added():
    forward, backward = parse_links("0-0 1-1 0-1").sure, parse_links("0-0 1-1 1-0").sure
    assert symmetrise(forward, backward, "grow-diag-final") == {(0, 0), (1, 1)}


links = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=12)


@given(forward=links, backward=links)
@settings(max_examples=30, deadline=None)
def test_from_the_intersection_to_the_union_each_method_adds(forward, backward):
    found = {method: symmetrise(forward, backward, method) for method in METHODS}
    assert found["intersection"] == forward & backward
    assert found["union"] == forward | backward
    assert found["intersection"] <= found["grow-diag"]
    for final in ("grow-diag-final", "grow-diag-final-and"):
        assert found["grow-diag"] <= found[final] <= found["union"]
    # After `final` every word that has a link at all has one; `final-and` leaves no pair of words without.
    for side in (0, 1):
        assert {link[side] for link in found["grow-diag-final"]} == {link[side] for link in found["union"]}
    linked = [{link[side] for link in found["grow-diag-final-and"]} for side in (0, 1)]
    assert all(i in linked[0] or j in linked[1] for i, j in found["union"])


@given(forward=links, backward=links)
@settings(max_examples=30, deadline=None)
def test_the_growing_methods_are_those_of_their_pseudo_code(forward, backward):
    assert symmetrise(forward, backward, "grow-diag") == by_matrices(forward, backward, None)
    assert symmetrise(forward, backward, "grow-diag-final") == by_matrices(forward, backward, np.logical_or)
    assert symmetrise(forward, backward, "grow-diag-final-and") == by_matrices(forward, backward, np.logical_and)


def by_matrices(forward, backward, either_or_both):
    """As the manual of Moses has it: e counts target words, f source words."""
    e2f, f2e = np.zeros((2, 7, 6), dtype=bool)
    for matrix, directed in ((e2f, forward), (f2e, backward)):
        for f, e in directed:
            matrix[e, f] = True
    alignment, union = e2f & f2e, e2f | f2e
    changed = True
    while changed:
        changed = False
        for e, f in np.ndindex(alignment.shape):
            if not alignment[e, f]:
                continue
            for down, right in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                new_e, new_f = e + down, f + right
                if 0 <= new_e < 7 and 0 <= new_f < 6 and union[new_e, new_f]:
                    unaligned = not alignment[new_e].any() or not alignment[:, new_f].any()
                    changed |= unaligned
                    alignment[new_e, new_f] |= unaligned
    for directed in (e2f, f2e) if either_or_both else ():
        for e, f in np.ndindex(alignment.shape):
            if directed[e, f] and either_or_both(not alignment[e].any(), not alignment[:, f].any()):
                alignment[e, f] = True
    return {(int(f), int(e)) for e, f in np.argwhere(alignment)}


def test_links_of_the_other_direction_are_turned_round():
    assert flipped({(0, 3), (2, 1)}) == {(3, 0), (1, 2)}


def test_a_method_that_there_is_not_names_those_that_there_are():
    with pytest.raises(UserError, match="'grow': there is intersection, union, grow-diag"):
        symmetrise(set(), set(), "grow")
