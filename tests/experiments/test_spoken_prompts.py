"""The experiment on spoken prompts: what `prepare.py` takes out of the packages, what is said, and what is left out."""

import gzip
import io
import runpy
import tarfile
import wave
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = """; a remark

hello: Hello.
menu/press: Press 1, 2 or 30 to leave.
menu/star: Press star [*] for help...
silence/1: (1 second of silence)
story: A long story.
"""


@pytest.fixture(scope="module")
def prepare():
    return runpy.run_path(str(ROOT / "experiments/spoken-prompts/prepare.py"))


def package(path, files):
    """A Debian package: `ar` with a member of odd length before the archive of the files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./usr/share/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    members = {"debian-binary": b"2.0", "data.tar.xz": content.getvalue()}
    packed = b"!<arch>\n"
    for name, data in members.items():
        packed += f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    path.write_bytes(packed)


def sound(seconds):
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(int(seconds * 8000) * 2))
    return content.getvalue()


def packages(prepare, folder, sounds, transcripts):
    recordings = {f"asterisk/sounds/en_US_f_Allison/{name}.wav": sound(seconds) for name, seconds in sounds.items()}
    package(folder / prepare["RECORDINGS"], recordings)
    text = {"doc/asterisk-core-sounds-en/core-sounds-en.txt.gz": gzip.compress(transcripts.encode())}
    package(folder / prepare["TRANSCRIPTS"], text)


def lines(folder, name):
    return (folder / name).read_text("utf-8").splitlines()


def test_prompts_are_unpacked_and_those_that_cannot_be_learned_from_are_counted(prepare, tmp_path, capsys):
    sounds = {"hello": 1, "menu/press": 2, "menu/star": 2, "silence/1": 1, "story": 9, "unknown": 1}
    packages(prepare, tmp_path, sounds, TRANSCRIPTS)
    prepare["main"]([str(tmp_path)])
    found = {}
    for part in ("train", "validation", "test"):
        for path, words in zip(lines(tmp_path, f"{part}.sounds"), lines(tmp_path, f"{part}.words"), strict=True):
            found[path] = words
            with wave.open(path) as file:
                assert file.getframerate() == 8000
    assert found == {
        str(tmp_path / "sounds/hello.wav"): "hello",
        str(tmp_path / "sounds/menu/star.wav"): "press star for help",
    }
    assert "left out: 1 longer than 8 seconds, 1 with a number or sign, 2 without words" in capsys.readouterr().out


def test_no_words_are_in_two_parts_and_single_words_are_for_training(prepare, tmp_path):
    numbers = ["abcdefghij"[number % 10] * (1 + number // 10) for number in range(60)]
    transcripts = {f"{name}-{end}": f"Number {name}{end}" for name in numbers for end in ("", "!")}
    transcripts |= {f"word{number}": "ab"[number % 2] * (1 + number) for number in range(20)}
    text = "".join(f"{name}: {words}\n" for name, words in transcripts.items())
    packages(prepare, tmp_path, dict.fromkeys(transcripts, 0.1), text)
    prepare["main"]([str(tmp_path)])
    train, validation, test = (lines(tmp_path, f"{part}.words") for part in ("train", "validation", "test"))
    assert len(train) + len(validation) + len(test) == 140
    assert not set(train) & set(validation)
    assert not set(train) & set(test)
    assert not set(validation) & set(test)
    assert validation
    assert test
    assert all(" " in words for words in validation + test)


@pytest.mark.parametrize(
    ("transcript", "words"),
    [
        ("Press 7, or 4 to dial.  It's 3D!", "press seven or four to dial it's three d"),
        ("...to re-record (beep) at A.M. <beep>", "to re record at a m"),
        ("[sound of monkeys]", ""),
    ],
)
def test_what_is_said(prepare, transcript, words):
    assert prepare["spoken"](transcript) == words


def test_longer_numbers_are_not_read_digit_by_digit(prepare):
    for transcript in ("dial 500", "a 28.8 kilobit modem", "H.323"):
        assert any(letter.isdigit() for letter in prepare["spoken"](transcript))


def test_another_file_is_refused_by_its_name(prepare, tmp_path):
    (tmp_path / "page.deb").write_text("<html>")
    with pytest.raises(SystemExit, match=r"page\.deb"):
        prepare["unpacked"](tmp_path / "page.deb")
