"""Word alignments of a model: words from subwords, and the weights of each word."""

import numpy as np
import pytest
import torch

from seq2seq_attn.analysis.word_alignment import align_by_attention, merge_words, word_attention
from seq2seq_attn.runs.model import TrainedModel, build_translator
from seq2seq_attn.search.forced import Forced
from seq2seq_attn.text.codec import Codec
from seq2seq_attn.text.corpus import ParallelCorpus
from seq2seq_attn.text.tokenisers import Character, Moses, SentencePiece, Word
from seq2seq_attn.text.vocabulary import Vocabulary

LINE, MORE = "Don't stop, Mr. Smith!", "stop it!"
# The word of each token: with Moses do n't | stop , | Mr. | Smith !; with characters the blank goes to the next word.
WORDS = {
    "moses": [0, 0, 1, 1, 2, 3, 3],
    "character": [0] * 5 + [1] * 6 + [2] * 4 + [3] * 7,
    "word": [0, 1, 2, 3],
}


def codec_of(kind):
    if kind == "bpe":
        pieces = SentencePiece.train([LINE, MORE], 25)
        return Codec(pieces, pieces.vocabulary())
    tokeniser = {"moses": Moses("en"), "character": Character(), "word": Word()}[kind]
    return Codec(tokeniser, Vocabulary.build([tokeniser.encode(line) for line in (LINE, MORE)]))


def words_of_pieces(codec, kind):
    """By hand, or with sentencepiece's marker for the start of a word."""
    if kind != "bpe":
        return WORDS[kind]
    return (np.cumsum([piece.startswith("▁") for piece in codec.pieces(LINE)]) - 1).tolist()


@pytest.fixture
def untrained(grid):
    def make(source, target):
        torch.manual_seed(5)
        config = grid.runs[2].config
        return TrainedModel(config, source, target, build_translator(config, source, target).eval())

    return make


@pytest.mark.parametrize(("left", "right"), [("moses", "bpe"), ("bpe", "character"), ("character", "moses")])
def test_pieces_are_summed_over_source_words_and_averaged_over_target_words(untrained, left, right):
    model = untrained(codec_of(left), codec_of(right))
    (forced,), (words,) = model.force([LINE], [LINE]), word_attention(model, [LINE], [LINE])
    of_source, of_target = words_of_pieces(model.source, left), words_of_pieces(model.target, right)
    assert len(of_source) > 4 or len(of_target) > 4
    expected = np.zeros((4, 4))
    for i, target in enumerate(of_target):
        for j, source in enumerate(of_source):
            expected[target, source] += forced.weights[i, j].item() / of_target.count(target)
    np.testing.assert_allclose(words.weights, expected)
    assert words.source == words.target == LINE.split()
    # Only the weight on </s> is missing.
    lost = [np.mean([forced.weights[i, -1].item() for i in np.flatnonzero(np.equal(of_target, w))]) for w in range(4)]
    np.testing.assert_allclose(words.weights.sum(axis=1) + lost, 1, rtol=1e-6)


def test_a_word_has_the_row_that_predicts_it_by_default(untrained):
    model = untrained(codec_of("word"), codec_of("word"))
    diagonal = Forced(torch.zeros(5), 0.0, torch.eye(5))  # row i attends to source word i, the last one to </s>
    assert merge_words(model, LINE, LINE, diagonal).links == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert merge_words(model, LINE, LINE, diagonal, "read").links == {(1, 0), (2, 1), (3, 2)}


def test_aligning_in_chunks_equals_aligning_pair_by_pair(untrained, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.analysis.word_alignment.CHUNK", 2)
    model, seen = untrained(codec_of("moses"), codec_of("bpe")), []
    pairs = ParallelCorpus([LINE, MORE, "", "Mr. Smith!", "stop"], [MORE, LINE, "stop", "it", "Don't stop it"])
    links = align_by_attention(model, pairs, threshold=0.2, write=seen.append)
    for source, target, found, read in zip(pairs.source, pairs.target, links, seen, strict=True):
        assert [found] == align_by_attention(model, ParallelCorpus([source], [target]), threshold=0.2)
        assert read.source == ([*model.source.pieces(source), "</s>"] if source else [])
