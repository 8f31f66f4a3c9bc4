"""Unknown words of a source have the same ids in source and target, and are words again in the text."""

import pytest

from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.learning import train_codecs
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.corpora.unknown_words import UnknownCount
from seq2seq_attn.corpora.vocabulary import UNK

SOURCES = ["the dog sees the cat", "the cat sees the dog"]
TARGETS = ["dog cat", "cat dog"]
SOURCE = "the rhino sees Ada , Zaphod and rhino"


def train(**options) -> Codec:
    text = TextConfig(**{"tokenizer": "word", "joint": True, "copy_slots": 3, **options})
    source, target = train_codecs(ParallelCorpus(SOURCES, TARGETS, "corpus"), text)
    assert source is target
    return source


@pytest.fixture(scope="module")
def codec():
    return train()


def test_the_kth_unknown_word_of_a_source_has_slot_k_in_its_target_too(codec):
    known = codec.size - 3
    slots = {"rhino": known, "Ada": known + 1, ",": known + 2}  # `Zaphod` and `and` find no slot
    ids = {**slots, **{word: codec.vocabulary[word] for word in ("the", "sees", "cat")}, "Zaphod": UNK, "and": UNK}
    assert codec.encode(SOURCE)[:-1] == [ids[word] for word in SOURCE.split()]
    target = "Ada rhino cat Zaphod"
    assert codec.given(SOURCE).encode(target)[:-1] == [ids[word] for word in target.split()]
    assert list(codec.items(["Ada", "Ada"], [SOURCE, "Ada sees"])) == [[known + 1, 3], [known, 3]]
    assert codec.given(SOURCE.split()).encode(target) == codec.given(SOURCE).encode(target)


def test_a_slot_is_the_word_of_the_source_again(codec):
    known = codec.size - 3
    written = [known + 1, codec.vocabulary["cat"], known, UNK, 3]
    assert codec.given(SOURCE).decode(written) == "Ada cat rhino <unk>"
    assert codec.given(SOURCE).labels("Ada cat") == ["Ada", "cat", "</s>"]
    assert codec.given("the yak").decode(written) == "⟨copy2⟩ cat yak <unk>"  # it has no second unknown word
    assert codec.given("see ⟨copy2⟩ now").decode([known + 1]) == "⟨copy2⟩"  # text that looks like a slot is a word


def test_an_unknown_word_that_can_be_copied_is_unknown_in_a_source_and_known_in_its_target(codec):
    assert codec.unknown_words(SOURCE) == ["rhino", "Ada", ",", "Zaphod", "and", "rhino"]
    assert codec.given(SOURCE).unknown_words("Ada cat Zaphod Bob") == ["Zaphod", "Bob"]
    assert codec.count_unknown(["Ada cat Bob"], [SOURCE]) == UnknownCount(1, 3)


@pytest.mark.parametrize("tokenizer", ["word", "moses", "character", "bpe", "unigram"])
def test_what_no_vocabulary_has_is_decoded_as_it_was(tokenizer):
    codec = train(tokenizer=tokenizer, joint=True)
    source, target = "the cat sees 猫 猫", "猫 cat"
    assert UNK not in codec.given(source).encode(target)
    assert codec.given(source).decode(codec.given(source).encode(target)) == target


def test_known_forms_come_before_slots():
    codec = train(match_known_forms=True)
    assert codec.encode("The yak.")[:-1] == [codec.vocabulary["the"], codec.size - 3]


def test_a_saved_codec_has_its_slots(codec, tmp_path):
    for name, content in codec.files("joint").items():
        (tmp_path / name).write_bytes(content)
    loaded = Codec.load(tmp_path, "joint")
    assert (loaded.size, loaded.rules(), loaded.encode(SOURCE)) == (codec.size, codec.rules(), codec.encode(SOURCE))
    assert "copy_slots" not in train(copy_slots=0).files("joint")["joint.tokenizer.json"].decode()
    assert loaded.difference(train(copy_slots=2)) is not None


def test_slots_without_a_joint_vocabulary_are_refused():
    with pytest.raises(ValueError, match=r"copy_slots=3.*joint=true"):
        TextConfig(tokenizer="word", copy_slots=3)
