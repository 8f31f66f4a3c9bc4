"""Pairs in tables of the library `datasets`: files, folders and its cache; where there is no network, all the same."""

import gzip
import json
import logging
import sys

import pytest

from seq2seq_attn.config import Config, PairFiles
from seq2seq_attn.corpora.tables import iterate_dataset, iterate_table
from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.runs.cache import files_key
from seq2seq_attn.runs.corpora import read_pairs
from seq2seq_attn.runs.provenance import session
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import ConfigError, parse

ROWS = [{"en": f"a {n}", "both": {"de": f"b {n}\r\nc", "fr": f"é {n}"}, "n": n} for n in range(2300)]
NAMES = ("en", "both.de")
EXPECTED = [(f"a {n}", f"b {n} c") for n in range(2300)]


@pytest.fixture(scope="module")
def datasets():
    return pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def tables(datasets, tmp_path_factory):
    """The same rows as Parquet and JSON Lines, in a folder of a data set, and as saved by the library."""
    folder = tmp_path_factory.mktemp("tables")
    datasets.disable_progress_bars()
    table = datasets.Dataset.from_list(ROWS)
    table.to_parquet(folder / "rows.parquet")
    lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    (folder / "rows.jsonl").write_text(lines)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "set").mkdir()
    table.to_parquet(folder / "set" / "train.parquet")
    table.select(range(5)).to_parquet(folder / "set" / "test.parquet")
    table.save_to_disk(folder / "saved")
    datasets.DatasetDict(train=table, test=table.select(range(5))).save_to_disk(folder / "parts")
    return folder


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    module = sys.modules.get("datasets.config")
    if module is not None:
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(module, "HF_DATASETS_CACHE", tmp_path_factory.getbasetemp() / "datasets")


@pytest.mark.slow  # imports the library for seconds
@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.jsonl.gz"])
def test_rows_of_a_file_are_pairs_in_their_order(tables, name):
    assert list(iterate_table([tables / name], NAMES)) == EXPECTED


@pytest.mark.slow
def test_several_files_follow_each_other_and_several_columns_are_joined(tables):
    files = [tables / "rows.parquet", tables / "rows.jsonl"]
    assert list(iterate_table(files, (("en", "both.fr"), "both.de")))[2299:2301] == [
        ("a 2299\té 2299", "b 2299 c"),
        ("a 0\té 0", "b 0 c"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), [("set", "train"), ("set", "test"), ("saved", "train"), ("parts", "test")])
def test_a_data_set_is_read_from_a_folder(tables, name, split):
    found = list(iterate_dataset(str(tables / name), None, split, NAMES))
    assert found == (EXPECTED[:5] if split == "test" else EXPECTED)


@pytest.mark.slow
def test_what_cannot_be_read_is_refused_in_one_line(tables, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("datasets"), "handlers", [caplog.handler])
    (tmp_path / "bad.jsonl").write_text('{"en": "a", "both": {"de": "b"}}\n{"en": null, "both": {"de": "b"}}\n')
    (tmp_path / "no.jsonl").write_text("{no table\n")
    bad, table = [tmp_path / "bad.jsonl"], [tables / "rows.parquet"]
    refusals = [
        (lambda: iterate_table(bad, NAMES), r"bad\.jsonl, row 2: en is None, not text"),
        (lambda: iterate_table([tmp_path / "no.jsonl"], NAMES), r"no\.jsonl: cannot be read"),
        (lambda: iterate_table([tmp_path / "none"], NAMES), "none: no such file"),
        (lambda: iterate_table(table, ("en", "de")), r"rows\.parquet: no column 'de'; it has en, both, n"),
        (lambda: iterate_table(table, ("en", "both.it")), r"no field 'both\.it'; it has both\.de, both\.fr"),
        (lambda: iterate_table(table, ("en", "n")), "row 1: n is 0, not text"),
        (lambda: iterate_dataset(str(tables / "set"), None, "dev", NAMES), "set: .*dev"),
        (lambda: iterate_dataset(str(tables / "set"), "xx-yy", "train", NAMES), "set: .*xx-yy"),
    ]
    for read, message in refusals:
        with pytest.raises(UserError, match=message) as refusal:
            list(read())
        assert "\n" not in str(refusal.value)
    assert not caplog.records  # the library does not say the same in its log


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_a_failure_with_the_way_out(datasets):
    with pytest.raises(FailedError, match=r"nobody/nothing: .*copy"):
        list(iterate_dataset("nobody/nothing", None, "train", NAMES))


def test_a_table_of_another_format_is_refused_before_the_library_complains(tmp_path):
    (tmp_path / "names.csv").write_text('name,norm\n"Smith, Anna",Anna Smith\n')
    with pytest.raises(UserError, match=r"names\.csv: neither Parquet nor JSON Lines; .* a TAB between"):
        list(iterate_table([tmp_path / "names.csv"], NAMES))


def test_without_the_library_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr("seq2seq_attn.errors.requires", lambda name: ["datasets>=3; extra == 'datasets'"])
    (tmp_path / "rows").write_text("{}\n")
    with pytest.raises(UserError, match=r"datasets.*\[datasets\]"):
        list(iterate_table([tmp_path / "rows"], NAMES))


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"table": "a", "tsv": "b", "columns": ["en", "de"]}, "needs either"),
        ({"table": "a"}, "names of two columns"),
        ({"tsv": "a", "columns": ["en", "de"]}, "numbers"),
        ({"dataset": "a", "columns": ["en", 1]}, "names"),
        ({"table": "a", "columns": ["en", "de"], "split": "dev"}, "split"),
        ({"source": "a", "target": "b", "columns": ["en", "de"]}, "leave them out"),
        ({"dataset": "a", "source": "b", "columns": ["en", "de"]}, "needs either"),
    ],
)
def test_records_that_mix_kinds_are_refused(files, named):
    with pytest.raises(ConfigError, match=named):
        parse(PairFiles, files)


@pytest.mark.slow
def test_a_table_is_a_corpus_like_another(tables):
    files = parse(PairFiles, {"table": str(tables / "rows.parquet"), "columns": NAMES, "tag": "<x>"})
    pairs = read_pairs(files)
    assert (pairs.source[3], pairs.target[3]) == ("<x> a 3", "b 3 c")
    assert "rows.parquet" in pairs.name
    other = parse(PairFiles, {"table": str(tables / "rows.parquet"), "columns": ("en", "both.fr"), "tag": "<x>"})
    assert files_key(other) != files_key(files)
    assert parse(PairFiles, files.model_dump(mode="json")) == files


@pytest.mark.slow
def test_a_run_on_a_data_set_records_its_text_and_is_not_resumed_on_another(tables, tmp_path, grid, datasets):
    values = grid.runs[2].config.model_dump(mode="json", exclude_defaults=True)
    values["data"]["train"] = {"dataset": str(tmp_path / "set"), "split": "test", "columns": list(NAMES)}
    values["training"]["max_epochs"] = 1
    config = parse(Config, values)
    for count in (5, 6):
        datasets.Dataset.from_list(ROWS[:count]).to_parquet(tmp_path / "set" / "test.parquet")
        if count == 5:
            train(config, tmp_path / "run", bar=None)
            (key,) = (key for key in session(config)["data"] if key.startswith("data.train"))
            assert key == "data.train.dataset"
    longer = config.model_copy(update={"training": config.training.model_copy(update={"max_epochs": 2})})
    with pytest.raises(UserError, match=r"data\.train\.dataset: its text is not what"):
        train(longer, tmp_path / "run", if_exists="resume", bar=None)
