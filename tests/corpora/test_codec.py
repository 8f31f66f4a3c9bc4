import json
import random

import numpy as np
import pytest

from seq2seq_attn.corpora.codec import Codec, load_codecs, save_front_ends
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.learning import train_codecs
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.corpora.tokenizers import Character, Word
from seq2seq_attn.corpora.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.strict import parse

CORPUS = ParallelCorpus(
    [
        f"{who} can't {what} dogs."
        for who in ("The man", "The woman", "Jerry", "Nobody", "Tom", "The cat", "My mother")
        for what in ("chase", "catch", "wash", "carry", "watch", "match")
    ],
    [
        f"{who} kann Hunde nicht {what}."
        for who in ("Der Mann", "Die Frau", "Jerry", "Niemand", "Tom", "Die Katze", "Meine Mutter")
        for what in ("jagen", "fangen", "waschen", "tragen", "sehen", "ziehen")
    ],
)


KINDS = "word", "moses", "character", "bpe", "unigram"


def train(kind, corpus=CORPUS, joint=False, **options):
    if kind in ("bpe", "unigram"):
        options = {"vocabulary_size": 38} | options
    text = {"tokenizer": kind, "joint": joint, "source_language": "en", "target_language": "de"}
    return train_codecs(corpus, parse(TextConfig, text | options))


@pytest.fixture
def words() -> Codec:
    return Codec(Word(), Vocabulary(["dog", "the", "sees"]))


@pytest.mark.parametrize("kind", KINDS)
def test_training_text_is_decoded_unchanged(kind):
    source, target = train(kind)
    for line in CORPUS.source:
        assert source.decode(source.encode(line)) == line
    for line in CORPUS.target:
        assert target.decode(target.encode(line)) == line


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_codec_gives_the_same_ids(kind, tmp_path):
    source, target = train(kind, lowercase=True)
    save_front_ends(source, target, tmp_path)
    source_again, target_again = load_codecs(tmp_path)
    for line in ["A DOG can't!", "Größe zählt", ""]:
        assert source_again.encode(line) == source.encode(line)
        assert target_again.encode(line) == target.encode(line)
        assert source_again.decode(source.encode(line)) == source.decode(source.encode(line))
    assert not list(tmp_path.glob("joint*"))
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_protected_symbol_is_known_and_keeps_its_case_and_is_saved(kind, tmp_path):
    size = 40 if kind in ("bpe", "unigram") else None
    codecs = train(kind, vocabulary_size=size, protected=["<2DE>", "⟨1⟩"], lowercase=True)
    save_front_ends(*codecs, tmp_path)
    for codec in (*codecs, *load_codecs(tmp_path)):
        ids = codec.encode("<2DE> The⟨1⟩")
        assert codec.vocabulary["<2DE>"] in ids
        assert codec.vocabulary["⟨1⟩"] in ids
        assert UNK not in codec.vocabulary.lookup_indices(["<2DE>", "⟨1⟩"])
        assert codec.decode(ids).replace(" ", "") in ("<2DE>the⟨1⟩", "<2DE><unk>⟨1⟩")


@pytest.mark.parametrize("kind", ["word", "character", "bpe", "unigram"])
def test_a_joint_codec_is_one_object_and_saved_once(kind, tmp_path):
    source, target = train(kind, joint=True)
    assert source is target
    assert UNK not in source.encode(CORPUS.source[0]) + source.encode(CORPUS.target[0])
    save_front_ends(source, target, tmp_path)
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {"joint"}
    source_again, target_again = load_codecs(tmp_path)
    assert source_again is target_again
    assert source_again.encode("Jerry kann dogs") == source.encode("Jerry kann dogs")


def test_moses_is_joint_only_within_one_language():
    with pytest.raises(UserError, match="en and de"):
        train("moses", joint=True)
    source, target = train("moses", joint=True, target_language="en")
    assert source is target


def test_sentences_end_in_the_end_token_and_unknown_words_are_unk(words):
    assert words.encode("the cat sees the dog") == [5, UNK, 6, 5, 4, EOS]
    assert words.encode("") == [EOS]


