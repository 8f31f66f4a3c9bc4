"""The base of every part's own configuration: typed, immutable, and a key that nobody knows is an error."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A configuration record. `config.py` turns what it refuses into one line with the nearest name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
