"""What a shell completes: run folders, scorers and corpora by name. Imports nothing heavy, as it runs at every tab.

A function returns the names that begin with what was typed. If there is none, the shell completes files.
"""

from __future__ import annotations

import re
from pathlib import Path

import seq2seq_attn

MODEL = "model.safetensors"  # as in runs/folder.py, which imports torch
DEPTH = 4  # levels below what was typed: runs/EXPERIMENT/ARM/seed-N


def complete_runs(incomplete: str) -> list[str]:
    """Run folders with a model, at most `DEPTH` levels below the folder that was typed so far."""
    start = Path(incomplete if incomplete.endswith("/") else incomplete.rpartition("/")[0])
    levels = ["/".join("*" * depth) for depth in range(1, DEPTH + 1)]
    found = (path.parent for level in levels for path in start.glob(f"{level}/{MODEL}"))
    return [str(path) for path in sorted(found) if str(path).startswith(incomplete)]


def complete_corpora(incomplete: str) -> list[str]:
    """The corpora of `data list`."""
    from seq2seq_attn.text.download import known_corpora

    return [name for name in known_corpora() if name.startswith(incomplete)]


def complete_scorers(incomplete: str) -> list[str]:
    """The scorers of the package, from the class statements in its files: importing them would load torch."""
    folder = Path(seq2seq_attn.__file__).parent / "attention" / "scorers"
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    classes = re.findall(r"^class (\w+)\(\w*Scorer\):", text, re.MULTILINE)
    names = sorted(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in classes)
    return [name for name in names if name.startswith(incomplete)]
