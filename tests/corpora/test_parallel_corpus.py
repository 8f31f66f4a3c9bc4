import gzip

import pytest

from seq2seq_attn.corpora.corpus import ParallelCorpus, SideStatistics, corpus_statistics, read_parallel, read_tsv
from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.files.writing import write_bytes


@pytest.fixture
def write(tmp_path):
    def written(name, content):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return written


def test_plain_and_gzip_files_are_read_line_by_line(write):
    corpus = read_parallel(write("a.en", b"one\n\ntwo"), write("a.de.gz", "eins\nnull\nzwölf\n".encode()))
    assert corpus.source == ["one", "", "two"]
    assert corpus.target == ["eins", "null", "zwölf"]
    assert len(corpus) == 3
    assert "a.en" in corpus.name
    assert "a.de.gz" in corpus.name


def test_only_newlines_end_a_line_and_carriage_returns_and_byte_order_marks_go(write):
    content = "\ufeffone\u2028still one\x0c\r\ntwo\x85still two\n".encode()
    assert read_lines(write("a", content)) == ["one\u2028still one\x0c", "two\x85still two"]


def test_files_of_different_length_are_refused_with_both_counts_and_names(write):
    with pytest.raises(UserError, match=r"a\.en has 3 lines and .*a\.de has 2;"):
        read_parallel(write("a.en", b"1\n2\n3\n"), write("a.de", b"1\n2\n"))


def test_sides_of_different_length_are_refused():
    with pytest.raises(UserError, match="mine: 2 source lines and 1 target lines"):
        ParallelCorpus(["a", "b"], ["c"], "mine")


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_bytes_that_are_not_utf8_are_refused_with_file_and_line(write, name):
    path = write(name, b"one\ntwo\nd\xe9j\xe0 vu\nfour\n")
    with pytest.raises(UserError, match=rf"{name}, line 3: not UTF-8 \(byte 0xe9\); convert"):
        read_lines(path)


def test_a_missing_or_empty_file_or_a_folder_is_refused(write, tmp_path):
    with pytest.raises(UserError, match=r"nothing\.en: no such file"):
        read_lines(tmp_path / "nothing.en")
    for name in ("a.en", "a.en.gz"):
        with pytest.raises(UserError, match=f"{name}: the file is empty"):
            read_lines(write(name, b""))
    with pytest.raises(UserError, match=": a folder; give a file"):
        read_lines(tmp_path)


def test_half_a_gzip_file_is_refused(write):
    path = write("a.gz", b"some lines\n" * 50)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"a\.gz: incomplete or corrupt gzip file"):
        read_lines(path)


def test_columns_of_a_table_are_chosen_by_number(write):
    path = write("a.tsv.gz", "Hi.\t嗨。\tCC-BY 1\nRun.\t跑。\tCC-BY 2\n".encode())
    assert read_tsv(path).target == ["嗨。", "跑。"]
    swapped = read_tsv(path, columns=(2, 0))
    assert (swapped.source, swapped.target) == (["CC-BY 1", "CC-BY 2"], ["Hi.", "Run."])
    both = read_tsv(path, columns=((2, 0), 1))
    assert (both.source, both.target) == (["CC-BY 1\tHi.", "CC-BY 2\tRun."], ["嗨。", "跑。"])


def test_a_line_with_too_few_columns_is_refused_by_number(write):
    with pytest.raises(UserError, match=r"a\.tsv, line 2: 1 tab-separated columns, at least 2.*put a TAB"):
        read_tsv(write("a.tsv", b"a\tb\nc\nd\te\n"))


def test_selected_pairs_stay_together():
    corpus = ParallelCorpus(["a", "b", "c"], ["A", "B", "C"], "mine").select([2, 0])
    assert (corpus.source, corpus.target, corpus.name) == (["c", "a"], ["C", "A"], "mine")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def full(old, new):
        raise OSError(28, "No space left on device")

    write_bytes(tmp_path / "deep" / "file", b"old")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match="file: cannot be written: No space left on device"):
        write_bytes(tmp_path / "deep" / "file", b"new")
    assert [path.read_bytes() for path in (tmp_path / "deep").iterdir()] == [b"old"]


def test_a_corpus_is_counted_in_words():
    corpus = ParallelCorpus(["the dog sees the cat", "it", "two dogs"], ["A B", "C", "A B C D E"])
    counted = corpus_statistics(corpus)
    assert counted.pairs == 3
    assert counted.source == SideStatistics(8, 7, pytest.approx(8 / 3), 2, 5)
    assert counted.target == SideStatistics(8, 5, pytest.approx(8 / 3), 2, 5)


def test_an_empty_corpus_is_refused():
    with pytest.raises(UserError, match="mine: no pair to count"):
        corpus_statistics(ParallelCorpus([], [], "mine"))
