"""The parallel text of Debian's descriptions: what a pair is, what is left out, and that no family is in two parts."""

import gzip
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "package-summaries"


@pytest.fixture
def prepared(tmp_path, capsys):
    """The pairs that are written of these packages, (name, source, synopsis, text), by part; and what is printed."""

    def prepare(packages, **sizes):
        index = "".join(f"Package: {name}\nSource: {source}\nSize: 1\n\n" for name, source, *_ in packages)
        texts = "".join(f"Package: {name}\nDescription-en: {line}\n{text}\n\n" for name, _, line, text in packages)
        texts += "Package: gone\nDescription-en: of another release\n a text of many words indeed\n\n"
        for file, content in (("Packages.gz", index), ("Translation-en.gz", texts)):
            (tmp_path / file).write_bytes(gzip.compress(content.encode()))
        names = runpy.run_path(str(FOLDER / "prepare.py"))
        names["divided"].__globals__["FAMILIES"].update(sizes)
        names["main"]([str(tmp_path)])
        read = {path.stem: [] for path in tmp_path.glob("*.text")}
        for part in read:
            sides = ((tmp_path / f"{part}.{side}").read_text().splitlines() for side in ("text", "synopsis"))
            read[part] = list(zip(*sides, strict=True))
        return read, capsys.readouterr().out

    return prepare


def test_the_text_is_its_first_sixty_words_without_the_marks_of_paragraphs(prepared):
    body = " one two\n  * three four\n .\n " + "more " * 99
    written, said = prepared([("a", "a", "short line", body)], test=1, validation=0)
    assert written["test"] == [("one two * three four " + " ".join(["more"] * 55), "short line")]
    assert "1 of another release" in said


def test_packages_of_one_source_of_its_releases_or_with_one_text_are_in_one_part_and_once_in_the_test(prepared):
    text = " it compiles programs of several languages for machines"
    packages = [
        ("llvm-14", "llvm-14 (1:2)", "compiler", f"{text} of old"),
        ("llvm-15", "llvm-15", "new compiler", f"{text} of now"),
        ("llvm-15-doc", "llvm-15", "manual of the compiler", f"{text} of now, documented"),
        ("copied", "other", "another compiler", f"{text} of now"),
        ("cat", "cat", "prints files", " it prints one file after the other to the terminal"),
    ]
    found = set()
    for sizes in ({"test": 1, "validation": 1}, {"test": 1, "validation": 0}, {"test": 0, "validation": 0}):
        written, _ = prepared(packages, **sizes)
        found |= {tuple(sorted((part, len(pairs)) for part, pairs in written.items()))}
        compilers = [part for part, pairs in written.items() if any("compiler" in line for _, line in pairs)]
        assert len(set(compilers)) == 1
    alone = (("test", 1), ("train", 0), ("validation", 1))
    assert alone in found  # four compilers, one of which is shown
    assert (("test", 0), ("train", 5), ("validation", 0)) in found


def test_what_cannot_be_summarized_is_left_out_and_counted(prepared):
    text = " a text that is as long as it must be"
    packages = [
        ("a", "a", "short line", text),
        ("b", "b", "short line", text),
        ("c", "c", "a line that is longer than half of it", text),
    ]
    written, said = prepared(packages, test=0, validation=0)
    assert [line for _, line in written["train"]] == ["short line"]
    assert "1 with a text shorter than two synopses, 1 with text and synopsis of another" in said
