"""The distance of reordering, worked by hand."""

import pytest

from seq2seq_attn.evaluation.pharaoh import parse_links
from seq2seq_attn.evaluation.reordering import mean_jump


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
def test_a_jump_is_from_the_end_of_one_word_to_the_beginning_of_the_next(links, distance):
    assert mean_jump(parse_links(links).sure) == distance


@pytest.mark.parametrize("links", ["", "4-2", "1-2 4-2"])
def test_without_two_linked_words_there_is_no_distance(links):
    assert mean_jump(parse_links(links).sure) is None
