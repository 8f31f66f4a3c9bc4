"""`data`: corpora by name, and what is in them."""

import gzip
import hashlib
import json

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.text.corpus import read_folder
from seq2seq_attn.text.download import CorpusFile, KnownCorpus, known_corpora


def test_the_list_names_every_corpus_and_how_to_have_it(program):
    answer = program("data", "list")
    for name, corpus in known_corpora().items():
        assert f"seq2seq-attn data {'make' if corpus.is_made else 'get'} {name}" in answer.out
    listed = {each["name"]: each for each in json.loads(program("data", "list", "--json").out)}
    assert list(listed) == list(known_corpora())
    assert listed["reverse"]["is_made"]
    assert not listed["multi30k-en-de"]["is_made"]


def test_a_corpus_is_taken_from_a_folder_and_counted_by_name(program, refused, tmp_path, monkeypatch):
    files = {"train.en": b"a b\nc\n", "train.fr": b"x\ny z x\n", "LICENCE": b"free\n"}
    entries = tuple(CorpusFile(name, hashlib.sha256(content).hexdigest()) for name, content in files.items())
    tiny = KnownCorpus("tiny", "two pairs", "2 pairs", "free", "nowhere", "nobody", files=entries)
    monkeypatch.setattr("seq2seq_attn.text.download.find_corpus", lambda name: tiny)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for name, content in files.items():
        (tmp_path / "elsewhere" / name).write_bytes(content)

    assert "seq2seq-attn data get tiny" in refused("data", "stats", "tiny")
    assert program("data", "get", "tiny", "--from", "elsewhere") == (0, "data/downloaded/tiny\n", "")
    counted = json.loads(program("data", "stats", "tiny", "--json").out)
    assert list(counted) == ["train"]
    assert counted["train"]["pairs"] == 2
    assert counted["train"]["source"]["types"] == 3
    assert counted["train"]["target"] == {
        "tokens": 4, "types": 3, "mean_length": 2.0, "median_length": 2.0, "max_length": 3,
    }  # fmt: skip


def test_a_made_corpus_is_the_same_for_the_same_seed_and_another_for_another(program, tmp_path):
    def made(folder, *options):
        assert program("data", "make", "reverse", "--to", tmp_path / folder, *options).out == f"{tmp_path / folder}\n"
        return (tmp_path / folder / "test.source").read_bytes()

    first = made("one", "--seed", "7")
    assert made("two", "--seed", "7") == first
    assert made("three") != first


def test_a_split_has_every_pair_once_and_no_source_in_two_parts(program, refused, tmp_path):
    sources = [f"s{k % 9}" for k in range(20)] + [" ", "s1"]
    targets = [f"t{k}" for k in range(21)] + [""]
    for name, lines in (("x.en", sources), ("x.de", targets)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = tmp_path / "x.en", tmp_path / "x.de"
    options = "--to", tmp_path / "parts", "--validation", "2", "--test", "3"
    assert program("data", "split", *files, *options).code == 0
    parts = {
        part: [(tmp_path / "parts" / f"{part}.{side}").read_text().splitlines() for side in ("source", "target")]
        for part in ("train", "validation", "test")
    }
    pairs = [pair for sides in parts.values() for pair in zip(*sides, strict=True)]
    assert sorted(pairs) == sorted(zip(sources[:20], targets[:20], strict=True)), "without those with a blank side"
    assert [len(set(sides[0])) for sides in parts.values()] == [4, 2, 3]
    assert sum(len(set(sides[0])) for sides in parts.values()) == len({source for source, _ in pairs})
    assert "leave none to train on" in refused("data", "split", *files, *options[:-1], "7")


def test_two_files_are_counted(program, toy):
    answer = program("data", "stats", toy / "test.src", toy / "test.tgt")
    assert "7 pairs" in answer.out
    assert "source: " in answer.out


def test_a_table_is_counted_alone(program, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a b\tx\nc\ty\n")
    counted = json.loads(program("data", "stats", tmp_path / "pairs.tsv", "--json").out)
    assert (counted["corpus"]["pairs"], counted["corpus"]["source"]["tokens"]) == (2, 3)


def test_one_side_of_a_corpus_alone_says_what_is_missing(refused, toy):
    message = refused("data", "stats", toy / "test.src")
    assert f"{toy / 'test.src'}: the file of its translations is missing" in message
    assert f"seq2seq-attn data stats {toy / 'test.src'} TARGET, or one .tsv" in message


def test_names_that_are_not_known_or_not_of_that_kind_are_refused(refused):
    assert "multi30k-en-de" in refused("data", "get", "multi30k")
    assert "data make reverse" in refused("data", "get", "reverse")
    assert "data get scan" in refused("data", "make", "scan")
    assert "reverse" in refused("data", "stats", "revers")


def test_the_corpora_of_a_folder_are_its_pairs_of_files_and_its_tables(tmp_path):
    (tmp_path / "dev.de").write_text("d1\nd2\n")
    (tmp_path / "dev.en.gz").write_bytes(gzip.compress(b"e1\ne2\n"))
    (tmp_path / "dev.align").write_text("0-0\n0-0\n")
    (tmp_path / "more.tsv").write_text("one\tuno\n")
    (tmp_path / "alone.txt").write_text("x\n")
    found = read_folder(tmp_path)
    assert {part: (list(pairs.source), list(pairs.target)) for part, pairs in found.items()} == {
        "dev": (["d1", "d2"], ["e1", "e2"]),
        "more": (["one"], ["uno"]),
    }
    assert list(read_folder(tmp_path, ["dev.en.gz", "dev.de"])["dev"].source) == ["e1", "e2"]


def test_a_folder_without_parallel_files_is_refused(tmp_path):
    (tmp_path / "alone.txt").write_text("x\n")
    with pytest.raises(UserError, match="no two files"):
        read_folder(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        read_folder(tmp_path / "nowhere")
