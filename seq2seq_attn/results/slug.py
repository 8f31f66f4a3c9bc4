"""Names as parts of paths."""

from __future__ import annotations

import re


def slug(name: str) -> str:
    """`distracted (C at every step)` is `distracted-c-at-every-step`."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")
