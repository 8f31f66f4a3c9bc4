from collections import Counter

import pytest
from torchtext.data import Dataset, Example, Field
from torchtext.datasets import TranslationDataset
from torchtext.vocab import Vocab

from seq2seq_attn.corpora.learning import train_codecs
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.corpora.torchtext import corpus_from_torchtext, vocabulary_from_torchtext
from seq2seq_attn.errors import UserError

COUNTS = Counter(["the", "dog", "bites", "the", "cat", "the", "dog"])


@pytest.mark.parametrize("specials_first", [True, False])
def test_a_torchtext_vocab_keeps_its_order_wherever_its_special_tokens_are(specials_first):
    vocab = Vocab(COUNTS, specials=["<pad>", "<sos>", "<eos>", "<unk>"], specials_first=specials_first)
    vocabulary = vocabulary_from_torchtext(vocab)
    assert vocabulary.get_itos() == ["<unk>", "<pad>", "<s>", "</s>", "the", "dog", "bites", "cat"]
    assert vocabulary["cow"] == 0


def test_special_tokens_with_other_names_are_omitted_if_given():
    field = Field(init_token="<go>", eos_token="<stop>")
    field.build_vocab([["the", "dog"], ["the"]])
    specials = (field.unk_token, field.pad_token, field.init_token, field.eos_token)
    assert vocabulary_from_torchtext(field.vocab, specials).get_itos()[4:] == ["the", "dog"]


def test_a_torchtext_dataset_is_converted_to_lines_of_its_tokens(tmp_path):
    (tmp_path / "train.en").write_text("The dog, barks\n\nA cat\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("Der Hund, bellt\n\nEine Katze\n", encoding="utf-8")
    source = Field(lower=True, tokenize=lambda line: line.replace(",", " ,").split())
    dataset = TranslationDataset(str(tmp_path / "train"), (".en", ".de"), (source, Field()))
    corpus = corpus_from_torchtext(dataset)
    assert corpus.source == ["the dog , barks", "a cat"]
    assert corpus.target == ["Der Hund, bellt", "Eine Katze"]

    source.build_vocab(dataset, min_freq=1)
    ours, _ = train_codecs(corpus, TextConfig(tokenizer="word"))
    assert ours.vocabulary.get_itos() == vocabulary_from_torchtext(source.vocab).get_itos()


def test_any_dataset_with_two_text_fields_is_converted():
    fields = [("question", Field()), ("answer", Field(sequential=False))]
    dataset = Dataset([Example.fromlist(["who is it", "Tom"], fields)], fields)
    corpus = corpus_from_torchtext(dataset, source="question", target="answer")
    assert (corpus.source, corpus.target) == (["who is it"], ["Tom"])
    with pytest.raises(UserError, match="no field 'src'; it has question, answer"):
        corpus_from_torchtext(dataset)
