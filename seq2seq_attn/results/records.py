"""The names of the folders in which a comparison keeps its runs."""

from __future__ import annotations

import re
from pathlib import Path

_DEVICE = re.compile("con|prn|aux|nul|(com|lpt)[0-9¹²³]")

RUNS = "runs"  # in the folder of a comparison


def slug(name: str) -> str:
    """A name for use in a path: `distracted (C at every step)` becomes `distracted-c-at-every-step`.

    Names that Windows keeps for devices, such as `con`, get a hyphen.
    """
    found = re.sub(r"[^\w]+", "-", name.lower()).strip("-")
    return f"{found}-" if _DEVICE.fullmatch(found) else found


def run_folder(arm: str, seed: int) -> Path:
    """The folder of a run, relative to `RUNS` in the folder of its comparison."""
    return Path(slug(arm)) / f"seed-{seed}"
