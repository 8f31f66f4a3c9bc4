import pytest

from seq2seq_attn.corpora.vocabulary import Vocabulary, unfit_symbols
from seq2seq_attn.errors import UserError

SENTENCES = [["the", "dog", "bites", "the", "cat"], ["a", "cat", "bites"], ["the", "dog"]]


def test_special_tokens_come_first_then_the_frequent_then_the_alphabet_decides():
    vocabulary = Vocabulary.build(SENTENCES)
    assert vocabulary.get_itos() == ["<unk>", "<pad>", "<s>", "</s>", "the", "bites", "cat", "dog", "a"]
    assert vocabulary.get_stoi() == {token: index for index, token in enumerate(vocabulary.get_itos())}


def test_max_size_counts_the_special_tokens():
    assert Vocabulary.build(SENTENCES, max_size=6).get_itos()[4:] == ["the", "bites"]
    assert len(Vocabulary.build(SENTENCES, max_size=100)) == 9


def test_minimum_frequency_drops_rarer_tokens():
    assert Vocabulary.build(SENTENCES, minimum_frequency=3).get_itos()[4:] == ["the"]


def test_special_tokens_in_the_text_are_not_counted():
    assert Vocabulary.build([["<pad>", "</s>", "x"]]).get_itos()[4:] == ["x"]


def test_an_unknown_token_has_the_id_of_unk():
    vocabulary = Vocabulary(["cat", "dog"])
    assert vocabulary["cat"] == 4
    assert vocabulary["cow"] == vocabulary["<unk>"] == 0
    assert vocabulary.lookup_indices(["dog", "cow", "</s>"]) == [5, 0, 3]
    assert "dog" in vocabulary
    assert "cow" not in vocabulary


def test_lookup_tokens_inverts_lookup_indices():
    vocabulary = Vocabulary(["cat", "dog"])
    assert vocabulary.lookup_tokens([5, 2, 4]) == ["dog", "<s>", "cat"]


@pytest.mark.parametrize("index", [-1, 6])
def test_an_id_outside_the_vocabulary_is_an_index_error(index):
    with pytest.raises(IndexError, match=f"id {index} is not in a vocabulary of 6 tokens"):
        Vocabulary(["cat", "dog"]).lookup_tokens([4, index])


def test_returned_tables_are_copies():
    vocabulary = Vocabulary(["cat"])
    vocabulary.get_itos().append("dog")
    vocabulary.get_stoi()["dog"] = 9
    assert len(vocabulary) == 5
    assert "dog" not in vocabulary


def test_a_duplicate_token_is_refused():
    with pytest.raises(UserError, match="'cat' occurs twice"):
        Vocabulary(["cat", "dog", "cat"])


def test_a_size_without_room_for_ordinary_tokens_is_refused():
    with pytest.raises(UserError, match="vocabulary size 4"):
        Vocabulary.build(SENTENCES, max_size=4)


def test_the_file_has_one_token_per_line_and_loads_equal(tmp_path):
    vocabulary = Vocabulary(["猫", "a\u2028b", "\r", "\x85", " "])
    (tmp_path / "v.txt").write_bytes(vocabulary.content())
    assert (tmp_path / "v.txt").read_bytes().count(b"\n") == 9
    assert Vocabulary.load(tmp_path / "v.txt").get_itos() == vocabulary.get_itos()


@pytest.mark.parametrize("content", [b"cat\ndog\n", b"", b"\xff\xfe"])
def test_a_foreign_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(UserError, match=r"v\.txt: not a vocabulary"):
        Vocabulary.load(tmp_path / "v.txt")


def test_what_is_always_known_comes_first_and_counts():
    vocabulary = Vocabulary.build(SENTENCES, max_size=7, always=["<NUM>", "the"])
    assert vocabulary.get_itos()[4:] == ["<NUM>", "the", "bites"]


@pytest.mark.parametrize("symbols", [["a b"], [""], ["<s>"], ["▁x"], ["<a>", "<a>"], ["⟨x⟩", "⟨"]])
def test_a_symbol_that_cannot_be_one_piece_is_named(symbols):
    assert symbols[0] in unfit_symbols(symbols)
    assert unfit_symbols(["<2de>", "⟨x1⟩", "$"]) is None
