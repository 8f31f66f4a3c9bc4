"""Lines in flat arrays: what went in comes out, from memory or from files."""

import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_attn.corpora.encoded import EncodedLines, padded
from seq2seq_attn.errors import UserError

SENTENCES = [[5, 3], [70_000, 6, 4, 3], [], [7, 8, 3]]


@given(st.data(), st.sampled_from([(), (2,), (3, 4)]))
@settings(max_examples=40)
def test_lines_in_any_order_are_padded_to_the_longest(data, shape):
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=13))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=17))
    draw = np.random.default_rng(1)
    items = [draw.random((length, *shape), dtype=np.float32) for length in lengths]
    batch, found = padded(EncodedLines.of(items).select(np.array(chosen)), -1)
    assert found.tolist() == [lengths[line] for line in chosen]
    assert batch.dtype == np.float32
    for row, line in zip(batch, chosen, strict=True):
        assert (row[: lengths[line]] == items[line]).all()
        assert (row[lengths[line] :] == -1).all()
        assert len(row) == found.max()


def test_memory_mapped_lines_equal_the_saved_ones_even_after_deletion(tmp_path):
    EncodedLines.of(SENTENCES).save(tmp_path / "kept", "source")
    mapped = EncodedLines.load(tmp_path / "kept", "source")
    shutil.rmtree(tmp_path / "kept")
    assert [line.tolist() for line in mapped] == SENTENCES
    assert mapped.lengths.tolist() == [2, 4, 0, 3]
    with pytest.raises(ValueError, match="read-only"):
        mapped.values[0] = 4


def test_a_batch_has_no_empty_sentence():
    with pytest.raises(UserError, match="sentence 2 is empty"):
        padded(EncodedLines.of(SENTENCES))


@pytest.mark.parametrize("other", [np.ones((3, 5), np.float32), np.ones((2, 4), np.float64)])
def test_lines_that_differ_in_more_than_their_length_are_refused_by_number(other):
    with pytest.raises(UserError, match="line 3 "):
        EncodedLines.of([np.ones((7, 4), np.float32), [], other])
