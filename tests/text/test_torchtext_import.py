from collections import Counter

import pytest
import torch
from torchtext.data import Dataset, Example, Field
from torchtext.datasets import TranslationDataset
from torchtext.vocab import Vectors, Vocab

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.codec_training import train_codecs
from seq2seq_attn.text.torchtext import corpus_of, embedding_of, vocabulary_of
from seq2seq_attn.text.vocabulary import Vocabulary

COUNTS = Counter(["the", "dog", "bites", "the", "cat", "the", "dog"])


@pytest.mark.parametrize("specials_first", [True, False])
def test_a_vocab_comes_over_in_its_order_wherever_its_special_tokens_stand(specials_first):
    vocab = Vocab(COUNTS, specials=["<pad>", "<sos>", "<eos>", "<unk>"], specials_first=specials_first)
    vocabulary = vocabulary_of(vocab)
    assert vocabulary.get_itos() == ["<unk>", "<pad>", "<s>", "</s>", "the", "dog", "bites", "cat"]
    assert vocabulary["cow"] == 0


def test_special_tokens_of_other_names_are_left_out_when_named():
    field = Field(init_token="<go>", eos_token="<stop>")
    field.build_vocab([["the", "dog"], ["the"]])
    specials = (field.unk_token, field.pad_token, field.init_token, field.eos_token)
    assert vocabulary_of(field.vocab, specials).get_itos()[4:] == ["the", "dog"]


def test_a_translation_dataset_comes_over_as_its_own_tokens(tmp_path):
    (tmp_path / "train.en").write_text("The dog, barks\n\nA cat\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("Der Hund, bellt\n\nEine Katze\n", encoding="utf-8")
    source = Field(lower=True, tokenize=lambda line: line.replace(",", " ,").split())
    dataset = TranslationDataset(str(tmp_path / "train"), (".en", ".de"), (source, Field()))
    corpus = corpus_of(dataset)
    assert corpus.source == ["the dog , barks", "a cat"]
    assert corpus.target == ["Der Hund, bellt", "Eine Katze"]

    source.build_vocab(dataset, min_freq=1)
    ours, _ = train_codecs(corpus, "word")
    assert ours.vocabulary.get_itos() == vocabulary_of(source.vocab).get_itos()


def test_any_dataset_with_two_text_fields_comes_over():
    fields = [("question", Field()), ("answer", Field(sequential=False))]
    dataset = Dataset([Example.fromlist(["who is it", "Tom"], fields)], fields)
    corpus = corpus_of(dataset, source="question", target="answer")
    assert (corpus.source, corpus.target) == (["who is it"], ["Tom"])
    with pytest.raises(UserError, match="no field 'src'; it has question, answer"):
        corpus_of(dataset)


@pytest.fixture
def vectors(tmp_path) -> Vectors:
    (tmp_path / "tiny.txt").write_text("dog 1 2 3\ncat 4 5 6\ncow 7 8 9\n", encoding="utf-8")
    return Vectors("tiny.txt", cache=str(tmp_path))


def test_tokens_with_a_vector_take_it_and_the_others_keep_their_row(vectors):
    vocabulary = Vocabulary(["the", "cat", "bites", "dog", "me"])
    default = torch.arange(27.0).reshape(9, 3)
    embedding = embedding_of(vectors, vocabulary, default)
    expected = default.clone()
    expected[5], expected[7] = torch.tensor([4.0, 5.0, 6.0]), torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(embedding.matrix, expected)
    assert embedding.coverage == 2 / 5
    torch.testing.assert_close(default, torch.arange(27.0).reshape(9, 3))


def test_the_vectors_of_a_built_vocab_come_over_too(vectors):
    vocab = Vocab(COUNTS, vectors=vectors)
    embedding = embedding_of(vocab, vocabulary_of(vocab), torch.ones(8, 3, dtype=torch.float64))
    assert embedding.matrix.dtype == torch.float64
    assert embedding.matrix[5].tolist() == [1.0, 2.0, 3.0]


def test_an_embedding_of_another_size_is_refused(vectors):
    with pytest.raises(UserError, match=r"of \(5, 3\), not \(5, 4\); set the embedding size to 3"):
        embedding_of(vectors, Vocabulary(["dog"]), torch.zeros(5, 4))
