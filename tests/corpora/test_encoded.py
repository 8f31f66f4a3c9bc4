"""Sentences in flat arrays: what went in comes out, from memory or from files."""

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_attn.corpora.encoded import EncodedSentences
from seq2seq_attn.corpora.vocabulary import PAD
from seq2seq_attn.errors import UserError

SENTENCES = [[5, 3], [70_000, 6, 4, 3], [3], [7, 8, 3]]


@given(st.data())
@settings(max_examples=40)
def test_rows_in_any_order_are_padded_to_the_longest(data):
    sentences = data.draw(st.lists(st.lists(st.integers(0, 99_999), min_size=1, max_size=9), min_size=1, max_size=13))
    rows = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=17))
    tokens, lengths = EncodedSentences.of(sentences).padded(rows)
    chosen = [sentences[row] for row in rows]
    longest = max(map(len, chosen))
    assert lengths.tolist() == [len(sentence) for sentence in chosen]
    assert tokens.tolist() == [sentence + [PAD] * (longest - len(sentence)) for sentence in chosen]


def test_memory_mapped_sentences_equal_the_saved_ones_even_after_deletion(tmp_path):
    EncodedSentences.of(SENTENCES).save(tmp_path / "kept", "source")
    mapped = EncodedSentences.load(tmp_path / "kept", "source")
    shutil.rmtree(tmp_path / "kept")
    assert [mapped.padded([row])[0].tolist() for row in range(len(mapped))] == [[ids] for ids in SENTENCES]
    assert mapped.lengths.tolist() == [2, 4, 1, 3]
    with pytest.raises(ValueError, match="read-only"):
        mapped.ids[0] = 4


def test_an_empty_sentence_is_refused():
    with pytest.raises(UserError, match="sentence 2 is empty"):
        EncodedSentences.of([[5, 3], [3], []])
