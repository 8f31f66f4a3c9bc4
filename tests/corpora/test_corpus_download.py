import gzip
import hashlib
import io
import lzma
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.corpora.download import (
    CorpusFile,
    KnownCorpus,
    download_files,
    find_corpus,
    known_corpora,
)
from seq2seq_attn.errors import UserError

ENGLISH, GERMAN, ABOUT = b"one\ntwo\n", "eins\nzwölf\n".encode(), b"about\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def corpus_of(*files):
    return KnownCorpus("tiny", "", "", "", "", "", note="nobody hosts it", files=files)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on this machine: its folder, its address and the paths that were asked for."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder, asked = tmp_path / "web", []
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def tiny(server):
    """A corpus whose public files are packed in three ways."""
    folder, address, _ = server
    (folder / "train.en").write_bytes(ENGLISH)
    (folder / "train.de.gz").write_bytes(gzip.compress(GERMAN))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("tiny/about.txt", ABOUT)
        packed.writestr("tiny/more.txt", ABOUT)
    (folder / "tiny.zip").write_bytes(archive.getvalue())
    return corpus_of(
        CorpusFile("train.en.gz", sha256(ENGLISH), f"{address}/train.en"),
        CorpusFile("train.de.gz", sha256(GERMAN), f"{address}/train.de.gz"),
        CorpusFile("about.txt", sha256(ABOUT), f"{address}/tiny.zip", "tiny/about.txt"),
        CorpusFile("deep/more.txt", sha256(ABOUT), f"{address}/tiny.zip", "tiny/more.txt"),
    )


def contents(folder):
    return {
        str(path.relative_to(folder)): gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


EVERYTHING = {"train.en.gz": ENGLISH, "train.de.gz": GERMAN, "about.txt": ABOUT, "deep/more.txt": ABOUT}


def test_plain_gzipped_and_zipped_files_are_downloaded_each_archive_once(tiny, server, tmp_path):
    seen = []
    folder = download_files(tiny, tmp_path / "to", progress=lambda url, done, total: seen.append((url, done, total)))
    assert folder == tmp_path / "to"
    assert contents(folder) == EVERYTHING
    assert sum(path == "/tiny.zip" for path in server[2]) == 1
    assert seen[0] == (tiny.files[0].url, len(ENGLISH), len(ENGLISH))


def test_files_that_are_present_and_correct_are_left_alone(tiny, server, tmp_path):
    download_files(tiny, tmp_path / "to")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "to").rglob("*")}
    server[2].clear()
    (tmp_path / "to" / "train.en.gz").unlink()
    download_files(tiny, tmp_path / "to")
    assert server[2] == ["/train.en"]
    assert contents(tmp_path / "to") == EVERYTHING
    assert (tmp_path / "to" / "about.txt").stat().st_mtime_ns == before[tmp_path / "to" / "about.txt"]


