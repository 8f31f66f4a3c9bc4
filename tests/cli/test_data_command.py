"""`data`: corpora by name, their statistics, and splits."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest
import yaml

from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import find_pairs, languages_of
from seq2seq_attn.corpora.download import CorpusFile, KnownCorpus
from seq2seq_attn.errors import UserError
from seq2seq_attn.strict import parse


def test_a_corpus_is_copied_from_a_folder_and_counted_by_name(program, refused, tmp_path, monkeypatch):
    files = {"train.en": b"a b\nc\n", "train.fr": b"x\ny z x\n", "LICENSE": b"free\n"}
    entries = tuple(CorpusFile(name, hashlib.sha256(content).hexdigest()) for name, content in files.items())
    tiny = KnownCorpus("tiny", "two pairs", "2 pairs", "free", "nowhere", "nobody", files=entries)
    monkeypatch.setattr("seq2seq_attn.api.data.find_corpus", lambda name: tiny)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for name, content in files.items():
        (tmp_path / "elsewhere" / name).write_bytes(content)

    assert "seq2seq-attn data get tiny" in refused("data", "stats", "tiny")
    assert program("data", "get", "tiny", "--from-folder", "elsewhere") == (0, "data/downloaded/tiny\n", "")
    counted = json.loads(program("data", "stats", "tiny", "--json").out)
    assert list(counted) == ["train"]
    assert counted["train"]["pairs"] == 2
    assert counted["train"]["source"]["types"] == 3
    assert counted["train"]["target"] == {
        "tokens": 4, "types": 3, "mean_length": 2.0, "median_length": 2.0, "max_length": 3,
    }  # fmt: skip


SOURCES = [f"s{k % 9}" for k in range(20)] + [" ", "s1"]
TARGETS = [f"t{k}" for k in range(21)] + [""]
SIZES = "--validation", "2", "--test", "3"


@pytest.fixture
def all_pairs(tmp_path):
    """The corpus to split as two files, and as one with tabs, compressed."""
    for name, lines in (("all.en", SOURCES), ("all.de", TARGETS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    rows = "".join(f"{source}\t{target}\tsomebody\n" for source, target in zip(SOURCES, TARGETS, strict=True))
    (tmp_path / "eng-deu.txt.gz").write_bytes(gzip.compress(rows.encode()))
    return tmp_path


def test_a_split_contains_every_pair_once_and_no_source_in_two_parts(program, all_pairs):
    files = "--source", all_pairs / "all.en", "--target", all_pairs / "all.de"
    answer = program("data", "split", *files, *SIZES, "--output", all_pairs / "parts")
    assert answer.code == 0
    assert answer.err.splitlines()[1].startswith("validation: ")
    names = {"train": "train", "validation": "dev", "test": "test"}
    lines = {
        part: [(all_pairs / "parts" / f"{name}.{side}").read_text().splitlines() for side in ("en", "de")]
        for part, name in names.items()
    }
    pairs = [pair for sides in lines.values() for pair in zip(*sides, strict=True)]
    assert sorted(pairs) == sorted(zip(SOURCES[:20], TARGETS[:20], strict=True)), "without those with a blank side"
    assert [len(set(sides[0])) for sides in lines.values()] == [4, 2, 3]
    assert sum(len(set(sides[0])) for sides in lines.values()) == len({source for source, _ in pairs})


def test_a_split_prints_a_configuration_that_names_its_files(program, all_pairs, monkeypatch):
    monkeypatch.chdir(all_pairs)
    answer = program("data", "split", "--source", "all.en", "--target", "all.de", *SIZES)
    config = parse(Config, yaml.safe_load(answer.out))
    assert (config.text.source_language, config.text.target_language) == ("en", "de")
    assert [str(path) for path in config.data.validation.paths] == ["dev.en", "dev.de"]
    assert all(path.is_file() for files in (config.data.train, config.data.test) for path in files.paths)
    assert "  train: {source: train.en, target: train.de}\n" in answer.out


def test_a_file_with_tabs_splits_as_two_files_do(program, all_pairs):
    files = "--source", all_pairs / "all.en", "--target", all_pairs / "all.de"
    program("data", "split", *files, *SIZES, "--output", all_pairs / "one")
    table = all_pairs / "eng-deu.txt.gz"
    assert program("data", "split", table, *SIZES, "--output", all_pairs / "two").code == 0
    program("data", "split", table, *SIZES, "--columns", "1", "0", "--output", all_pairs / "three")
    for part in ("train", "dev", "test"):
        for name in (f"{part}.en", f"{part}.de"):
            assert (all_pairs / "one" / name).read_bytes() == (all_pairs / "two" / name).read_bytes()
    assert len(set((all_pairs / "three" / "dev.de").read_text().splitlines())) == 2, "now the source"


def test_the_languages_of_a_split_have_their_two_letter_codes(program, all_pairs):
    answer = program("data", "split", all_pairs / "eng-deu.txt.gz", *SIZES, "--output", all_pairs / "parts")
    assert "text: {source_language: en, target_language: de}" in answer.out
    given = "--source-language", "fr_FR", "--target-language", "Klingon"
    answer = program("data", "split", all_pairs / "eng-deu.txt.gz", *SIZES, *given, "--output", all_pairs / "given")
    assert "text: {source_language: fr, target_language: Klingon}" in answer.out
    assert (all_pairs / "given" / "train.fr").exists()


def test_a_split_that_cannot_be_made_is_refused_and_writes_nothing(refused, program, all_pairs, monkeypatch):
    monkeypatch.chdir(all_pairs)
    files = "--source", "all.en", "--target", "all.de"
    assert "leave none to train on" in refused("data", "split", *files, "--validation", "2", "--test", "7")
    assert "give source_language and target_language" in refused(
        "data", "split", "--source", "all.en", "--target", "eng-deu.txt.gz"
    )
    for code in ("de", "deu"):
        assert "both languages are de" in refused("data", "split", *files, "--source-language", code)
    assert "'a/b' is not a language code" in refused("data", "split", *files, "--source-language", "a/b")
    assert "counted from 0" in refused("data", "split", "eng-deu.txt.gz", "--columns", "-1", "0")
    assert "counted from 0" in refused("data", "stats", "eng-deu.txt.gz", "--columns", "0", "-1")
    assert "all.en, line 1: no tab" in refused("data", "stats", "all.en")
    assert "name the file or files of one of them" in refused("data", "split", "reverse")
    (all_pairs / "test.en").write_text("mine\n")
    assert "test.en: the file exists and nothing is overwritten" in refused("data", "split", *files, *SIZES)
    assert (all_pairs / "test.en").read_text() == "mine\n"
    assert sorted(path.name for path in all_pairs.glob("*.[de][en]")) == ["all.de", "all.en", "test.en"]


@pytest.mark.parametrize(
    ("names", "columns", "languages"),
    [
        (["train.en.gz", "train.de.gz"], (0, 1), ("en", "de")),
        (["val.lc.norm.tok.de", "val.lc.norm.tok.en"], (0, 1), ("de", "en")),
        (["en_nheb.txt.gz", "de_elb1905.txt.gz"], (0, 1), ("en", "de")),
        (["eng-fra.tsv.gz"], (0, 1), ("en", "fr")),
        (["eng-cmn.attributed.tsv"], (1, 0), ("zh", "en")),
        (["eng-cmn.attributed.tsv"], (0, 2), None),
        (["fra.txt"], (0, 1), None),
        (["a.src", "a.tgt"], (0, 1), None),
        (["a.en", "b.en"], (0, 1), None),
        (["a.en", "b.german"], (0, 1), None),
        ([], (0, 1), None),
    ],
)
def test_languages_are_read_from_file_names(names, columns, languages):
    assert languages_of([Path("data") / name for name in names], columns) == languages


def test_a_file_with_tabs_is_counted_alone(program, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a b\tx\nc\ty\n")
    counted = json.loads(program("data", "stats", tmp_path / "pairs.tsv", "--json").out)
    assert (counted["corpus"]["pairs"], counted["corpus"]["source"]["tokens"]) == (2, 3)


def test_a_folder_is_counted_part_by_part(program, toy):
    counted = json.loads(program("data", "stats", toy, "--json").out)
    assert {part: found["pairs"] for part, found in counted.items()} == {"test": 7, "train": 60, "validation": 9}


def test_words_that_are_not_in_train_are_counted_as_unknown(program, tmp_path):
    for name, text in {"train.de": "a b", "train.en": "x", "test.de": "a c\nb d e", "test.en": "x\nx x"}.items():
        (tmp_path / name).write_text(f"{text}\n" * 2)
    answer = program("data", "stats", tmp_path, "--json")
    counted = json.loads(answer.out)
    assert counted["test"]["unknown"] == {"source": {"unknown": 6, "words": 10}, "target": {"unknown": 0, "words": 6}}
    assert "unknown" not in counted["train"]
    assert "de: 6 of 10 words (60.00 %) not in train" in program("data", "stats", tmp_path).out


def test_words_that_the_model_of_a_run_does_not_know_are_counted(program, refused, tmp_path):
    (tmp_path / "pairs.tsv").write_text("Tom chases Spike.\t汤姆 追\n")
    (part,) = json.loads(program("data", "stats", tmp_path / "pairs.tsv", "--run", "demo", "--json").out).values()
    assert part["unknown"] == {"source": {"unknown": 0, "words": 3}, "target": {"unknown": 1, "words": 2}}
    assert "50.00 %) unknown to demo" in program("data", "stats", tmp_path / "pairs.tsv", "--run", "demo").out
    assert "not a run folder" in refused("data", "stats", tmp_path / "pairs.tsv", "--run", tmp_path)


def test_a_corpus_of_the_package_is_counted_in_any_folder(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counted = json.loads(program("data", "stats", "reverse", "--json").out)
    assert sorted(counted) == ["test", "train", "validation"]
    assert counted["train"]["pairs"] == 4000


def test_a_corpus_is_named_in_one_way(refused, toy):
    for arguments in ([], ["reverse", "--source", toy / "test.src"], ["--source", toy / "test.src"]):
        assert "give either CORPUS, or --source FILE and --target FILE" in refused("data", "stats", *arguments)
    assert "nowhere/x.tsv: no such file or folder" in refused("data", "stats", "nowhere/x.tsv")


def test_a_name_that_is_unknown_is_refused(refused):
    assert "multi30k-en-de" in refused("data", "get", "multi30k")
    assert "reverse" in refused("data", "stats", "revers")


def test_the_parallel_files_of_a_folder_are_found_by_their_names(tmp_path):
    for name in ("dev.de", "dev.en.gz", "dev.align", "more.tsv", "alone.txt", "three.de", "three.en", "three.fr"):
        (tmp_path / name).write_text("x\n")
    for name in ("LICENSE", "SHA256SUMS", ".gitignore", ".DS_Store"):  # no two of these are a corpus
        (tmp_path / name).write_text("x\n")
    assert find_pairs(tmp_path) == {
        "dev": (tmp_path / "dev.de", tmp_path / "dev.en.gz"),
        "more": (tmp_path / "more.tsv",),
    }
    assert find_pairs(tmp_path, ["dev.en.gz", "dev.de"]) == {"dev": (tmp_path / "dev.en.gz", tmp_path / "dev.de")}


def test_a_folder_without_parallel_files_is_refused(tmp_path):
    (tmp_path / "alone.txt").write_text("x\n")
    with pytest.raises(UserError, match="no two files"):
        find_pairs(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        find_pairs(tmp_path / "nowhere")


def test_pairs_are_counted_by_what_drops_them_or_written_without_it(program, refused, all_pairs, monkeypatch):
    monkeypatch.chdir(all_pairs)
    before = {*all_pairs.iterdir()}
    asked = "data", "prepare", "eng-deu.txt.gz", "--drop-duplicates", "sources"
    counted = program(*asked, "--report", "--json")
    assert counted.code == 0
    assert json.loads(counted.out) == {
        "pairs": 22, "kept": 9, "dropped": {"blank": 2, "duplicate": 11}, "first": {"blank": 21, "duplicate": 10},
        "files": [],
    }  # fmt: skip
    assert {*all_pairs.iterdir()} == before
    written = program(*asked, "--output", "kept")
    assert "11 dropped" in written.err
    assert yaml.safe_load(written.out)["data"]["train"]["source"] == "kept/train.en"
    assert (all_pairs / "kept" / "train.de").read_text() == "".join(f"t{k}\n" for k in range(9))
    refused("data", "prepare", "eng-deu.txt.gz")
    refused("data", "prepare", "eng-deu.txt.gz", "--report", "--max-ratio", "0.5")
