"""Corpora from Python; `tests/cli/test_data_command.py` has what the commands share with it."""

import json

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.cli import main
from seq2seq_attn.corpora.download import known_corpora


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    """Twelve pairs in two files, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    for language, verb in {"en": "runs", "de": "läuft"}.items():
        (tmp_path / f"all.{language}").write_text("".join(f"{name} {verb}\n" for name in "ABCDEFGHIJKL"))
    return tmp_path


def test_the_listing_names_every_corpus():
    found = s2s.data.corpora()
    assert [each.name for each in found] == list(known_corpora())
    assert all(f"\n{name}" in f"\n{found!r}" for name in known_corpora())
    assert "seq2seq-attn data get multi30k-en-de" in repr(found)
    assert found._repr_html_().count("<tr") == 1 + len(found)
    assert {each["name"]: each["is_embedded"] for each in found.to_records()}["reverse"]


def test_statistics_are_records_of_parts_and_sides(pairs, capsys):
    found = s2s.data.stats(("all.en", "all.de"))
    (part,) = found
    assert (part.part, part.sides, part.counts.pairs) == ("corpus", ("en", "de"), 12)
    assert part.counts.target.types == 13
    assert [(each["side"], each["words"], each["words per line"]) for each in found.to_records()] == [
        ("en", 24, 2.0),
        ("de", 24, 2.0),
    ]
    with pytest.raises(SystemExit):
        main(["data", "stats", "--source", "all.en", "--target", "all.de"])
    assert "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) == repr(found)


def test_a_split_returns_its_files_and_a_configuration_that_trains(pairs):
    found = s2s.data.split(("all.en", "all.de"), "parts", validation=2, test=3, target_language="at")
    assert found.sizes == {"train": 7, "validation": 2, "test": 3}
    assert found.languages == ("en", "at")
    assert [str(path) for path in found.files["validation"]] == ["parts/dev.en", "parts/dev.at"]
    assert [each["pairs"] for each in found.to_records()] == [7, 2, 3]
    assert "parts/test.at" in found._repr_html_()
    small = {"embedding_size": 4, "encoder": {"hidden_size": 3}, "decoder": {"hidden_size": 5}}
    text = found.config["text"] | {"tokenizer": "word"}
    training = {"max_epochs": 1, "monitor": "loss", "accelerator": "cpu"}
    values = found.config | {"text": text, "model": small, "training": training}
    model = s2s.train(values, "run", silent=True)
    assert model.config.data.test.target.read_text().splitlines() == [
        line.replace("runs", "läuft") for line in (pairs / "parts/test.en").read_text().splitlines()
    ]


@pytest.mark.parametrize("sizes", [{"validation": 2, "test": 0}, {"validation": -1, "test": 3}])
def test_a_part_without_sentences_is_refused_before_anything_is_written(pairs, sizes):
    with pytest.raises(s2s.UserError, match="a number greater than 0 is wanted"):
        s2s.data.split(("all.en", "all.de"), "parts", target_language="at", **sizes)
    assert not (pairs / "parts").exists()


def test_a_corpus_of_the_package_is_copied_counted_by_name_and_never_overwritten(pairs):
    folder = s2s.data.get("reverse")
    assert str(folder) == "data/reverse"
    counted, copied = s2s.data.stats("reverse"), s2s.data.stats(folder)
    assert [(each.part, each.counts) for each in counted] == [(each.part, each.counts) for each in copied]
    assert s2s.data.get("reverse", folder) == folder
    (folder / "test.source").write_text("mine")
    with pytest.raises(s2s.UserError, match="nothing is overwritten"):
        s2s.data.get("reverse")


def test_progress_is_reported_and_a_corpus_that_is_not_here_says_how_to_get_it(pairs):
    with pytest.raises(s2s.UserError, match="run: seq2seq-attn data get multi30k-en-de"):
        s2s.data.stats("multi30k-en-de")
    with pytest.raises(s2s.UserError, match="nowhere: no such folder"):
        s2s.data.get("multi30k-en-de", from_folder="nowhere")
    with pytest.raises(s2s.UserError, match=r"all\.en, line 1: no tab; .* give the other side as well"):
        s2s.data.stats("all.en")


def test_json_of_the_listing_has_every_field(capsys):
    with pytest.raises(SystemExit):
        main(["data", "list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == [each.name for each in s2s.data.corpora()]
    assert {"citation", "page", "files", "is_embedded"} <= set(listed[0])
