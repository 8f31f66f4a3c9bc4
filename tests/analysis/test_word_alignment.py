"""Word alignments of a model: words from subwords, and the weights of each word."""

import numpy as np
import pytest
import torch

from seq2seq_attn.analysis.word_alignment import (
    agreement_by_head,
    align_by_attention,
    token_attention,
)
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.tokenizers import Character, Moses, SentencePiece, Word
from seq2seq_attn.corpora.vocabulary import Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus, agreement, count_links
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.model import TrainedModel

LINE, MORE = "Don't stop, Mr. Smith!", "stop it!"
# The word of each token: with Moses do n't | stop , | Mr. | Smith !; with characters the blank goes to the next word.
WORDS = {
    "moses": [0, 0, 1, 1, 2, 3, 3],
    "character": [0] * 5 + [1] * 6 + [2] * 4 + [3] * 7,
    "word": [0, 1, 2, 3],
}


def codec_of(kind, normalization="identity"):
    if kind == "bpe":
        pieces = SentencePiece.train([LINE, MORE], 25, normalization=normalization)
        return Codec(pieces, pieces.vocabulary())
    tokenizer = {"moses": Moses("en"), "character": Character(), "word": Word()}[kind]
    return Codec(tokenizer, Vocabulary.build([tokenizer.encode(line) for line in (LINE, MORE)]))


def words_of_pieces(codec, kind):
    """By hand, or with sentencepiece's marker for the start of a word."""
    if kind != "bpe":
        return WORDS[kind]
    return (np.cumsum([piece.startswith("▁") for piece in codec.pieces(LINE)]) - 1).tolist()


@pytest.fixture
def untrained(grid):
    def make(source, target, **model):
        torch.manual_seed(5)
        config = grid.runs[2].config.model_copy(update=model)
        return TrainedModel(config, source, target, build_translator(config, source, target).eval())

    return make


@pytest.mark.parametrize(("left", "right"), [("moses", "bpe"), ("bpe", "character"), ("character", "moses")])
def test_pieces_are_summed_over_source_words_and_averaged_over_target_words(untrained, left, right):
    model = untrained(codec_of(left), codec_of(right))
    (forced,) = model.force([LINE], [LINE])
    words = token_attention(model, LINE, LINE, [forced.weights[None]]).words()
    of_source, of_target = words_of_pieces(model.source, left), words_of_pieces(model.target, right)
    assert len(of_source) > 4 or len(of_target) > 4
    expected = np.zeros((4, 4))
    for i, target in enumerate(of_target):
        for j, source in enumerate(of_source):
            expected[target, source] += forced.weights[i, j].item() / of_target.count(target)
    np.testing.assert_allclose(words.weights, expected)
    assert words.source == words.target == tuple(LINE.split())
    # Only the weight on </s> is missing.
    lost = [np.mean([forced.weights[i, -1].item() for i in np.flatnonzero(np.equal(of_target, w))]) for w in range(4)]
    np.testing.assert_allclose(words.weights.sum(axis=1) + lost, 1, rtol=1e-6)


def test_words_without_tokens_have_weights_of_zero_at_the_end_of_a_line_too(untrained):
    codec = codec_of("bpe", normalization="nmt_nfkc")
    model = untrained(codec, codec)
    without_tokens = "\u200b"  # a blank without width, which these rules drop
    source, target = f"{without_tokens} {MORE} {without_tokens}", f"{MORE} {without_tokens}"
    (forced,) = model.force([source], [target])
    words = token_attention(model, source, target, [forced.weights[None]]).words()
    assert words.weights.shape == (len(words.target), len(words.source)) == (3, 4)
    assert words.weights[:2, 1:3].all()
    assert not words.weights[2].any()
    assert not words.weights[:, [0, 3]].any()


def test_a_word_has_the_row_that_predicts_it_by_default(untrained):
    model = untrained(codec_of("word"), codec_of("word"))
    diagonal = token_attention(model, LINE, LINE, [torch.eye(5)[None]])  # row i attends to word i, the last to </s>
    assert diagonal.words().links == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert diagonal.words("read").links == {(1, 0), (2, 1), (3, 2)}


