"""Write CoNLL-SIGMORPHON 2017 task 1 as parallel text: a lemma behind the features asked for, and its inflected form.

    python experiments/inflection/prepare.py  # after: seq2seq-attn data get inflection-2017

The source of Finnish `katto` in the dative plural is `<N><DAT><PL>katto`: with `text.tokenizer: character`, each
feature is one token, because `text.protected` names it, and so is each letter, blanks included.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

PARTS = {
    "train-low": "low",
    "train-medium": "medium",
    "train-high": "high",
    "dev": "validation",
    "test": "test",
}


def main(arguments: list[str] | None = None) -> None:
    """`LANGUAGE/PART.lemmas` and `LANGUAGE/PART.forms`, beside the files that they are made from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/downloaded/inflection-2017"))
    folder = parser.parse_args(arguments).folder
    for path in sorted(folder.glob("*.gz")):
        language, _, part = path.name.removesuffix(".gz").partition("-")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [line.rstrip("\n").split("\t") for line in lines]
        (folder / language).mkdir(exist_ok=True)
        sources = [tagged(lemma, features) for lemma, _, features in rows]
        for suffix, texts in (("lemmas", sources), ("forms", [form for _, form, _ in rows])):
            text = "".join(f"{line}\n" for line in texts)
            (folder / language / f"{PARTS[part]}.{suffix}").write_text(text, encoding="utf-8")


def tagged(lemma: str, features: str) -> str:
    """`katto` and `N;DAT;PL` as `<N><DAT><PL>katto`."""
    return "".join(f"<{feature}>" for feature in features.split(";")) + lemma


if __name__ == "__main__":
    main()