def test_a_file_of_the_users_is_not_overwritten(tiny, server, tmp_path):
    (tmp_path / "train.en.gz").write_bytes(b"mine")
    with pytest.raises(UserError, match=r"train\.en\.gz: exists, and is not the file .*; nothing is overwritten"):
        download_files(tiny, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.gz")} == {"train.en.gz": b"mine"}


def test_a_file_with_a_wrong_checksum_is_refused_and_nothing_is_written(tiny, server, tmp_path):
    (server[0] / "train.en").write_bytes(b"changed\n")
    with pytest.raises(
        UserError, match=r"train\.en\.gz: the file at http.*/train\.en is another one .*--from-folder DIR"
    ):
        download_files(tiny, tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("path", "member", "message"),
    [
        ("nothing.en", None, r"cannot be downloaded from .*/nothing\.en \(HTTP Error 404"),
        ("tiny.zip", "tiny/nothing", r"is not in the archive .*/tiny\.zip"),
        ("train.en", "tiny/about.txt", r"is not in the archive .*/train\.en"),
    ],
)
def test_an_address_without_the_file_is_named_with_a_remedy(tiny, server, tmp_path, path, member, message):
    file = CorpusFile("x.txt", sha256(b"x"), f"{server[1]}/{path}", member)
    with pytest.raises(UserError, match=rf"x\.txt {message}.*seq2seq-attn data get tiny --from-folder DIR"):
        download_files(corpus_of(file), tmp_path / "to")


def test_without_a_network_the_error_names_file_address_and_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    file = CorpusFile("x.txt", sha256(b"x"), "http://127.0.0.1:9/x.txt")
    with pytest.raises(
        UserError, match=r"x\.txt cannot be downloaded from http://127\.0\.0\.1:9/x\.txt .*--from-folder DIR"
    ):
        download_files(corpus_of(file), tmp_path / "to")


def test_a_file_without_an_address_does_not_prevent_the_download_of_others(tiny, tmp_path):
    corpus = corpus_of(CorpusFile("lost.txt", sha256(b"lost")), *tiny.files)
    with pytest.raises(UserError, match=r"lost\.txt has no public address \(nobody hosts it\); .*--from-folder DIR"):
        download_files(corpus, tmp_path / "to")
    assert contents(tmp_path / "to") == EVERYTHING


@pytest.mark.parametrize("inside", ["", "tiny"])
def test_the_folder_may_contain_the_files_or_the_folder_of_the_corpus(tmp_path, inside):
    folder = tmp_path / "disk" / inside
    (folder / "deep").mkdir(parents=True)
    (folder / "train.en").write_bytes(ENGLISH)  # plain where the corpus has gzip
    (folder / "train.de.xz").write_bytes(lzma.compress(GERMAN))  # and compressed otherwise
    (folder / "deep" / "more.txt").write_bytes(ABOUT)
    corpus = corpus_of(
        CorpusFile("train.en.gz", sha256(ENGLISH), "http://127.0.0.1:9/never-asked"),
        CorpusFile("train.de.gz", sha256(GERMAN)),
        CorpusFile("deep/more.txt", sha256(ABOUT)),
    )
    download_files(corpus, tmp_path / "to", from_folder=tmp_path / "disk")
    assert contents(tmp_path / "to") == {
        name: EVERYTHING[name] for name in ("train.en.gz", "train.de.gz", "deep/more.txt")
    }


def test_a_wrong_or_missing_file_in_the_folder_is_named_and_not_copied(tmp_path):
    (tmp_path / "disk").mkdir()
    corpus = corpus_of(CorpusFile("train.en.gz", sha256(ENGLISH)))
    with pytest.raises(UserError, match=r"disk: neither train\.en\.gz nor tiny/train\.en\.gz is in this folder"):
        download_files(corpus, tmp_path / "to", from_folder=tmp_path / "disk")
    (tmp_path / "disk" / "train.en").write_bytes(b"other\n")
    with pytest.raises(UserError, match=r"disk/train\.en: not the file of the corpus tiny"):
        download_files(corpus, tmp_path / "to", from_folder=tmp_path / "disk")
    with pytest.raises(UserError, match="nowhere: no such folder"):
        download_files(corpus, tmp_path / "to", from_folder=tmp_path / "nowhere")
    assert not (tmp_path / "to").exists()


def test_a_corpus_of_the_package_is_copied_from_nowhere_else(tmp_path):
    with pytest.raises(UserError, match="reverse is in the package; leave out the folder to copy it from"):
        s2s.data.get("reverse", from_folder=tmp_path)


def test_an_unknown_corpus_is_refused_with_the_nearest_name():
    with pytest.raises(UserError, match="no corpus 'multi30k'; did you mean multi30k-en-de"):
        s2s.data.get("multi30k")


def test_every_entry_of_the_manifest_is_complete():
    made = {name for name, corpus in known_corpora().items() if corpus.is_embedded}
    assert made == {"tom-and-jerry", "tom-and-jerry-short", "copy", "reverse", "sort"}
    fetched = known_corpora().keys() - made
    assert fetched == {
        "multi30k-en-de",
        "tatoeba",
        "bible",
        "scan",
        "cmudict",
        "g2p-2020",
        "inflection-2017",
        "debian-descriptions",
        "alignments",
        "dialog-babi",
        "speech-digits",
        "asterisk-sounds",
        "mnist-digits",
        "pictograms",
    }
    for corpus in known_corpora().values():
        assert corpus.description
        assert corpus.size
        assert corpus.license
        assert corpus.page
        assert corpus.citation
        assert corpus.note or all(file.url for file in corpus.files)
        assert len({file.name for file in corpus.files}) == len(corpus.files)
        for file in corpus.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.url is None or file.url.startswith("http")
            assert (file.member is not None) == (file.url is not None and file.url.endswith(".zip"))
    assert len(find_corpus("multi30k-en-de").files) == 12
