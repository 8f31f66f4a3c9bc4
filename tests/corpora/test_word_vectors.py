"""Pretrained vectors: from text or torchtext's cache, the same rows; what is broken is named with its line."""

import gzip
from collections import Counter

import pytest
import torch
from torchtext.vocab import Vectors, Vocab

from seq2seq_attn.corpora.torchtext import vocabulary_from_torchtext
from seq2seq_attn.corpora.vectors import pretrained_embedding, read_vectors
from seq2seq_attn.corpora.vocabulary import Vocabulary
from seq2seq_attn.errors import UserError

TEXT = "dog 1 2 3\ncat 4 -5e-1 6\ncow 7 8 9\n"
GZIPPED = gzip.compress(TEXT.encode(), mtime=0)  # a time in it would give its tests another name in every process
VOCABULARY = Vocabulary(["the", "cat", "bites", "dog", "me"])


@pytest.fixture
def write(tmp_path):
    def write(content, name="tiny.txt"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return write


@pytest.fixture
def any_release(monkeypatch):
    """Caches that a test has written itself are read by releases of torch that could be attacked by others, too."""
    monkeypatch.setattr("seq2seq_attn.corpora.vectors._SAFE", "2.6")


@pytest.fixture
def refused(write):
    """What is said of a file's content, for an embedding of size 3."""

    def refused(content, name="tiny.txt"):
        path = write(content, name)
        with pytest.raises(UserError) as error:
            read_vectors(path, VOCABULARY, 3)
        assert str(error.value).startswith(str(path))
        assert "\n" not in str(error.value)
        return str(error.value)

    return refused


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        "3 3\n" + TEXT,  # word2vec's header
        TEXT.replace("\n", " \r\n"),  # fastText ends its lines with a space
        GZIPPED,
        TEXT.removesuffix("\n"),
        "dog 9 9 9\n" + TEXT,  # the last one counts, as for torchtext
        TEXT.encode() + b"caf\xe9 1 2 3\nnew\xc2\xa0york 1 2 3\n",
    ],
)
def test_only_vectors_of_the_vocabulary_are_read(write, content):
    read = read_vectors(write(content), VOCABULARY, 3)
    assert {token: read.vectors[row].tolist() for token, row in read.stoi.items()} == {
        "dog": [1, 2, 3],
        "cat": [4, -0.5, 6],
    }


@pytest.mark.usefixtures("any_release")
def test_a_text_file_and_torchtexts_vectors_and_their_cache_give_the_same_rows(write, tmp_path):
    path, default = write(TEXT), torch.randn(9, 3)
    theirs = Vectors(str(path), cache=str(tmp_path))
    expected = pretrained_embedding(theirs, VOCABULARY, default)
    for file in (path, tmp_path / "tiny.txt.pt"):
        read = pretrained_embedding(read_vectors(file, VOCABULARY, 3), VOCABULARY, default)
        assert torch.equal(read.matrix, expected.matrix)
        assert read.coverage == expected.coverage == (2, 5)


def test_tokens_of_several_words_as_gloves_are_left_out(write):
    read = read_vectors(write(TEXT + ". . . 4 5 6\nat name@domain.com 7 8 9\n"), VOCABULARY, 3)
    assert read.stoi.keys() == read_vectors(write(TEXT), VOCABULARY, 3).stoi.keys()


def test_tokens_without_a_vector_keep_their_initial_row(write):
    default = torch.arange(27.0).reshape(9, 3)
    embedding = pretrained_embedding(read_vectors(write("<s> 6 6 6\n" + TEXT), VOCABULARY, 3), VOCABULARY, default)
    expected = default.clone()
    expected[5], expected[7] = torch.tensor([4.0, -0.5, 6.0]), torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(embedding.matrix, expected)
    assert torch.equal(default, torch.arange(27.0).reshape(9, 3))


def test_special_tokens_keep_their_rows_even_if_torchtext_has_vectors_for_them(write, tmp_path):
    theirs = Vectors(str(write("<s> 6 6 6\n<pad> 5 5 5\n" + TEXT)), cache=str(tmp_path))
    default = torch.zeros(9, 3)
    assert not pretrained_embedding(theirs, VOCABULARY, default).matrix[:4].any()


