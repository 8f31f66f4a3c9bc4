from __future__ import annotations

import gzip

import numpy as np
import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import agreement, alignment_error_rate
from seq2seq_attn.evaluation.pharaoh import format_links, parse_links, read_gold, read_gold_of


def test_a_dash_is_sure_and_both_other_marks_are_possible():
    gold = parse_links("0-0 1p2 11?7 3-12")
    assert gold.sure == {(0, 0), (3, 12)}
    assert gold.possible == {(0, 0), (3, 12), (1, 2), (11, 7)}


def test_what_is_written_reads_back_the_same_in_order():
    line = "0-0 1p2 3-12 11p7"
    assert format_links(*parse_links(line)) == line
    assert format_links({(10, 0), (9, 4), (9, 3)}) == "9-3 9-4 10-0"
    assert format_links(set()) == ""


@pytest.mark.parametrize("link", ["1:2", "1-", "-1-2", "1-2-3", "a-b", "1P2", "٣-1"])
def test_a_bad_link_names_file_and_line(tmp_path, link):
    path = tmp_path / "gold.align"
    path.write_text(f"0-0\n\n1-1 {link}\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"gold\.align, line 3: '{link}' is no link"):
        read_gold(path)


def test_bytes_that_are_not_utf8_are_a_bad_link(tmp_path):
    path = tmp_path / "gold.align"
    path.write_bytes(b"0-0\n1-\xff\n")
    with pytest.raises(UserError, match=r"gold\.align, line 2"):
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


def test_a_link_to_a_word_that_there_is_not_is_refused(tmp_path):
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


def test_a_gold_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.align: cannot read"):
        read_gold(tmp_path / "none.align")
    truncated = tmp_path / "gold.gz"
    truncated.write_bytes(gzip.compress(b"0-0\n" * 50)[:-9])
    with pytest.raises(UserError, match=r"gold\.gz: cannot read"):
        read_gold(truncated)


def test_error_rate_worked_by_hand():
    # |A| = 4, |S| = 3; of A two are sure, one more is possible: AER = 1 - (2 + 3) / (4 + 3)
    predicted = [{(0, 0), (1, 1), (2, 1), (3, 5)}]
    sure, possible = [{(0, 0), (1, 1), (2, 2)}], [{(2, 1), (3, 3)}]
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(2 / 7)
    found = agreement(predicted, sure, possible)
    assert (found.precision, found.recall) == (3 / 4, 2 / 3)
    assert found.f1 == pytest.approx(2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3))


def test_the_rates_are_those_of_matrices_of_links():
    draw = np.random.default_rng(5)
    predicted, sure, possible = draw.random((3, 40, 6, 7)) < np.reshape([0.3, 0.2, 0.2], (3, 1, 1, 1))
    possible |= sure
    found = agreement(*([set(map(tuple, np.argwhere(pair))) for pair in side] for side in (predicted, sure, possible)))
    assert found.precision == pytest.approx(possible[predicted].mean())
    assert found.recall == pytest.approx(predicted[sure].mean())
    hits = (predicted & sure).sum() + (predicted & possible).sum()
    assert found.error_rate == pytest.approx(1 - hits / (predicted.sum() + sure.sum()))


def test_the_agreement_of_two_alignments_is_the_same_from_either_side():
    one, other = [parse_links("0-0 1-1 2-2").sure, set()], [parse_links("0-0 1-2").sure, parse_links("3-1").sure]
    assert agreement(one, other).f1 == agreement(other, one).f1 == pytest.approx(2 * 1 / (3 + 3))


def test_links_are_counted_over_the_corpus_not_averaged_over_sentences():
    # sentence rates are 0 and 1; of 4 predicted and 4 sure links, 3 agree
    predicted = [{(0, 0), (1, 1), (2, 2)}, {(0, 1)}]
    sure = [{(0, 0), (1, 1), (2, 2)}, {(1, 0)}]
    found = agreement(predicted, sure)
    assert found.error_rate == pytest.approx(1 - (3 + 3) / (4 + 4))
    assert found.f1 == pytest.approx(1 - found.error_rate)


def test_possible_links_alone_neither_help_recall_nor_hurt_who_leaves_them():
    sure, possible = [{(0, 0)}], [{(0, 0), (1, 2)}]
    assert alignment_error_rate([{(0, 0)}], sure, possible) == 0
    assert alignment_error_rate([{(0, 0), (1, 2)}], sure, possible) == 0
    assert alignment_error_rate([{(0, 0), (1, 2)}], sure) == pytest.approx(1 / 3)


def test_no_predicted_link_is_the_worst_alignment():
    found = agreement([set(), set()], [{(0, 0)}, set()])
    assert (found.precision, found.recall, found.f1, found.error_rate) == (0, 0, 0, 1)


def test_corpora_of_other_lengths_and_a_gold_without_sure_links_are_refused():
    with pytest.raises(UserError, match="1 lines of predicted links, 2 of sure and 3 of possible"):
        alignment_error_rate([set()], [set()] * 2, [set()] * 3)
    with pytest.raises(UserError, match="no sure link"):
        alignment_error_rate([{(0, 0)}], [set()], [{(0, 0)}])
