"""Word alignments: the file format, agreement with gold links, symmetrization, reordering."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import (
    GoldCorpus,
    agreement,
    alignment_error_rate,
    flipped,
    format_links,
    mean_jump,
    parse_links,
    read_gold,
    read_gold_of,
    symmetrize,
    trivial_error_rates,
)


def test_a_dash_marks_a_sure_link_and_p_or_question_mark_a_possible_one():
    gold = parse_links("0-0 1p2 11?7 3-12")
    assert gold.sure == {(0, 0), (3, 12)}
    assert gold.possible == {(0, 0), (3, 12), (1, 2), (11, 7)}


def test_formatted_links_parse_to_the_same_links():
    links = {(10, 0), (9, 4), (9, 3)}
    assert format_links(links) == "9-3 9-4 10-0"
    assert parse_links(format_links(links)).sure == links
    assert format_links(set()) == ""


@pytest.mark.parametrize("link", ["1:2", "1-", "-1-2", "1-2-3", "a-b", "1P2", "٣-1"])
def test_an_invalid_link_is_refused_with_file_and_line(tmp_path, link):
    path = tmp_path / "gold.align"
    path.write_text(f"0-0\n\n1-1 {link}\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"gold\.align, line 3: '{link}' is not a link"):
        read_gold(path)


@pytest.mark.parametrize("name", ["gold.align", "gold.align.gz"])
def test_gold_links_are_read_plain_or_compressed_and_an_empty_line_has_none(tmp_path, name):
    path = tmp_path / name
    content = b"0-0 1p0\r\n\r\n2-3\r\n"
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    gold = read_gold(path, sentences=3)
    assert gold.sure == [{(0, 0)}, set(), {(2, 3)}]
    assert gold.possible == [{(0, 0), (1, 0)}, set(), {(2, 3)}]
    assert alignment_error_rate(gold.sure, *gold) == 0


def test_a_gold_file_of_another_length_is_refused_with_both_counts(tmp_path):
    path = tmp_path / "gold.align"
    path.write_text("0-0\n1-1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"gold\.align: 2 lines for 3 sentence pairs"):
        read_gold(path, sentences=3)
    for sentences in (1, 4):
        with pytest.raises(UserError, match=rf"gold\.align: 2 lines for {sentences} sentence pairs"):
            read_gold_of(path, ["a b"] * sentences, ["x y"] * sentences)


def test_a_link_outside_the_sentence_is_refused(tmp_path):
    path = tmp_path / "gold.align"
    sources, targets = ["a b", "c d  e"], ["x", "y z"]
    path.write_text("1-0\n0p1 2-1\n", encoding="utf-8")
    assert read_gold_of(path, sources, targets) == read_gold(path)
    for link in ("3-1", "0p2"):  # as if words were counted from 1
        path.write_text(f"1-0\n2-1 {link}\n", encoding="utf-8")
        shown = link.replace("p", "-")
        with pytest.raises(
            UserError, match=rf"gold\.align, line 2: link {shown}, but the pair has 3 source and 2 target"
        ):
            read_gold_of(path, sources, targets)


def test_the_error_rate_equals_a_computation_by_hand():
    # |A| = 4, |S| = 3; of A two are sure, one more is possible: AER = 1 - (2 + 3) / (4 + 3)
    predicted = [{(0, 0), (1, 1), (2, 1), (3, 5)}]
    sure, possible = [{(0, 0), (1, 1), (2, 2)}], [{(2, 1), (3, 3)}]
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(2 / 7)
    found = agreement(predicted, sure, possible)
    assert (found.precision, found.recall) == (3 / 4, 2 / 3)
    assert found.f1 == pytest.approx(2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3))


def test_the_rates_equal_those_of_link_matrices():
    draw = np.random.default_rng(5)
    predicted, sure, possible = draw.random((3, 40, 6, 7)) < np.reshape([0.3, 0.2, 0.2], (3, 1, 1, 1))
    possible |= sure
    found = agreement(*([set(map(tuple, np.argwhere(pair))) for pair in side] for side in (predicted, sure, possible)))
    assert found.precision == pytest.approx(possible[predicted].mean())
    assert found.recall == pytest.approx(predicted[sure].mean())
    hits = (predicted & sure).sum() + (predicted & possible).sum()
    assert found.error_rate == pytest.approx(1 - hits / (predicted.sum() + sure.sum()))


def test_the_interval_of_the_error_rate_is_that_of_resampled_pairs():
    draw = np.random.default_rng(6)
    predicted, sure = draw.random((2, 60, 4, 5)) < 0.3
    found = agreement(*([set(map(tuple, np.argwhere(pair))) for pair in side] for side in (predicted, sure)))
    rates = []
    for rows in np.random.default_rng(12345).choice(60, size=(1000, 60)):
        both = (predicted[rows] & sure[rows]).sum()
        rates.append(1 - 2 * both / (predicted[rows].sum() + sure[rows].sum()))
    low, high = sorted(rates)[25], sorted(rates)[-26]
    assert found.error_rate_interval == pytest.approx((low, high))
    assert low < found.error_rate < high


def test_pairs_with_the_same_source_are_drawn_together():
    draw = np.random.default_rng(6)
    links = [[set(map(tuple, np.argwhere(pair))) for pair in side] for side in draw.random((2, 60, 4, 5)) < 0.3]
    once = agreement(*links)
    again = agreement(*(side * 4 for side in links), sources=[*map(str, range(60))] * 4)
    assert (again.error_rate, again.predicted) == (once.error_rate, 4 * once.predicted)
    assert again.error_rate_interval == pytest.approx(once.error_rate_interval)
    low, high = agreement(*(side * 4 for side in links)).error_rate_interval
    assert high - low < 0.6 * np.subtract(*reversed(once.error_rate_interval))


def test_one_pair_has_no_interval():
    assert agreement([{(0, 0)}], [{(0, 0)}]).error_rate_interval is None
    nothing = agreement(
        [set(), set()], [set(), set()], [{(0, 0)}, {(1, 1)}]
    )  # possible links alone, none of them found
    assert (nothing.error_rate, nothing.error_rate_interval) == (1, None)
    assert agreement([{(0, 0)}] * 2, [{(0, 0)}] * 2).error_rate_interval == (0, 0)


def test_f1_is_symmetric():
    one, other = [parse_links("0-0 1-1 2-2").sure, set()], [parse_links("0-0 1-2").sure, parse_links("3-1").sure]
    assert agreement(one, other).f1 == agreement(other, one).f1 == pytest.approx(2 * 1 / (3 + 3))


def test_an_empty_alignment_has_the_worst_error_rate():
    found = agreement([set(), set()], [{(0, 0)}, set()])
    assert (found.precision, found.recall, found.f1, found.error_rate) == (0, 0, 0, 1)


def test_the_error_rates_of_trivial_alignments_equal_a_computation_by_hand():
    # Diagonal: 0-0, 1-1, and the middle word of three, which is possible: 1 - (2 + 3) / (3 + 3).
    # Random: each of the first two links has probability 1/2, the sure one of the second pair 1/3, either 2/3; so
    # 1 - (1 + 1/3 + 1 + 2/3) / 6.
    sure = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)})]
    possible = [sure[0], frozenset({(0, 0), (1, 0)})]
    rates = trivial_error_rates(GoldCorpus(sure, possible), [2, 3], ["A B", "C"])
    assert rates == {"diagonal": pytest.approx(1 / 6), "random": pytest.approx(1 / 2)}
    with_a_blank_line = GoldCorpus([*sure, frozenset()], [*possible, frozenset()])
    assert trivial_error_rates(with_a_blank_line, [2, 3, 0], ["A B", "C", "D"]) == rates


def test_without_a_sure_link_the_error_rate_is_the_share_of_links_that_are_not_possible():
    found = agreement([{(0, 0), (1, 1)}, {(3, 0)}], [set(), set()], [{(0, 0), (2, 1)}, {(3, 0), (4, 0)}])
    assert (found.precision, found.recall) == (pytest.approx(2 / 3), 1)
    assert found.error_rate == pytest.approx(1 / 3)
    assert agreement([set()], [set()], [{(0, 0)}]).error_rate == 1


def test_different_lengths_and_gold_without_links_are_refused():
    with pytest.raises(UserError, match="1 lines of predicted links, 2 of sure and 3 of possible"):
        alignment_error_rate([set()], [set()] * 2, [set()] * 3)
    with pytest.raises(UserError, match="no link"):
        alignment_error_rate([{(0, 0)}], [set()])


METHODS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")

# Eight words a side. Both directions have 0-0 1-1 4-3. Of the others
#   1-2 stands below 1-1 and gives target 2 its first link; then 2-2 beside it gives source 2 its first
#   0-4 and 4-6 give a target word its first link, 6-5 both words; nothing that has grown is beside them
#   3-0 and 5-5 give a source word its first, 7-7 both; 6-4 neither, as 0-4 and 6-5 came before it
FORWARD = parse_links("0-0 1-1 1-2 4-3 0-4 6-5 4-6").sure  # each target word has one at most
BACKWARD = parse_links("0-0 1-1 2-2 3-0 4-3 5-5 6-4 7-7").sure  # each source word has one at most


def test_every_method_equals_a_computation_by_hand():
    def joined(method):
        return symmetrize(FORWARD, BACKWARD, method)

    assert joined("intersection") == parse_links("0-0 1-1 4-3").sure
    assert joined("union") == parse_links("0-0 1-1 1-2 4-3 0-4 6-5 4-6 2-2 3-0 5-5 6-4 7-7").sure
    assert joined("grow-diag") == parse_links("0-0 1-1 4-3 1-2 2-2").sure
    assert joined("grow-diag-final-and") == parse_links("0-0 1-1 4-3 1-2 2-2 6-5 7-7").sure
    assert joined("grow-diag-final") == joined("union") - {(6, 4)}


links = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=12)


@given(forward=links, backward=links)
@settings(max_examples=30)
def test_methods_are_ordered_from_intersection_to_union(forward, backward):
    found = {method: symmetrize(forward, backward, method) for method in METHODS}
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
@settings(max_examples=30)
def test_the_growing_methods_equal_their_pseudo_code(forward, backward):
    assert symmetrize(forward, backward, "grow-diag") == by_matrices(forward, backward, None)
    assert symmetrize(forward, backward, "grow-diag-final") == by_matrices(forward, backward, np.logical_or)
    assert symmetrize(forward, backward, "grow-diag-final-and") == by_matrices(forward, backward, np.logical_and)


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


def test_flipped_swaps_source_and_target():
    assert flipped({(0, 3), (2, 1)}) == {(3, 0), (1, 2)}


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match="'grow': choose from intersection, union, grow-diag"):
        symmetrize(set(), set(), "grow")


@pytest.mark.parametrize(
    ("links", "distance"),
    [
        ("0-0 1-1 2-2", 0),
        ("2-0 1-1 0-2", 2),  # each step goes back over two words
        ("1-0 0-1 2-2", (2 + 1) / 2),
        ("0-0 3-1 1-2", (2 + 3) / 2),
        ("0-0 3-5", 2),  # what is not linked in between does not count
        ("0-0 1-0 2-0 3-1", 0),  # from the last word of one to the first of the next
        ("3-0 0-1 1-1", 4),
        ("1-0 1-1", 1),  # the same word again
    ],
)
def test_a_jump_is_measured_from_the_last_source_word_to_the_next_first(links, distance):
    assert mean_jump(parse_links(links).sure) == distance


@pytest.mark.parametrize("links", ["", "4-2", "1-2 4-2"])
def test_fewer_than_two_linked_words_have_no_mean_jump(links):
    assert mean_jump(parse_links(links).sure) is None
