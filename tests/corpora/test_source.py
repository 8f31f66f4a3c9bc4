"""A batch of sentences: padded on the right, and its tokens without the padding."""

import pytest
import torch

from seq2seq_attn.corpora.source import pad
from seq2seq_attn.errors import UserError


def test_sentences_are_padded_on_the_right_to_the_longest():
    sentences = pad([[5, 3], [3], [7, 6, 5, 3]])
    assert sentences.tokens.tolist() == [[5, 3, 1, 1], [3, 1, 1, 1], [7, 6, 5, 3]]
    assert sentences.lengths.tolist() == [2, 1, 4]
    assert sentences.tokens.dtype == sentences.lengths.dtype == torch.int64
    assert sentences.is_token.tolist() == [
        [True, True, False, False],
        [True, False, False, False],
        [True] * 4,
    ]


def test_the_tokens_without_padding_stand_row_by_row_where_the_mask_says():
    sentences = pad([[5, 3], [3], [7, 6, 5, 3]])
    places, tokens = sentences.placed
    assert tokens.tolist() == [5, 3, 3, 7, 6, 5, 3]
    assert torch.equal(places, sentences.is_token.flatten().nonzero()[:, 0])


def test_a_sentence_without_a_token_is_refused():
    with pytest.raises(UserError, match=r"sentence 1 is empty; end every sentence with `</s>`"):
        pad([[5, 3], [], [3]])