def test_aligning_in_chunks_equals_aligning_pair_by_pair(untrained, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.analysis.word_alignment.CHUNK", 2)
    model, seen = untrained(codec_of("moses"), codec_of("bpe")), []
    pairs = ParallelCorpus([LINE, MORE, "", "Mr. Smith!", "stop"], [MORE, LINE, "stop", "it", "Don't stop it"])
    links = align_by_attention(model, pairs, threshold=0.2, write=seen.append)
    for source, target, found, read in zip(pairs.source, pairs.target, links, seen, strict=True):
        assert [found] == align_by_attention(model, ParallelCorpus([source], [target]), threshold=0.2)
        assert read.source == ([*model.source.pieces(source), "</s>"] if source else [])


PAIRS = ParallelCorpus([LINE, MORE, "", "Mr. Smith!"], [MORE, LINE, "stop", "it"])
GOLD = GoldCorpus(
    [frozenset({(0, 0), (1, 1)}), frozenset({(0, 1), (1, 3)}), frozenset(), frozenset()],
    [frozenset({(3, 1)}), frozenset(), frozenset(), frozenset({(0, 0)})],
)


@pytest.fixture
def of_heads(untrained):
    """Two layers of three heads, on pieces."""
    layers = {"layers": 2, "heads": 2}
    values = {"embedding_size": 12, "encoder": layers, "decoder": layers, "context": {"heads": 3}}
    return untrained(codec_of("moses"), codec_of("bpe"), model=TransformerConfig.model_validate(values))


@pytest.mark.parametrize("options", [{}, {"threshold": 0.2}, {"row": "read"}], ids=str)
def test_the_agreement_of_a_head_is_that_of_its_links(of_heads, options, monkeypatch):
    monkeypatch.setattr("seq2seq_attn.analysis.word_alignment.HEADS_CHUNK", 3)
    found = agreement_by_head(of_heads, PAIRS, GOLD, **options)
    places = [(layer, head) for layer in (0, 1) for head in (0, 1, 2, None)]
    assert [each[:2] for each in found] == [*places, (None, None)]
    for layer, head, _, agreed, _ in found:
        links = align_by_attention(of_heads, PAIRS, layer=layer, head=head, **options)
        assert agreed == agreement(links, *GOLD)
    assert len({each.agreement for each in found}) > 1


def test_the_links_and_the_file_of_one_head_have_its_weights(of_heads):
    seen = []
    links = align_by_attention(of_heads, PAIRS, layer=1, head=2, write=seen.append)
    (heads,) = of_heads.head_weights([LINE], [MORE])
    np.testing.assert_allclose(seen[0].translations[0].weights, heads.cross[1][2], atol=1e-6)
    (mean,) = align_by_attention(of_heads, ParallelCorpus([LINE], [MORE]), layer=1, write=seen.append)
    np.testing.assert_allclose(seen[-1].translations[0].weights, heads.cross[1].mean(dim=0), atol=1e-6)
    assert links[0] != mean
    assert (links[2], seen[2].translations) == (frozenset(), [])


def test_a_model_without_weights_or_gold_without_links_has_no_error_rates(untrained):
    values = {"embedding_size": 12, "encoder": {"heads": 2}, "decoder": {"heads": 2}, "context": {"kind": "fixed"}}
    model = untrained(codec_of("word"), codec_of("word"), model=TransformerConfig.model_validate(values))
    with pytest.raises(UserError, match="does not attend to single source words"):
        agreement_by_head(model, PAIRS, GOLD)
    with pytest.raises(UserError, match="no link"):
        agreement_by_head(model, PAIRS, GoldCorpus([frozenset()] * 4, [frozenset()] * 4))


def test_a_threshold_that_no_weight_reaches_gives_heads_without_links(of_heads):
    found = agreement_by_head(of_heads, PAIRS, GOLD, threshold=1.0)
    assert [(each.agreement.predicted, each.agreement.error_rate) for each in found] == [(0, 1.0)] * len(found)
    blank = ParallelCorpus(["", LINE], [MORE, " "])
    with pytest.raises(UserError, match="every pair has a blank side"):
        agreement_by_head(of_heads, blank, GoldCorpus([frozenset({(0, 0)})] * 2, [frozenset()] * 2))


def test_an_agreement_is_the_sum_of_the_counts_of_its_pairs():
    a, s, p = frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 0), (3, 3)}), frozenset({(1, 1)})
    assert count_links(a, s, p) == (3, 2, 1, 2)