def test_decoding_stops_at_the_end_token_and_leaves_start_and_padding_out(words):
    assert words.decode([BOS, 5, 4, PAD, 6, EOS, 4, 4]) == "the dog sees"
    assert words.decode([5, 4]) == "the dog"
    assert words.decode([EOS]) == words.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_token_is_shown_and_read_back_as_the_unknown_token(kind):
    source, _ = train(kind)
    first, *rest = source.encode("The cat can't wash dogs.")[:-1]
    ids = [first, UNK, *rest[1:-1], UNK, UNK, rest[-1], EOS] if kind in ("word", "moses") else source.encode("Tom☃ ☃ .")
    line = source.decode(ids)
    assert line.count("<unk>") == ids.count(UNK)
    assert "⁇" not in line
    assert source.encode(line) == ids
    assert source.pieces(line).count("<unk>") == len(source.unknown_words(line)) == ids.count(UNK)
    assert len(source.word_indices(line)) == len(ids) - 1


def test_other_text_can_be_shown_for_unknown_tokens_in_their_order(words):
    assert words.decode([5, UNK, 6, UNK, UNK, EOS], ["cat", "two"]) == "the cat sees two <unk>"


def test_the_unknown_words_of_a_line_are_those_with_an_unknown_piece(words):
    assert words.unknown_words("the cat sees the fat dog") == ["cat", "fat"]
    assert words.unknown_words("the dog") == words.unknown_words("") == []
    source, _ = train("bpe")
    assert source.unknown_words("The ☃man can't ☃☃ .") == ["☃man", "☃☃"]
    assert words.count_unknown(["the cat sees", "", "dog"]) == (1, 4)


def test_words_that_are_read_otherwise_than_they_are_written_are_listed():
    vocabulary = Vocabulary(["Tom", "chases", "dog", "."])
    plain, matching = (Codec(Word(), vocabulary, match_known_forms=matches) for matches in (False, True))
    line = "TOM chases  dogs Tom."
    assert matching.read_as(line) == [
        ("TOM", 0, ("Tom",), ()),
        ("dogs", 2, ("<unk>",), ("dog",)),
        ("Tom.", 3, ("Tom", "."), ()),
    ]
    assert plain.read_as(line) == [
        ("TOM", 0, ("<unk>",), ("Tom",)),
        ("dogs", 2, ("<unk>",), ("dog",)),
        ("Tom.", 3, ("<unk>",), ("Tom .", "Tom")),  # what it would read if it matched forms, first
    ]
    assert plain.labels(line) == ["TOM (<unk>)", "chases", "dogs (<unk>)", "Tom. (<unk>)", "</s>"]
    assert matching.read_as("Tom <unk> dog .") == []  # it is read as it is written
    assert [each.tokens for each in matching.read_as("Tom </s>")] == [("<unk>",)]


def test_an_unknown_piece_of_a_word_is_marked():
    lowered = Codec(Character(), Vocabulary(["a", "b", "▁"]), lowercase=True)
    assert lowered.read_as("Ab aXb") == [("aXb", 1, ("▁", "a", "<unk>", "b"), ())]
    assert lowered.labels("aX") == ["a", "x (<unk>)", "</s>"]


def test_words_are_suggested_for_the_first_unknown_ones_of_a_long_line(words):
    found = words.read_as("dogs " * 50)
    assert [each.suggestions for each in found] == [("dog",)] * 20 + [()] * 30


def test_text_that_contains_the_unknown_token_can_train_subwords():
    lines = [f"{line} <unk>" for line in CORPUS.source]
    source, _ = train("bpe", ParallelCorpus(lines, lines, "both"))
    assert not any("unk" in piece for piece in source.vocabulary.get_itos()[4:])
    assert source.decode(source.encode(lines[0])) == lines[0]


def test_text_written_like_a_special_token_is_unknown_text(words):
    assert words.encode("the </s> dog <pad>") == [5, UNK, 4, UNK, EOS]


