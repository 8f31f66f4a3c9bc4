"""A small corpus, a way to spoil it, and sacrebleu's own command to compare with."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

WORDS = (
    *("the", "The", "a", "old", "Tom", "Jerry,", "cat", "mouse"),
    *("chases", "sees,", "and", "1,000", "cheese-cakes", "(small)", "house", "isn't"),
)


@pytest.fixture(scope="session")
def references() -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 17))) + "." for _ in range(90)]


@pytest.fixture(scope="session")
def spoil() -> Callable[..., list[str]]:
    """A translation of sorts: each word is another one with probability `rate`."""

    def spoil(lines: list[str], rate: float, seed: int) -> list[str]:
        draw = random.Random(seed)
        return [
            " ".join(draw.choice(WORDS) if draw.random() < rate else word for word in line.split()) for line in lines
        ]

    return spoil


@pytest.fixture(scope="session")
def sacrebleu_command(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Run `sacrebleu references -i system... options` on files and read its JSON."""

    def run(references: list[str], systems: list[list[str]], *options: str) -> Any:
        folder = tmp_path_factory.mktemp("sacrebleu")
        paths = [folder / name for name in ("references", *(f"system{i}" for i in range(len(systems))))]
        for path, lines in zip(paths, [references, *systems], strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        command = [sys.executable, "-m", "sacrebleu", str(paths[0]), *options, "--format", "json"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SACREBLEU")}
        done = subprocess.run(
            [*command, "--input", *map(str, paths[1:])],
            env=environment,
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        return json.loads(done.stdout)

    return run
