"""Write pictograms as pictures with captions: `woman mechanic : dark skin tone`.

    python experiments/pictograms/prepare.py  # after: seq2seq-attn data get pictograms

Twitter's pictures are for training. Of each person that is drawn in several skin tones one picture is held out, for
validation or for the test: its words are known, their combination is not. Google's pictures of all captions are another
test.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VENDORS = ("twitter", "google")
TONES = {"1F3FB": "light", "1F3FC": "medium-light", "1F3FD": "medium", "1F3FE": "medium-dark", "1F3FF": "dark"}
VALIDATION = 100
SEED = 1

Captions = list[tuple[str, str]]  # the name of a picture's file, and its caption


def main(arguments: list[str] | None = None) -> None:
    """`PART.pictures` and `PART.captions`, beside the archives; pictures are in the folders of their vendors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/pictograms"))
    folder = parser.parse_args(arguments).folder
    for vendor in VENDORS:
        with tarfile.open(folder / f"emoji-datasource-{vendor}-16.0.0.tgz") as archive:
            unpack(archive, f"package/img/{vendor}/64/", folder / vendor)
            if vendor == VENDORS[0]:
                file: Any = archive.extractfile("package/emoji.json")
                people, others = captions(json.load(file))
    draw = random.Random(SEED)
    times = Counter(caption for pairs in [*people, others] for _, caption in pairs)
    known = [tones for tones in people if all(times[caption] == 1 for _, caption in tones)]  # two are men in a tuxedo
    held_out = [tones.pop(draw.randrange(1, len(tones))) for tones in known]  # the first has no tone
    draw.shuffle(held_out)
    train = others + [each for tones in people for each in tones]
    parts = {"train": train, "validation": held_out[:VALIDATION], "test": held_out[VALIDATION:]}
    for part, pairs in parts.items():
        write(folder, part, VENDORS[0], pairs)
    write(folder, "google", VENDORS[1], train + held_out)


def unpack(archive: tarfile.TarFile, prefix: str, folder: Path) -> None:
    """Writes the files of an archive whose names have this prefix."""
    folder.mkdir(exist_ok=True)
    for member in archive:
        if member.isfile() and member.name.startswith(prefix):
            file: Any = archive.extractfile(member)
            (folder / Path(member.name).name).write_bytes(file.read())


def captions(entries: Iterable[Any]) -> tuple[list[Captions], Captions]:
    """Of each person in several skin tones, all pictures, the one without a tone first; and all other pictures."""
    people: list[Captions] = []
    others: Captions = []
    for entry in entries:
        name = re.sub(r" *([:,]) *", r" \1 ", entry["name"].lower())
        found = [(entry["image"], name)]
        for tones, picture in entry.get("skin_variations", {}).items():
            told = " , ".join(f"{TONES[tone]} skin tone" for tone in tones.split("-"))
            found.append((picture["image"], f"{name} {',' if ':' in name else ':'} {told}"))
        if len(found) > 1:
            people.append(found)
        else:
            others += found
    return people, others


def write(folder: Path, part: str, vendor: str, pairs: Captions) -> None:
    """The lists of a part; pictures that the vendor does not have are left out, and counted."""
    own = [(folder / vendor / picture, caption) for picture, caption in pairs]
    found = [(path, caption) for path, caption in own if path.exists()]
    for suffix, lines in (
        ("pictures", [path.as_posix() for path, _ in found]),
        ("captions", [caption for _, caption in found]),
    ):
        (folder / f"{part}.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{part}: {len(found):,} pictures of {vendor}; {len(own) - len(found):,} without a picture left out")


if __name__ == "__main__":
    main()
