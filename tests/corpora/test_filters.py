"""Filters of pairs: which pairs each drops, by hand and by brute force, and what is counted."""

import random
import sys

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.corpora import filters
from seq2seq_attn.corpora.corpus import read_parallel
from seq2seq_attn.corpora.filters import BLANK, COPIED, DUPLICATE, RATIO, verdicts
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import FilterOptions

PAIRS = [
    ("a b", "x y"),
    (" ", "x"),
    ("a b", "a b "),
    ("abc", "x"),  # 3 characters to 1
    ("abcd", "x"),
    ("a b", "x y"),
    ("a b", "z z"),
    ("c d", "x y"),
    ("", ""),
]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, side in (("all.en", 0), ("all.de", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    (tmp_path / "all.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return "all.en", "all.de"


@pytest.mark.parametrize(
    ("options", "dropped"),
    [
        ({}, {}),
        ({"drop_copied": True}, {2: COPIED}),
        ({"max_ratio": 3.0}, {4: RATIO}),
        ({"max_ratio": 2.9}, {3: RATIO, 4: RATIO}),
        ({"drop_duplicates": "pairs"}, {5: DUPLICATE}),
        ({"drop_duplicates": "sources"}, {2: DUPLICATE, 5: DUPLICATE, 6: DUPLICATE}),
        ({"drop_duplicates": "targets"}, {4: DUPLICATE, 5: DUPLICATE, 7: DUPLICATE}),
        # What another filter drops is not the first of two.
        ({"drop_duplicates": "targets", "max_ratio": 2.9}, {3: RATIO, 4: RATIO, 5: DUPLICATE, 7: DUPLICATE}),
    ],
    ids=str,
)
def test_each_filter_drops_what_it_names_and_blank_pairs_are_always_dropped(options, dropped):
    found, report = verdicts(PAIRS, FilterOptions(**options))
    expected = {1: BLANK, 8: BLANK, **dropped}
    assert {row: verdict for row, verdict in enumerate(found) if verdict} == expected
    assert (report.pairs, report.kept) == (9, 9 - len(expected))
    for reason in {*expected.values()}:
        rows = [row for row, verdict in expected.items() if verdict == reason]
        name = filters.REASONS[reason]
        assert (report.dropped[name], report.first[name]) == (len(rows), min(rows) + 1)


@pytest.mark.parametrize("kind", ["pairs", "sources", "targets"])
def test_duplicates_in_files_are_those_of_a_set(kind, monkeypatch):
    monkeypatch.setattr(filters, "BUFFER", 8)  # hashes of a bucket in memory, before they are written
    draw = random.Random(3)
    pairs = [(f"s{draw.randrange(300)}", f"t{draw.randrange(5)}") for _ in range(2000)]
    found, _ = verdicts(pairs, FilterOptions(drop_duplicates=kind))
    seen, expected = set(), []
    for source, target in pairs:
        key = {"pairs": (source, target), "sources": source, "targets": target}[kind]
        expected.append(DUPLICATE if key in seen else 0)
        seen.add(key)
    assert list(found) == expected


@pytest.mark.parametrize("corpus", ["two files", "tsv"])
def test_what_is_kept_is_written_in_its_order_and_named_for_training(files, tmp_path, corpus):
    languages = {"source_language": "en", "target_language": "de"} if corpus == "tsv" else {}
    found = s2s.data.prepare("all.tsv" if corpus == "tsv" else files, "kept", drop_copied=True, **languages)
    kept = read_parallel("kept/train.en", "kept/train.de")
    assert list(zip(kept.source, kept.target, strict=True)) == [PAIRS[row] for row in (0, 3, 4, 5, 6, 7)]
    assert found.config["data"]["train"] == {"source": "kept/train.en", "target": "kept/train.de"}
    assert s2s.Config(**found.config | {"data": found.config["data"] | {"validation": {"tsv": "all.tsv"}}})
    with pytest.raises(UserError, match=r"kept/train\.en"):
        s2s.data.prepare(files, "kept")


def test_sides_of_different_lengths_are_refused(files, tmp_path):
    (tmp_path / "all.de").write_text("x\n")
    with pytest.raises(UserError, match=r"all\.de has 1"):
        s2s.data.prepare(files)
    with pytest.raises(UserError, match=r"all\.tsv, line 1"):
        s2s.data.prepare("all.tsv", columns=(0, 2))


LANGUAGES = [
    ("Two dogs are playing with a ball in the snow .", "Zwei Hunde spielen mit einem Ball im Schnee .", 0),
    ("Two dogs are playing with a ball in the snow .", "Two dogs are playing with the ball in snow .", 1),
    ("Zwei Hunde spielen mit einem Ball im Schnee .", "Zwei Hunde spielen mit dem Ball im Schnee .", 1),
]


def test_a_side_in_another_language_is_dropped(tmp_path, monkeypatch):
    pytest.importorskip("py3langid")
    found, report = verdicts([pair[:2] for pair in LANGUAGES], FilterOptions(min_language=0.5), ("en", "de"))
    assert [bool(verdict) for verdict in found] == [bool(dropped) for *_, dropped in LANGUAGES]
    assert report.dropped["language"] == 2
    for languages in (None, ("en", "qqq")):
        with pytest.raises(UserError, match="min_language"):
            verdicts([], FilterOptions(min_language=0.5), languages)


def test_languages_need_a_library(monkeypatch):
    monkeypatch.setattr("seq2seq_attn.errors.requires", lambda _: ["py3langid>=0.4; extra == 'langid'"])
    filters._identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(UserError, match="py3langid"):
        verdicts([], FilterOptions(min_language=0.5), ("en", "de"))