def test_changed_lines_are_found_with_what_comes_back_and_whether_a_token_is_unknown(words):
    lines = ["the dog", " ", "the  dog", "the cow sees", ""]
    assert list(words.changes(lines)) == [("the  dog", "the dog", False), ("the cow sees", "the <unk> sees", True)]
    lowered = Codec(Word(), Vocabulary(["the", "dog"]), lowercase=True)
    assert list(lowered.changes(["THE dog", "a dog"])) == [("a dog", "<unk> dog", True)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_tokenizer_changes_what_it_does_and_nothing_else(kind):
    source, _ = train(kind)
    plain, spaced = "The man can't chase dogs.", "The man can't  chase dogs."
    assert [change.line for change in source.changes([plain, spaced])] == [spaced] * (kind in ("word", "moses"))


def test_lowercase_lowers_before_all_else():
    codec = Codec(Word(), Vocabulary(["the", "dog"]), lowercase=True)
    assert codec.pieces("The DOG") == ["the", "dog"]
    assert codec.encode("The DOG") == [4, 5, EOS]
    assert codec.word_indices("The DOG") == [0, 1]


def test_an_unknown_word_is_read_in_a_known_form_if_the_codec_matches_forms(tmp_path):
    vocabulary = Vocabulary(["the", "dog", "Tom", "."])
    codec = Codec(Word(), vocabulary, match_known_forms=True)
    save_front_ends(codec, Codec(Word(), vocabulary), tmp_path)
    for matching in (codec, load_codecs(tmp_path)[0]):
        assert matching.pieces("The TOM dog.") == ["the", "Tom", "dog", "."]
        assert matching.encode("The TOM dog.") == [4, 6, 5, 7, EOS]
        assert matching.word_indices("The TOM dog.") == [0, 1, 2, 2]
        assert matching.unknown_words("The cat.") == ["cat."]
    plain = load_codecs(tmp_path)[1]
    assert plain.encode("The TOM dog.") == [UNK, UNK, UNK, EOS]
    assert codec.difference(plain) == "tokenizers that differ"
    drawn = codec.sample(["The dog."], 0.1, np.random.default_rng(1))
    assert list(drawn) == [codec.encode("The dog.")]


def test_minimum_frequency_and_vocabulary_size_bound_a_vocabulary_of_words():
    source, target = train("word", minimum_frequency=22, lowercase=True)
    assert source.vocabulary.get_itos()[4:] == ["can't", "dogs."]
    assert target.vocabulary.get_itos()[4:] == ["hunde", "kann", "nicht"]
    source, target = train("word", vocabulary_size=7)
    assert source.vocabulary.get_itos()[4:] == ["can't", "dogs.", "The"]


def test_a_missing_file_is_named(tmp_path):
    save_front_ends(*train("bpe"), tmp_path)
    (tmp_path / "target.sentencepiece.model").unlink()
    with pytest.raises(UserError, match=r"target\.sentencepiece\.model: no such file"):
        load_codecs(tmp_path)
    with pytest.raises(UserError, match=r"source\.tokenizer\.json: no such file"):
        load_codecs(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("source.tokenizer.json", b"{"),
        ("source.tokenizer.json", b"[]"),
        (
            "source.tokenizer.json",
            json.dumps({"kind": "own", "options": {}, "files": [], "lowercase": 0}).encode(),
        ),
        (
            "source.tokenizer.json",
            json.dumps({"kind": "word", "options": {"a": 1}, "files": [], "lowercase": 0}).encode(),
        ),
        ("source.sentencepiece.model", b"not a model"),
        ("source.sentencepiece.model", b"\n\xff\xff"),
    ],
)
def test_a_foreign_file_is_named(tmp_path, name, content):
    save_front_ends(*train("unigram"), tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: .*; restore it, or train the run again"):
        load_codecs(tmp_path)


def test_sampled_ids_are_those_of_the_sampled_pieces_and_end_the_sentence():
    source, _ = train("bpe", lowercase=True)
    lines = ["NOBODY can't chase dogs.", "", "</s> ☃"]
    pieces = list(source.tokenizer.sample([line.lower() for line in lines], 0.3, np.random.default_rng(1)))
    sampled = list(source.sample(lines, 0.3, np.random.default_rng(1)))
    assert sampled[0] == [*source.vocabulary.lookup_indices(pieces[0]), EOS]
    assert source.decode(sampled[0]) == "nobody can't chase dogs."
    assert sampled[1] == [EOS]
    assert EOS not in sampled[2][:-1]
    assert UNK in sampled[2]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_small_text_has_all_its_pieces_in_the_default_vocabulary(kind):
    """Three characters and 40 √25 = 200 pieces are more than such a text yields, so all that it yields are learned."""
    few = ParallelCorpus(["ab ba"] * 25, ["ba ab"] * 25)
    source, _ = train(kind, few, joint=True, vocabulary_size=None)
    most = len(source.vocabulary)
    with pytest.raises(UserError, match=f"set text.vocabulary_size to at most {most}"):
        train(kind, few, joint=True, vocabulary_size=most + 1)


def test_the_default_size_of_a_vocabulary_follows_from_the_corpus():
    draw = random.Random(4)
    lines = [" ".join("".join(draw.choices("abcdefghij", k=6)) for _ in range(6)) for _ in range(400)]
    sizes = [
        len(train("bpe", ParallelCorpus(lines[:n], lines[:n]), vocabulary_size=None)[0].vocabulary) for n in (100, 400)
    ]
    assert sizes == [4 + 11 + 400, 4 + 11 + 800]  # special tokens, ten letters and the space, 40 √n
