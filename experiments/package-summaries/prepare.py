"""Write Debian's package descriptions as parallel text: the beginning of the long text, and the one-line synopsis.

    python experiments/package-summaries/prepare.py  # after: seq2seq-attn data get debian-descriptions

Packages that are built from one source, from releases of one source (`llvm-toolchain-14`, `-15`), or that have a text
in common are a family. Families are divided among training, validation and test, so that no test text has a sibling in
training; validation and test have one package of each. What is left out is counted on stdout.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

WORDS = 60  # of the text
LONGEST = 16  # words of a synopsis
FAMILIES = {"test": 2000, "validation": 1000}  # the others are for training


class Description(NamedTuple):
    """What a package is, in a line and in a text."""

    package: str
    synopsis: str
    text: str  # its first words


def main(arguments: list[str] | None = None) -> None:
    """The files of every part, beside the ones that they are made from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/debian-descriptions"))
    folder = parser.parse_args(arguments).folder
    sources = {each["Package"]: each.get("Source", each["Package"]) for each in records(folder / "Packages.gz")}
    left_out: Counter[str] = Counter()
    kept = list(descriptions(records(folder / "Translation-en.gz"), sources, left_out))
    for part, pairs in divided(kept, sources).items():
        for side, lines in (("text", [each.text for each in pairs]), ("synopsis", [each.synopsis for each in pairs])):
            (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{part}: {len(pairs):,} pairs")
    print("left out: " + ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items())))


def records(path: Path) -> Iterator[dict[str, str]]:
    """The paragraphs of a control file, each as its fields; of a source, the name alone, without its version."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        fields: dict[str, str] = {}
        name = ""
        for line in lines:
            if not line.strip():
                if fields:
                    yield fields
                fields = {}
            elif line[0].isspace():
                fields[name] += f"\n{line.strip()}"
            else:
                name, _, value = line.partition(":")
                fields[name] = value.split()[0] if name == "Source" else value.strip()
        if fields:
            yield fields


def descriptions(
    found: Iterable[dict[str, str]], sources: dict[str, str], left_out: Counter[str]
) -> Iterator[Description]:
    """The descriptions that can be summarized, each text and synopsis once."""
    seen = set()
    for fields in found:
        synopsis, *lines = fields.get("Description-en", "").split("\n")
        text = " ".join(" ".join("" if line == "." else line for line in lines).split()[:WORDS])
        if fields["Package"] not in sources:
            reason = "of another release or architecture"
        elif len(text.split()) < 2 * len(synopsis.split()) or not synopsis:
            reason = "with a text shorter than two synopses"
        elif len(synopsis.split()) > LONGEST:
            reason = f"with a synopsis of more than {LONGEST} words"
        elif (synopsis, text) in seen:
            reason = "with text and synopsis of another"
        else:
            seen.add((synopsis, text))
            yield Description(fields["Package"], synopsis, text)
            continue
        left_out[reason] += 1


def divided(kept: list[Description], sources: dict[str, str]) -> dict[str, list[Description]]:
    """The descriptions of each part, families in the order of a digest of their names."""
    families = defaultdict(list)
    for each, family in zip(kept, family_names(kept, sources), strict=True):
        families[family].append(each)
    ordered = sorted(families, key=lambda name: hashlib.sha256(name.encode()).digest())
    parts = {}
    for part, count in FAMILIES.items():
        parts[part] = [families[name][0] for name in ordered[:count]]
        ordered = ordered[count:]
    parts["train"] = [each for name in ordered for each in families[name]]
    return parts


def family_names(kept: list[Description], sources: dict[str, str]) -> list[str]:
    """The family of each description: the least name of the sources that are joined by their names or texts."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while (parent := above.setdefault(name, name)) != name:
            above[name] = above[parent]
            name = parent
        return name

    names = [re.sub(r"[\d.+~-]+", "", sources[each.package]) for each in kept]
    for name, each in zip(names, kept, strict=True):
        least, other = sorted((root(name), root(f"~{each.text}")))
        above[other] = least
    return [root(name) for name in names]


if __name__ == "__main__":
    main()
