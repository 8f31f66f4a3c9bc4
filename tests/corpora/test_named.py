"""Corpora by sacrebleu's and mtdata's names: from a fabricated cache, and by a program that stands in for mtdata."""

import os
import sys
import urllib.request

import pytest
from sacrebleu.dataset import DATASETS

import seq2seq_attn as s2s
from seq2seq_attn.config import PairFiles, TestFiles
from seq2seq_attn.corpora.corpus import find_pairs
from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.strict import parse

SOURCE, REFERENCE = "Tom runs .\nJerry hides .\n", "Tom läuft .\nJerry versteckt sich .\n"


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise urllib.request.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.chdir(tmp_path)


def fabricate(folder):
    """A test set as sacrebleu keeps it, once it has read what it downloaded."""
    (folder / "wmt17").mkdir(parents=True)
    fields = {"src": SOURCE, "ref": REFERENCE, "docid": "a\nb\n", "genre": "news\nnews\n", "origlang": "en\nen\n"}
    for field, text in fields.items():
        (folder / "wmt17" / f"wmt17.en-de.{field}").write_text(text)
    return folder


@pytest.fixture
def cached(monkeypatch, tmp_path):
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "cache"))
    return fabricate(tmp_path / "cache") / "wmt17"


def test_a_configuration_names_a_test_set_and_its_record_the_files(cached):
    found = parse(TestFiles, {"sacrebleu": "wmt17", "pair": "en-de"})
    assert (found.source, found.target) == (cached / "wmt17.en-de.src", cached / "wmt17.en-de.ref")
    cached.rename(cached.with_name("elsewhere"))  # a complete configuration downloads nothing
    assert parse(TestFiles, found.model_dump(mode="json")) == found
    assert parse(PairFiles, found.model_dump(include={*PairFiles.model_fields})).target == found.target


def test_further_references_are_those_of_the_test_set(cached, monkeypatch):
    (cached / "wmt17.en-de.ref-B").write_text(REFERENCE)
    monkeypatch.setattr(type(DATASETS["wmt17"]), "fieldnames", lambda self, pair: ["src", "ref", "ref:B"])
    found = parse(TestFiles, {"sacrebleu": "wmt17", "pair": "en-de"})
    assert found.references == (cached / "wmt17.en-de.ref-B",)
    assert parse(PairFiles, {"sacrebleu": "wmt17", "pair": "en-de"}).target == cached / "wmt17.en-de.ref"
    assert sorted(path.name for path in s2s.data.get("sacrebleu:wmt17:en-de").iterdir()) == [
        "test.de", "test.en", "test.reference-2.de",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"sacrebleu": "wmt-17", "pair": "en-de"}, "wmt17"),
        ({"sacrebleu": "wmt17", "pair": "en-xx"}, "de-en"),
        ({"sacrebleu": "wmt17"}, "pair"),
        ({"pair": "en-de", "tsv": "x.tsv"}, "sacrebleu"),
        ({"sacrebleu": "wmt17", "pair": "en-de", "tsv": "x.tsv"}, "tsv"),
        ({"sacrebleu": "wmt18", "pair": "en-de"}, "seq2seq-attn data get sacrebleu:wmt18:en-de --from-folder DIR"),
    ],
    ids=["unknown set", "unknown pair", "no pair", "no set", "files as well", "no network"],
)
def test_what_is_not_there_is_refused_with_the_way_out(cached, values, named):
    with pytest.raises(UserError, match=named):
        parse(TestFiles, values)


def test_a_test_set_is_written_from_a_folder_that_another_machine_downloaded(monkeypatch, tmp_path):
    fabricate(tmp_path / "disk")
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "empty"))
    name = "sacrebleu:wmt17:en-de"
    with pytest.raises(UserError, match="data get sacrebleu:wmt17:en-de"):
        s2s.data.stats(name)
    with pytest.raises(UserError, match="--from-folder"):
        s2s.data.get(name)
    folder = s2s.data.get(name, from_folder="disk")
    assert str(folder) == "data/downloaded/wmt17-en-de"
    files = find_pairs(folder)["test"]
    assert {path.name: path.read_text() for path in files} == {"test.de": REFERENCE, "test.en": SOURCE}
    assert s2s.data.stats(name)[0].counts.pairs == 2


IDENTITY = "Tiny-news-1-deu-eng"
PROGRAM = f"""#!{sys.executable}
import os, pathlib, sys
arguments = sys.argv[1:]
folder = pathlib.Path(arguments[arguments.index("--out") + 1])
assert arguments[:6] == ["get", "--langs", "deu-eng", "--train", {IDENTITY!r}, "--merge"], arguments
print("to stdout")
if not os.environ.get("MTDATA", "").endswith("disk"):
    sys.exit("ConnectionError: no network")
folder.mkdir(exist_ok=True)
(folder / "train-parts").mkdir()
(folder / "train.deu").write_text("Tom läuft .\\n")
(folder / "train.eng").write_text("Tom runs .\\n")
(folder / "mtdata.signature.txt").write_text("mtdata 0\\n")
"""


@pytest.fixture
def mtdata(monkeypatch, tmp_path):
    """A program in place of mtdata."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mtdata").write_text(PROGRAM)
    (tmp_path / "bin" / "mtdata").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "disk").mkdir()


@pytest.mark.usefixtures("mtdata")
def test_mtdata_gets_a_training_corpus_as_a_whole_or_not_at_all(tmp_path):
    name = f"mtdata:{IDENTITY}"
    with pytest.raises(FailedError, match=r"ConnectionError: no network.*--from-folder DIR"):
        s2s.data.get(name)
    assert not list((tmp_path / "data" / "downloaded").iterdir())
    found = s2s.data.get(name, from_folder="disk")
    assert sorted(path.name for path in found.iterdir()) == ["mtdata.signature.txt", "train.deu", "train.eng"]
    assert s2s.data.stats(name)[0].counts.pairs == 1
    assert s2s.data.get(name) == found  # without the program, which would fail


def test_without_the_program_or_with_no_id_mtdata_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in (f"mtdata:{IDENTITY}", "mtdata:news"):
        with pytest.raises(UserError, match="mtdata"):
            s2s.data.get(name)