def test_where_no_token_has_a_vector_every_row_is_kept(write):
    read = read_vectors(write("2 3\nhorse 1 2 3\n"), VOCABULARY, 3)
    embedding = pretrained_embedding(read, VOCABULARY, torch.ones(9, 3))
    assert torch.equal(embedding.matrix, torch.ones(9, 3))
    assert embedding.coverage == (0, 5)


def test_a_vocab_built_with_vectors_is_accepted(write, tmp_path):
    counts = Counter(["the", "dog", "the"])
    vocab = Vocab(counts, vectors=Vectors(str(write(TEXT)), cache=str(tmp_path)))
    embedding = pretrained_embedding(vocab, vocabulary_from_torchtext(vocab), torch.ones(6, 3, dtype=torch.float64))
    assert embedding.matrix.dtype == torch.float64
    assert embedding.matrix[5].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.usefixtures("any_release")
def test_an_embedding_of_another_size_is_refused_with_the_way_out(refused, write, tmp_path):
    for content in ("dog 1 2 3 4\n", "7 4\n"):
        assert "vectors of size 4, but model.embedding_size=3; set it to 4" in refused(content)
    theirs = Vectors(str(write("dog 1 2 3 4 5\n", "five.txt")), cache=str(tmp_path))
    assert "size 5, but" in refused((tmp_path / "five.txt.pt").read_bytes(), "again.pt")
    with pytest.raises(UserError, match=r"of \(9, 5\), not \(9, 3\); set model.embedding_size=5"):
        pretrained_embedding(theirs, VOCABULARY, torch.zeros(9, 3))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TEXT + "horse 1 2\n", ["line 4", "2 numbers", "3 in the first"]),
        ("4 3\n" + TEXT + "dog 1 2 3 4\n", ["line 5", "4 numbers"]),
        ("cow 7 8 9\ndog 1 two 3\n", ["line 2", "'1 two 3'"]),
        ("cow 7 8 9\ndog  1 2 3\n", ["line 2", "3 numbers"]),
        ("cow 7 8 9\ndog cat 4 1 2 3\n", ["line 2", "5 numbers"]),
        ("dog 1 nan 3\n", ["line 1", "finite"]),
        ("dog\t1\t2\t3\n", ["line 1", "with a space between"]),
        (b"3 3\ndog \x01\x02\x03\x04", ["line 2", "as text"]),
        (b"PK\x03\x04\x14\x00 \xff\x00", ["a zip archive, not text; unpack it"]),
        (b"", ["the file is empty"]),
        (GZIPPED[:-9], ["incomplete or corrupt gzip file"]),
    ],
)
def test_a_broken_file_is_named_with_its_line(refused, content, words):
    message = refused(content)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("name", ["none.txt", "none.pt"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(UserError, match=rf"{name}: no such file"):
        read_vectors(tmp_path / name, VOCABULARY, 3)


def test_another_pt_file_is_refused_without_executing_it(refused, tmp_path, capsys):
    class Trap:
        def __reduce__(self):
            return (print, ("unpickled",))

    torch.save((["dog"], {"dog": 0}, torch.ones(1, 3), Trap()), tmp_path / "trap.pt")
    torch.save({"weight": torch.ones(2, 3)}, tmp_path / "model.pt")
    for content in ((tmp_path / "trap.pt").read_bytes(), (tmp_path / "model.pt").read_bytes(), b"no tensors"):
        assert "give the text file" in refused(content, "file.pt")
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("any_release")
def test_a_flipped_bit_in_a_pt_file_is_refused_or_changes_nothing(write, tmp_path):
    Vectors(str(write(TEXT)), cache=str(tmp_path))
    path = tmp_path / "tiny.txt.pt"
    whole, expected = path.read_bytes(), read_vectors(path, VOCABULARY, 3)
    refused = 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            found = read_vectors(path, VOCABULARY, 3)
        except UserError:
            refused += 1
            continue
        assert found.stoi == expected.stoi
        assert torch.equal(found.vectors, expected.vectors)
    assert refused > len(whole) / 10


def test_where_torch_is_too_old_to_read_a_pt_file_safely_the_text_file_is_asked_for(write, tmp_path, monkeypatch):
    Vectors(str(write(TEXT)), cache=str(tmp_path))
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(UserError, match=r"tiny\.txt\.pt: is read from torch 2\.10 on, and this is 2\.9\.1"):
        read_vectors(tmp_path / "tiny.txt.pt", VOCABULARY, 3)
