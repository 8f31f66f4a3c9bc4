"""The experiment on spoken digits: what `prepare.py` joins, from which recordings, and where its digits are."""

import runpy
import tarfile
import wave
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prepare():
    return runpy.run_path(str(ROOT / "experiments/spoken-digits/prepare.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, prepare):
    """Two speakers whose recordings of digit d are 400 + 80 d samples of a value that tells which one it is."""
    folder = tmp_path_factory.mktemp("speech-digits")
    main, own = prepare["main"], tmp_path_factory.mktemp("own") / "recordings"
    own.mkdir()
    for digit in range(10):
        for place, speaker in enumerate(["ann", "bob"]):
            for index in (0, 5, 8, 9):
                value = 1000 + 100 * digit + 50 * place + index
                prepare["write_sound"](
                    own / f"{digit}_{speaker}_{index}.wav", np.full(400 + 80 * digit, value, dtype=np.int16)
                )
    with tarfile.open(folder / "recordings.tar", "w") as archive:
        archive.add(own, "recordings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(main.__globals__, "STRINGS", {"test": 24, "validation": 12, "train": 12})
        main([str(folder)])
    return folder


def lines(folder, name):
    return (folder / name).read_text("utf-8").splitlines()


def test_each_part_has_recordings_of_its_own(folder, prepare):
    for part, indices in {"test": {"0"}, "validation": {"5"}, "train": {"8", "9"}}.items():
        paths = [Path(line) for line in lines(folder, f"single.{part}.sounds")]
        assert {path.stem.split("_")[2] for path in paths} == indices
        words = [prepare["WORDS"][int(path.stem[0])] for path in paths]
        assert lines(folder, f"single.{part}.words") == words
        assert len(paths) == 20 * len(indices)


def test_a_string_is_of_one_speaker_and_of_its_part_and_its_links_are_within_its_digits(folder, prepare):
    sounds, words, links = (lines(folder, f"strings.test.{side}") for side in ("sounds", "words", "align"))
    assert sorted(len(line.split()) for line in words) == sorted(list(range(3, 9)) * 4)
    for sound, line, gold in zip(sounds, words, links, strict=True):
        samples = prepare["read_sound"](Path(sound)).astype(int)
        values = samples[samples >= 1000] - 1000
        assert {value % 50 for value in values} == {0}  # recording 0, as of all test recordings
        assert len({value // 50 % 2 for value in values}) == 1
        digits = [prepare["WORDS"].index(word) for word in line.split()]
        is_digit = np.concatenate([[False], samples >= 1000])
        starts = np.flatnonzero(is_digit[1:] & ~is_digit[:-1])
        assert [(samples[start] - 1000) // 100 for start in starts] == digits
        for start, following in pairwise(starts):
            pause = samples[start:following]
            assert 400 <= (pause < 1000).sum() < 2400
        found = [tuple(map(int, link.split("p"))) for link in gold.split()]
        assert {digit for _, digit in found} == set(range(len(digits)))
        for frame, digit in found:
            middle = 80 * frame + 100
            assert starts[digit] <= middle < starts[digit] + 400 + 80 * digits[digit]


def test_another_rate_is_refused(prepare, tmp_path):
    with wave.open(str(tmp_path / "fast.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(bytes(8))
    with pytest.raises(SystemExit, match=r"fast\.wav"):
        prepare["read_sound"](tmp_path / "fast.wav")


def test_error_rates_are_those_of_the_strings_with_as_many_digits():
    module = runpy.run_path(str(ROOT / "experiments/spoken-digits/by_digits.py"))
    references = ["one two three", "four five six seven", "one one one"]
    first, second = ["one two", "four five six seven", "two one one"], ["one two three", "nine", "one one one"]
    found = module["by_digits"]({"arm": [first, second]}, references)
    assert found == {"arm": {3: pytest.approx((200 / 6 + 0) / 2), 4: pytest.approx((0 + 100) / 2)}}
    assert module["table"](found).splitlines()[-1] == "| arm | 16.7 | 50.0 |"
